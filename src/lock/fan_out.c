/* SPDX-License-Identifier: MIT */
#include "lock/fan_out.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/client.h"
#include "lock/operation.h"

#define SLICE_MS 100 /* a sleep is at most so long: connections come and go meanwhile */

struct lk__fan_out {
	pthread_mutex_t mutex;
	size_t count, waiting; /* nodes; commands without an answer */
	struct lk__fan_out_use use;
	struct lk__thread *thread; /* the caller's */
	int fd;                    /* wakes it; -1: an asynchronous call, which is woken itself */
	bool asleep, over;
	struct lk__fan_out_part node[]; /* `count` */
};

struct lk__fan_out *lk__fan_out_new(size_t count, const struct lk__fan_out_use *use,
				    struct lk__thread *thread)
{
	assert(count <= LK__FAN_OUT_NODES_MAX);
	struct lk__fan_out *fan_out = calloc(1, sizeof(*fan_out) + count * sizeof(*fan_out->node));
	if (!fan_out) {
		errno = ENOMEM;
		return NULL;
	}
	fan_out->use = *use;
	fan_out->thread = thread;
	fan_out->fd = thread->on_wake ? -1 : lk__wake_fd_new();
	if (fan_out->fd < 0 && !thread->on_wake) {
		int failed = errno;
		free(fan_out);
		errno = failed;
		return NULL;
	}
	pthread_mutex_init(&fan_out->mutex, NULL);
	fan_out->count = count;
	for (size_t i = 0; i < count; i++)
		fan_out->node[i].fan_out = fan_out;
	return fan_out;
}

static void fan_out_free(struct lk__fan_out *fan_out)
{
	for (size_t i = 0; i < fan_out->count; i++)
		for (size_t j = 0; j < fan_out->node[i].count; j++)
			lk__request_free(fan_out->node[i].request[j]);
	if (fan_out->use.end)
		fan_out->use.end(fan_out->use.context);
	if (fan_out->fd >= 0)
		lk__fd_close(fan_out->fd);
	pthread_mutex_destroy(&fan_out->mutex);
	free(fan_out);
}

/* A calling thread sleeps at a descriptor of the fan-out. An asynchronous call is woken at its own
 * place, which may be gone with its client when a late answer comes. */
static bool is_asynchronous(const struct lk__fan_out *fan_out)
{
	return fan_out->fd < 0;
}

/* While a node has not answered an asynchronous call, its client's loop listens as for its own. */
static void part_listen(const struct lk__fan_out_part *part, bool listens)
{
	lk_client *client = part->conn->node->context;
	if (!is_asynchronous(part->fan_out))
		return;
	if (listens)
		atomic_fetch_add(&client->asyncs.listeners, 1);
	else
		atomic_fetch_sub(&client->asyncs.listeners, 1);
}

static void fan_out_wake(const struct lk__fan_out *fan_out)
{
	if (is_asynchronous(fan_out))
		lk__thread_wake(fan_out->thread);
	else
		lk__wake_fd(fan_out->fd);
}

/* An answer is there: the caller's, or too late for it. */
static void fan_out_finish(struct lk__request *request)
{
	struct lk__fan_out_part *node = request->owner;
	struct lk__fan_out *fan_out = node->fan_out;
	pthread_mutex_lock(&fan_out->mutex);
	assert(fan_out->waiting > 0 && node->done < node->count);
	bool complete = ++node->done == node->count;
	bool late = fan_out->over && complete && fan_out->use.late;
	if (complete)
		part_listen(node, false);
	if (complete && fan_out->asleep)
		fan_out_wake(fan_out);
	if (late) {
		pthread_mutex_unlock(&fan_out->mutex);
		fan_out->use.late(fan_out->use.context, (size_t)(node - fan_out->node), node);
		pthread_mutex_lock(&fan_out->mutex);
	}
	bool last = --fan_out->waiting == 0 && fan_out->over;
	pthread_mutex_unlock(&fan_out->mutex);
	if (last)
		fan_out_free(fan_out);
}

void lk__fan_out_add(struct lk__fan_out *fan_out, size_t index, struct lk__conn *conn,
		     struct lk__request *request)
{
	struct lk__fan_out_part *node = &fan_out->node[index];
	bool fits = node->count < LK__FAN_OUT_ASKS_MAX && node->done == 0;
	if (request && fits) {
		request->owner = node;
		request->finish = fan_out_finish;
		node->conn = conn;
		node->request[node->count++] = request;
		fan_out->waiting++;
		return;
	}
	lk__request_free(request);
	for (size_t i = 0; i < node->count; i++)
		lk__request_free(node->request[i]);
	fan_out->waiting -= node->count;
	*node = (struct lk__fan_out_part){.fan_out = fan_out, .done = 1}; /* fits nothing more */
}

static void part_ask(const struct lk__fan_out_part *part, struct lk__request *request)
{
	if (is_asynchronous(part->fan_out))
		lk__conn_submit(part->conn, request);
	else
		lk__conn_put(part->conn, request);
}

static void part_asked(const struct lk__fan_out_part *part)
{
	if (!is_asynchronous(part->fan_out))
		lk__conn_send_queued(part->conn);
}

/* All of them first: what goes to one connection leaves in one write. */
void lk__fan_out_go(struct lk__fan_out *fan_out)
{
	for (size_t i = 0; i < fan_out->count; i++) {
		const struct lk__fan_out_part *part = &fan_out->node[i];
		if (part->count > 0)
			part_listen(part, true);
		for (size_t j = 0; j < part->count; j++)
			part_ask(part, part->request[j]);
	}
	for (size_t i = 0; i < fan_out->count; i++)
		if (fan_out->node[i].count > 0)
			part_asked(&fan_out->node[i]);
	for (size_t i = 0; i < fan_out->count; i++)
		if (fan_out->node[i].count > 0)
			lk__conn_settle(fan_out->node[i].conn);
}

const struct lk__fan_out_part *lk__fan_out_at(const struct lk__fan_out *fan_out, size_t node)
{
	return &fan_out->node[node];
}

/* Sleeps until an answer may be there, and reads it. */
static void fan_out_sleep(struct lk__fan_out *fan_out, int64_t until_ns, lk_cancel *cancel)
{
	struct pollfd fds[LK__FAN_OUT_NODES_MAX + 2] = {
		{.fd = fan_out->fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	bool open[LK__FAN_OUT_NODES_MAX] = {false};
	const struct lk__conn *last = NULL;
	int most_ms = SLICE_MS;
	pthread_mutex_lock(&fan_out->mutex);
	for (size_t i = 0; i < fan_out->count; i++)
		open[i] = fan_out->node[i].done < fan_out->node[i].count;
	pthread_mutex_unlock(&fan_out->mutex);
	for (size_t i = 0; i < fan_out->count; i++) {
		struct lk__conn *conn = fan_out->node[i].conn;
		fds[i + 2].fd = -1;
		if (!open[i] || conn == last) /* several parts in a row may be on one connection */
			continue;
		last = conn;
		if (!lk__conn_poll(conn, &fds[i + 2]))
			continue;
		/* Bytes that were read already; or refused, if closed: for us to finish. */
		lk__conn_attend(conn, fan_out->thread, false);
		most_ms = fds[i + 2].fd < 0 ? most_ms : 0;
	}
	lk__cancel_poll(cancel, fds, fan_out->count + 2,
			lk__ms_until(lk__now_ns(), until_ns, most_ms));
	pthread_mutex_lock(&fan_out->mutex);
	fan_out->asleep = false; /* what it reads itself need not wake it */
	pthread_mutex_unlock(&fan_out->mutex);
	if (fds[0].revents)
		lk__wake_fd_clear(fan_out->fd);
	for (size_t i = 0; i < fan_out->count; i++)
		if (fds[i + 2].revents)
			lk__conn_attend(fan_out->node[i].conn, fan_out->thread, false);
}

static bool part_done(const struct lk__fan_out_part *part)
{
	return part->count > 0 && part->done == part->count;
}

static void fan_out_take(struct lk__fan_out *fan_out)
{
	const struct lk__fan_out_use *use = &fan_out->use;
	for (size_t i = 0; use->take && i < fan_out->count; i++) {
		struct lk__fan_out_part *node = &fan_out->node[i];
		if (node->taken || !part_done(node))
			continue;
		node->taken = true;
		use->take(use->context, i, node);
	}
}

bool lk__fan_out_more(struct lk__fan_out *fan_out, size_t index, struct lk__conn *conn,
		      struct lk__request *request)
{
	struct lk__fan_out_part *node = &fan_out->node[index];
	if (!request || node->count == LK__FAN_OUT_ASKS_MAX) {
		lk__request_free(request);
		return false;
	}
	request->owner = node;
	request->finish = fan_out_finish;
	node->request[node->count++] = request;
	node->conn = conn;
	node->taken = false;
	fan_out->waiting++;
	if (node->count == node->done + 1)
		part_listen(node, true);
	part_ask(node, request);
	part_asked(node);
	return true;
}

bool lk__fan_out_look(struct lk__fan_out *fan_out)
{
	pthread_mutex_lock(&fan_out->mutex);
	fan_out_take(fan_out);
	bool ready = fan_out->use.decided(fan_out->use.context) || fan_out->waiting == 0;
	fan_out->asleep = !ready;
	pthread_mutex_unlock(&fan_out->mutex);
	return ready;
}

int lk__fan_out_wait(struct lk__fan_out *fan_out, int64_t until_ns, lk_cancel *cancel)
{
	for (;;) {
		if (lk__fan_out_look(fan_out))
			return LK__WAIT_READY;
		if (lk__cancelled(cancel))
			return LK_ECANCELLED;
		if (lk__now_ns() >= until_ns)
			return LK__WAIT_TIME_UP;
		fan_out_sleep(fan_out, until_ns, cancel);
	}
}

void lk__fan_out_hurry(struct lk__fan_out *fan_out)
{
	for (size_t i = 0; i < fan_out->count; i++) {
		const struct lk__fan_out_part *node = &fan_out->node[i];
		bool hurried = false;
		for (size_t j = 0; j < node->count; j++)
			hurried |= lk__conn_hurry(node->request[j]);
		if (hurried) /* we hold nothing that its `finish` wants */
			lk__conn_settle(node->conn);
	}
}

void lk__fan_out_withdraw(struct lk__fan_out *fan_out)
{
	for (size_t i = 0; i < fan_out->count; i++) {
		const struct lk__fan_out_part *node = &fan_out->node[i];
		for (size_t j = 0; j < node->count; j++)
			if (lk__conn_withdraw(node->request[j]))
				fan_out_finish(node->request[j]);
	}
	pthread_mutex_lock(&fan_out->mutex);
	fan_out_take(fan_out);
	pthread_mutex_unlock(&fan_out->mutex);
}

void lk__fan_out_end(struct lk__fan_out *fan_out)
{
	const struct lk__fan_out_use *use = &fan_out->use;
	bool missed[LK__FAN_OUT_NODES_MAX] = {false}, open[LK__FAN_OUT_NODES_MAX] = {false};
	pthread_mutex_lock(&fan_out->mutex);
	fan_out->asleep = false;
	fan_out->over = true;
	fan_out->waiting++; /* ours */
	for (size_t i = 0; i < fan_out->count; i++) {
		missed[i] = !fan_out->node[i].taken && part_done(&fan_out->node[i]);
		open[i] = fan_out->node[i].done < fan_out->node[i].count;
	}
	pthread_mutex_unlock(&fan_out->mutex);
	for (size_t i = 0; i < fan_out->count; i++) {
		if (use->late && missed[i])
			use->late(use->context, i, &fan_out->node[i]);
		if (!open[i])
			continue;
		if (!is_asynchronous(fan_out))
			lk__conn_forgo(fan_out->node[i].conn);
		/* It may have been asked for more by `take`, under the mutex. */
		lk__conn_settle(fan_out->node[i].conn);
	}
	pthread_mutex_lock(&fan_out->mutex);
	bool last = --fan_out->waiting == 0;
	pthread_mutex_unlock(&fan_out->mutex);
	if (last)
		fan_out_free(fan_out);
}

/* ---- one command each, all of them ---- */

static void ask_read(const struct lk__asks *asks, size_t index, const struct lk__request *request)
{
	asks->read(asks->context, index, request);
	lk__conn_unpin(asks->of[index].conn);
}

static void ask_take(void *context, size_t index, const struct lk__fan_out_part *answers)
{
	ask_read(context, index, answers->request[0]);
}

static bool asks_want_all(void *context)
{
	(void)context;
	return false;
}

/* NULL when memory or a descriptor is missing: then they cannot be asked all at once. */
static struct lk__fan_out *asks_fan_out(struct lk__asks *asks, struct lk__thread *thread)
{
	const struct lk__fan_out_use use = {
		.context = asks, .take = ask_take, .decided = asks_want_all};
	return lk__fan_out_new(asks->count, &use, thread);
}

static void asks_go(struct lk__asks *asks)
{
	for (size_t i = 0; i < asks->count; i++)
		lk__fan_out_add(asks->fan_out, i, asks->of[i].conn, asks->of[i].request);
	lk__fan_out_go(asks->fan_out);
}

static void asks_end(struct lk__asks *asks)
{
	struct lk__fan_out *fan_out = asks->fan_out;
	asks->fan_out = NULL;
	asks->next = asks->count;
	lk__fan_out_hurry(fan_out);
	lk__fan_out_withdraw(fan_out);
	for (size_t i = 0; i < asks->count; i++) {
		struct lk__fan_out_part *node = &fan_out->node[i];
		pthread_mutex_lock(&fan_out->mutex);
		if (!node->taken)
			ask_read(asks, i, part_done(node) ? node->request[0] : NULL);
		node->taken = true;
		pthread_mutex_unlock(&fan_out->mutex);
	}
	lk__fan_out_end(fan_out);
}

/* One after the other: the next one, if there is one. */
static void ask_next(struct lk__asks *asks, struct lk__op *op)
{
	const struct lk__ask *ask = &asks->of[asks->next];
	if (asks->next < asks->count)
		lk__op_send(op, ask->conn, ask->request, asks->until_ns);
}

/* None can be asked: an asynchronous call has no memory to ask all at once. */
static void asks_fail(struct lk__asks *asks)
{
	for (; asks->next < asks->count; asks->next++) {
		struct lk__request *request = asks->of[asks->next].request;
		request->code = LK_ENOMEM;
		snprintf(request->reason, sizeof(request->reason), "out of memory");
		ask_read(asks, asks->next, request);
		lk__request_free(request);
	}
}

void lk__asks_begin(struct lk__asks *asks, struct lk__op *op, int64_t until_ns)
{
	bool resumed = op->thread->on_wake != NULL;
	asks->until_ns = until_ns;
	asks->next = 0;
	asks->fan_out = NULL;
	if (asks->count > 1 || resumed)
		asks->fan_out = asks_fan_out(asks, op->thread);
	for (size_t i = 0; i < asks->count; i++)
		lk__conn_pin(asks->of[i].conn);
	if (asks->fan_out) {
		asks_go(asks);
		lk__op_wait_nodes(op, asks->fan_out, until_ns);
	} else if (resumed) {
		asks_fail(asks);
	} else {
		ask_next(asks, op);
	}
}

/* Looks at requests that are asked one after the other: when the present one is over, the next is
 * asked. */
static bool ask_look(struct lk__asks *asks, struct lk__op *op, bool gives_up)
{
	struct lk__request *request = op->request;
	bool done = lk__op_is_answered(op);
	if (!done && !gives_up && lk__now_ns() < op->until_ns)
		return false;
	if (!done)
		done = lk__op_leave(op, true, lk__request_forget);
	ask_read(asks, asks->next, done ? request : NULL);
	if (done)
		lk__request_free(request);
	asks->next++;
	ask_next(asks, op);
	return true;
}

bool lk__asks_look(struct lk__asks *asks, struct lk__op *op, bool gives_up)
{
	if (asks->fan_out) {
		if (!lk__fan_out_look(asks->fan_out) && !gives_up && lk__now_ns() < op->until_ns)
			return false;
		asks_end(asks);
		return true;
	}
	while (asks->next < asks->count)
		if (!ask_look(asks, op, gives_up))
			return false;
	return true;
}

/* ---- the whole of it, in the calling thread ---- */

struct asks_call {
	struct lk__op op;
	struct lk__asks *asks;
	int64_t until_ns;
	bool begun;
};

static int asks_step(struct lk__op *op)
{
	struct asks_call *call = (struct asks_call *)op;
	if (!call->begun)
		lk__asks_begin(call->asks, op, call->until_ns);
	call->begun = true;
	return lk__asks_look(call->asks, op, false) ? 0 : LK__OP_WAITS;
}

void lk__asks_run(struct lk__asks *asks, struct lk__thread *thread, int64_t until_ns)
{
	struct asks_call call = {.asks = asks, .until_ns = until_ns};
	lk__op_begin(&call.op, asks_step, thread, NULL);
	lk__op_run(&call.op);
}
