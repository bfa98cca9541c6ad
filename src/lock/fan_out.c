/* SPDX-License-Identifier: MIT */
#include "lock/fan_out.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/client.h"

#define SLICE_MS 100 /* a sleep is at most so long: connections come and go meanwhile */

struct lk__fan_out {
	pthread_mutex_t mutex;
	size_t count, waiting; /* nodes; commands without an answer */
	struct lk__fan_out_use use;
	struct lk__thread *thread; /* the caller's */
	bool asynchronous;         /* it is woken itself; else by */
	int fd;                    /* -1: there was none to be had, and it looks by itself */
	bool sent, asleep, over;
	struct lk__fan_out_part node[]; /* `count` */
};

struct lk__fan_out *lk__fan_out_new(size_t count, const struct lk__fan_out_use *use,
				    struct lk__thread *thread)
{
	assert(count <= LK__FAN_OUT_NODES_MAX);
	struct lk__fan_out *fan_out = calloc(1, sizeof(*fan_out) + count * sizeof(*fan_out->node));
	if (!fan_out)
		return NULL;
	fan_out->use = *use;
	fan_out->thread = thread;
	fan_out->asynchronous = thread && thread->on_wake;
	fan_out->fd = !thread || thread->on_wake ? -1 : lk__wake_fd_new();
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

/* While a node has not answered an asynchronous call, its client's loop listens as for its own. */
static void part_listen(const struct lk__fan_out_part *part, bool listens)
{
	lk_client *client = part->conn->node->context;
	if (!part->fan_out->asynchronous)
		return;
	if (listens)
		atomic_fetch_add(&client->asyncs.listeners, 1);
	else
		atomic_fetch_sub(&client->asyncs.listeners, 1);
}

static void fan_out_wake(const struct lk__fan_out *fan_out)
{
	if (fan_out->asynchronous)
		lk__thread_wake(fan_out->thread);
	else if (fan_out->fd >= 0)
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

static void part_ask(const struct lk__fan_out_part *part, struct lk__request *request)
{
	if (part->fan_out->asynchronous)
		lk__conn_submit(part->conn, request);
	else
		lk__conn_put(part->conn, request);
}

static void part_asked(const struct lk__fan_out_part *part)
{
	if (!part->fan_out->asynchronous)
		lk__conn_send_queued(part->conn);
}

bool lk__fan_out_add(struct lk__fan_out *fan_out, size_t index, struct lk__conn *conn,
		     struct lk__request *request)
{
	struct lk__fan_out_part *node = &fan_out->node[index];
	if (!request)
		return false;
	assert(node->count < LK__FAN_OUT_ASKS_MAX);
	request->owner = node;
	request->finish = fan_out_finish;
	node->request[node->count++] = request;
	node->conn = conn;
	node->taken = false;
	fan_out->waiting++;
	if (fan_out->sent) {
		if (node->count == node->done + 1)
			part_listen(node, true);
		part_ask(node, request);
		part_asked(node);
	}
	return true;
}

/* All of them first: what goes to one connection leaves in one write. */
void lk__fan_out_go(struct lk__fan_out *fan_out)
{
	fan_out->sent = true;
	for (size_t i = 0; i < fan_out->count; i++) {
		const struct lk__fan_out_part *part = &fan_out->node[i];
		if (part->count > 0)
			part_listen(part, true);
		for (size_t j = 0; j < part->count; j++)
			part_ask(part, part->request[j]);
	}
	for (size_t i = 0; i < fan_out->count; i++)
		if (fan_out->node[i].count > 0) {
			if (fan_out->use.behind)
				fan_out->use.behind(fan_out->use.context, i);
			part_asked(&fan_out->node[i]);
		}
	for (size_t i = 0; i < fan_out->count; i++)
		if (fan_out->node[i].count > 0)
			lk__conn_settle(fan_out->node[i].conn);
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

bool lk__fan_out_look(struct lk__fan_out *fan_out, int64_t until_ns)
{
	const struct lk__fan_out_use *use = &fan_out->use;
	pthread_mutex_lock(&fan_out->mutex);
	fan_out_take(fan_out);
	bool ready = fan_out->waiting == 0 || lk__now_ns() >= until_ns ||
		     (use->decided && use->decided(use->context));
	fan_out->asleep = !ready;
	pthread_mutex_unlock(&fan_out->mutex);
	return ready;
}

void lk__fan_out_wait(struct lk__fan_out *fan_out, int64_t until_ns, lk_cancel *cancel)
{
	while (!lk__fan_out_look(fan_out, until_ns) && !lk__cancelled(cancel))
		fan_out_sleep(fan_out, until_ns, cancel);
}

void lk__fan_out_withdraw(struct lk__fan_out *fan_out, bool hurries)
{
	for (size_t i = 0; i < fan_out->count; i++) {
		const struct lk__fan_out_part *node = &fan_out->node[i];
		bool hurried = false;
		for (size_t j = 0; hurries && j < node->count; j++)
			hurried |= lk__conn_hurry(node->request[j]);
		if (hurried) /* we hold nothing that its `finish` wants */
			lk__conn_settle(node->conn);
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
		if (!fan_out->asynchronous)
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
