/* SPDX-License-Identifier: MIT */
#include "drive/gather.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"

#define SLICE_MS 100 /* a sleep is at most so long: connections come and go meanwhile */

struct slot {
	struct lk__gather *gather;
	size_t node;
};

struct lk__gather {
	pthread_mutex_t mutex;
	size_t count, waiting; /* nodes; commands without an answer */
	int fd;                /* the sleeping caller's */
	bool asleep, over;
	void (*late)(void *context, size_t node, const struct lk__gathered *gathered);
	void (*end)(void *context);
	void *context;
	struct slot slot[LK__GATHER_NODES_MAX];
	struct lk__gathered node[LK__GATHER_NODES_MAX];
};

struct lk__gather *lk__gather_new(size_t count)
{
	struct lk__gather *gather = count <= LK__GATHER_NODES_MAX ? calloc(1, sizeof(*gather))
								  : NULL;
	if (!gather)
		return NULL;
	gather->fd = lk__wake_fd_new();
	if (gather->fd < 0) {
		free(gather);
		return NULL;
	}
	pthread_mutex_init(&gather->mutex, NULL);
	gather->count = count;
	for (size_t i = 0; i < count; i++)
		gather->slot[i] = (struct slot){gather, i};
	return gather;
}

static void gather_free(struct lk__gather *gather)
{
	for (size_t i = 0; i < gather->count; i++)
		for (size_t j = 0; j < gather->node[i].count; j++)
			lk__request_free(gather->node[i].request[j]);
	if (gather->end)
		gather->end(gather->context);
	lk__fd_close(gather->fd);
	pthread_mutex_destroy(&gather->mutex);
	free(gather);
}

/* An answer is there: the caller's, or too late for it. */
static void gather_finish(struct lk__request *request)
{
	const struct slot *slot = request->owner;
	struct lk__gather *gather = slot->gather;
	struct lk__gathered *node = &gather->node[slot->node];
	pthread_mutex_lock(&gather->mutex);
	bool complete = ++node->done == node->count;
	bool late = gather->over && complete && gather->late;
	if (complete && gather->asleep)
		lk__wake_fd(gather->fd);
	if (late) {
		pthread_mutex_unlock(&gather->mutex);
		gather->late(gather->context, slot->node, node);
		pthread_mutex_lock(&gather->mutex);
	}
	bool last = --gather->waiting == 0 && gather->over;
	pthread_mutex_unlock(&gather->mutex);
	if (last)
		gather_free(gather);
}

void lk__gather_add(struct lk__gather *gather, size_t index, struct lk__conn *conn,
		    struct lk__request *request)
{
	struct lk__gathered *node = &gather->node[index];
	bool fits = node->count < LK__GATHER_ASKS_MAX && node->done == 0;
	if (request && fits) {
		request->owner = &gather->slot[index];
		request->finish = gather_finish;
		node->conn = conn;
		node->request[node->count++] = request;
		gather->waiting++;
		return;
	}
	lk__request_free(request);
	for (size_t i = 0; i < node->count; i++)
		lk__request_free(node->request[i]);
	gather->waiting -= node->count;
	*node = (struct lk__gathered){.conn = NULL, .done = 1}; /* fits nothing more */
}

void lk__gather_go(struct lk__gather *gather)
{
	for (size_t i = 0; i < gather->count; i++)
		for (size_t j = 0; j < gather->node[i].count; j++)
			lk__conn_submit(gather->node[i].conn, gather->node[i].request[j]);
	for (size_t i = 0; i < gather->count; i++)
		if (gather->node[i].count > 0)
			lk__conn_settle(gather->node[i].conn);
}

const struct lk__gathered *lk__gather_at(const struct lk__gather *gather, size_t node)
{
	return &gather->node[node];
}

/* Sleeps until an answer may be there, and reads it. */
static void gather_sleep(struct lk__gather *gather, struct lk__thread *thread, int64_t until_ns,
			 const lk_cancel *cancel)
{
	struct pollfd fds[LK__GATHER_NODES_MAX + 2] = {
		{.fd = gather->fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	bool open[LK__GATHER_NODES_MAX] = {false};
	int most_ms = SLICE_MS;
	pthread_mutex_lock(&gather->mutex);
	for (size_t i = 0; i < gather->count; i++)
		open[i] = gather->node[i].done < gather->node[i].count;
	pthread_mutex_unlock(&gather->mutex);
	for (size_t i = 0; i < gather->count; i++) {
		fds[i + 2].fd = -1;
		if (!open[i] || !lk__conn_poll(gather->node[i].conn, &fds[i + 2]))
			continue;
		/* Bytes that were read already; or refused, if closed: for us to finish. */
		lk__conn_attend(gather->node[i].conn, thread);
		most_ms = fds[i + 2].fd < 0 ? most_ms : 0;
	}
	lk__poll(fds, gather->count + 2, lk__ms_until(lk__now_ns(), until_ns, most_ms));
	if (fds[0].revents)
		lk__wake_fd_clear(gather->fd);
	for (size_t i = 0; i < gather->count; i++)
		if (fds[i + 2].revents)
			lk__conn_attend(gather->node[i].conn, thread);
}

typedef void (*taker)(void *context, size_t node, const struct lk__gathered *gathered);

static bool gathered_done(const struct lk__gathered *gathered)
{
	return gathered->count > 0 && gathered->done == gathered->count;
}

static void gather_take(struct lk__gather *gather, taker take, void *context)
{
	for (size_t i = 0; take && i < gather->count; i++) {
		struct lk__gathered *node = &gather->node[i];
		if (node->taken || !gathered_done(node))
			continue;
		node->taken = true;
		take(context, i, node);
	}
}

bool lk__gather_more(struct lk__gather *gather, size_t index, struct lk__request *request)
{
	struct lk__gathered *node = &gather->node[index];
	if (!request || node->count == LK__GATHER_ASKS_MAX) {
		lk__request_free(request);
		return false;
	}
	request->owner = &gather->slot[index];
	request->finish = gather_finish;
	node->request[node->count++] = request;
	node->taken = false;
	gather->waiting++;
	lk__conn_submit(node->conn, request);
	return true;
}

int lk__gather_wait(struct lk__gather *gather, struct lk__thread *thread, taker take,
		    bool (*decided)(void *context), void *context, int64_t until_ns,
		    lk_cancel *cancel)
{
	for (;;) {
		pthread_mutex_lock(&gather->mutex);
		gather_take(gather, take, context);
		bool ready = decided(context) || gather->waiting == 0;
		gather->asleep = !ready;
		pthread_mutex_unlock(&gather->mutex);
		if (ready)
			return LK__WAIT_READY;
		if (lk__cancelled(cancel))
			return LK_ECANCELLED;
		if (lk__now_ns() >= until_ns)
			return LK__WAIT_TIME_UP;
		gather_sleep(gather, thread, until_ns, cancel);
	}
}

void lk__gather_withdraw(struct lk__gather *gather, taker take, void *context)
{
	for (size_t i = 0; i < gather->count; i++) {
		const struct lk__gathered *node = &gather->node[i];
		for (size_t j = 0; j < node->count; j++)
			if (lk__conn_withdraw(node->conn, node->request[j]))
				gather_finish(node->request[j]);
	}
	pthread_mutex_lock(&gather->mutex);
	gather_take(gather, take, context);
	pthread_mutex_unlock(&gather->mutex);
}

void lk__gather_end(struct lk__gather *gather, taker late, void (*end)(void *context),
		    void *context)
{
	bool missed[LK__GATHER_NODES_MAX] = {false}, open[LK__GATHER_NODES_MAX] = {false};
	pthread_mutex_lock(&gather->mutex);
	gather->late = late;
	gather->end = end;
	gather->context = context;
	gather->over = true;
	gather->waiting++; /* ours */
	for (size_t i = 0; i < gather->count; i++) {
		missed[i] = !gather->node[i].taken && gathered_done(&gather->node[i]);
		open[i] = gather->node[i].done < gather->node[i].count;
	}
	pthread_mutex_unlock(&gather->mutex);
	for (size_t i = 0; i < gather->count; i++) {
		if (late && missed[i])
			late(context, i, &gather->node[i]);
		if (open[i]) /* asked for more by `take`, under the mutex */
			lk__conn_settle(gather->node[i].conn);
	}
	pthread_mutex_lock(&gather->mutex);
	bool last = --gather->waiting == 0;
	pthread_mutex_unlock(&gather->mutex);
	if (last)
		gather_free(gather);
}

/* ---- one command each, all of them ---- */

struct each {
	const struct lk__ask *asks;
	void (*read)(void *context, size_t index, const struct lk__request *request);
	void *context;
};

static void each_read(const struct each *each, size_t index, const struct lk__request *request)
{
	each->read(each->context, index, request);
	lk__conn_unpin(each->asks[index].conn);
}

static void each_take(void *context, size_t index, const struct lk__gathered *answers)
{
	each_read(context, index, answers->request[0]);
}

static void ask_one(const struct each *each, size_t index, struct lk__thread *thread,
		    int64_t until_ns, lk_cancel *cancel)
{
	struct lk__conn *conn = each->asks[index].conn;
	struct lk__request *request = each->asks[index].request;
	lk__conn_pin(conn);
	int rc = lk__conn_call(conn, request, thread, until_ns, cancel);
	if (rc != LK__WAIT_READY && lk__conn_leave(conn, request, lk__request_forget)) {
		each_read(each, index, NULL);
		return;
	}
	each_read(each, index, request);
	lk__request_free(request);
}

static bool ask_wants_all(void *context)
{
	(void)context;
	return false;
}

void lk__ask_each(const struct lk__ask *asks, size_t count, struct lk__thread *thread,
		  int64_t until_ns, lk_cancel *cancel,
		  void (*read)(void *context, size_t index, const struct lk__request *request),
		  void *context)
{
	struct each each = {.asks = asks, .read = read, .context = context};
	struct lk__gather *gather = count > 1 ? lk__gather_new(count) : NULL;
	if (!gather) { /* one, or no memory to ask them at once */
		for (size_t i = 0; i < count; i++)
			ask_one(&each, i, thread, until_ns, cancel);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		lk__conn_pin(asks[i].conn);
		lk__gather_add(gather, i, asks[i].conn, asks[i].request);
	}
	lk__gather_go(gather);
	lk__gather_wait(gather, thread, each_take, ask_wants_all, &each, until_ns, cancel);
	lk__gather_withdraw(gather, each_take, &each);
	for (size_t i = 0; i < count; i++) {
		struct lk__gathered *node = &gather->node[i];
		pthread_mutex_lock(&gather->mutex);
		if (!node->taken)
			each_read(&each, i, gathered_done(node) ? node->request[0] : NULL);
		pthread_mutex_unlock(&gather->mutex);
	}
	lk__gather_end(gather, NULL, NULL, NULL);
}
