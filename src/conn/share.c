/* SPDX-License-Identifier: MIT */
/*
 * The connections of a node: how they are made, shared, closed and looked after.
 *
 * Callers share the connections for scripts:
 *
 * - One that nobody waits at costs a caller one wake-up; at one where another reads, it takes two
 *   in a row. So a caller takes the first that is free. All who find none share the last one, where
 *   one write and one read serve several: spread over all, each would be in another's way.
 * - Another is opened, in the background, when for a while more than one caller in NONE_FREE + 1
 *   has found none free: that is neither one thread nor a burst. Four threads get four that way; if
 *   every second one had to find none, they would stay at three, where two wait for each other.
 * - Where callers find GATHERED others waiting for answers, for a while, all share the first that
 *   is up: full batches save both sides more than a connection of their own saves a few. They
 *   spread again when, for a while, they find fewer than SPREAD; in between all stays as it is.
 * - One that has sent nothing for REST_NS is closed. The first stays.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/conn.h"
#include "conn/node.h"

#define NONE_FREE 3 /* the weight of a caller that found none free; of one that found one it is 1 */
#define CROWD_MOST 192 /* at this difference of the sums something changes */
#define GATHERED 24    /* others that wait for answers: one connection serves them best, */
#define SPREAD 16      /* and fewer than so many are served better by several */
#define REST_NS (30000 * LK__MS)
#define MOMENT_MAX_NS (100 * LK__MS)
#define REFUSED_NS (10000 * LK__MS) /* beyond its back-off, for one that could not be had */

int lk__node_add_conn(struct lk__node *node, lk_error *error)
{
	size_t index = atomic_load(&node->script_count);
	struct lk__conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return lk__fail(error, LK_ENOMEM, "out of memory");
	int rc = lk__conn_init(conn, node, LK__CONN_SCRIPTS, error);
	if (rc < 0) {
		free(conn);
		return rc;
	}
	conn->index = (unsigned char)index;
	node->scripts[index] = conn;
	atomic_store(&node->script_count, index + 1);
	return 0;
}

int lk__node_init(struct lk__node *node, const struct lk_config *config,
		  const struct lk__node_events *events, void *context, lk_error *error)
{
	node->config = config;
	node->log = config->log;
	node->events = events;
	node->context = context;
	node->messages.wake_fd = node->work.wake_fd = node->probe.wake_fd = -1;
	node->acks = lk__config_acks(config);
	node->fsync = config->chosen.fsync;
	node->told_by = config->chosen.messages;
	node->acks_ops = &lk__acks_ops;
	node->channels_ops = &lk__channels_ops;
	pthread_mutex_init(&node->replicas.mutex, NULL);
	pthread_mutex_init(&node->stays.mutex, NULL);
	atomic_store(&node->tracking.generation, 1);
	node->can_spin = config->spin_us > 0 && lk__core_count() > 1;
	int rc = lk__conn_init(&node->messages, node, LK__CONN_MESSAGES, error);
	if (rc == 0)
		rc = lk__conn_init(&node->work, node, LK__CONN_WORK, error);
	if (rc == 0)
		rc = lk__conn_init(&node->probe, node, LK__CONN_PROBE, error);
	return rc < 0 ? rc : lk__node_add_conn(node, error);
}

void lk__node_close(struct lk__node *node)
{
	struct lk__conn *conn;
	lk__node_stop_growing(node);
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		lk__conn_close(conn);
}

void lk__node_destroy(struct lk__node *node)
{
	lk__tracking_free(node);
	for (size_t i = 0; i < node->script_count; i++) {
		lk__conn_destroy(node->scripts[i]);
		free(node->scripts[i]);
	}
	lk__channels_free(&node->messages);
	lk__conn_destroy(&node->messages);
	lk__conn_destroy(&node->work);
	lk__conn_destroy(&node->probe);
	pthread_mutex_destroy(&node->replicas.mutex);
	pthread_mutex_destroy(&node->stays.mutex);
}

void lk__node_disown(struct lk__node *node, const char *reason)
{
	struct lk__conn *conn;
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		lk__conn_disown(conn, reason);
}

/* Has its leader look its address up again. True: it has none, and the loop is to do it. */
static bool conn_looks(struct lk__conn *conn)
{
	if (conn->state != LK__CONN_CONNECTING)
		return false;
	lk__conn_wake(conn);
	return atomic_load(&conn->tended);
}

void lk__node_found(struct lk__node *node)
{
	struct lk__conn *conn;
	bool tended = false;
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		tended |= conn_looks(conn);
	if (tended)
		node->events->connecting(node->context);
}

/*
 * How long the connection for renewals may wait after a first grant; a shorter hold never opens it.
 * Long before the first renewal, which is due after a third of the lease.
 */
static int64_t node_moment_ns(const struct lk__node *node)
{
	int64_t part_ns = node->config->watchdog_ms * LK__MS / 30;
	return part_ns < MOMENT_MAX_NS ? part_ns : MOMENT_MAX_NS;
}

int64_t lk__node_prepare(struct lk__node *node, int64_t now_ns)
{
	int64_t due_ns = atomic_load_explicit(&node->work_due_ns, memory_order_relaxed);
	int64_t first_ns = now_ns + node_moment_ns(node);
	if (due_ns == 0 && atomic_compare_exchange_strong(&node->work_due_ns, &due_ns, first_ns))
		due_ns = first_ns;
	if (now_ns < due_ns)
		return due_ns;
	if (atomic_exchange(&node->work_due_ns, LK__NEVER) != LK__NEVER)
		lk__conn_open(&node->work);
	return LK__NEVER;
}

/* ---- which one a caller takes ---- */

void lk__conn_join(struct lk__conn *conn)
{
	atomic_fetch_add_explicit(&conn->callers, 1, memory_order_relaxed);
}

void lk__conn_part(struct lk__conn *conn)
{
	atomic_fetch_sub_explicit(&conn->callers, 1, memory_order_relaxed);
}

static bool conn_join_if_free(struct lk__conn *conn)
{
	unsigned none = 0;
	if (conn->state != LK__CONN_UP ||
	    atomic_load_explicit(&conn->callers, memory_order_relaxed) > 0 ||
	    !atomic_compare_exchange_strong(&conn->callers, &none, 1))
		return false;
	if (conn->state == LK__CONN_UP)
		return true;
	lk__conn_part(conn); /* it was closed meanwhile */
	return false;
}

/* The last one that is up, or of those who gather the first; the first where none is. */
static struct lk__conn *node_shared(struct lk__node *node, size_t count, bool gathered)
{
	for (size_t i = 0; i < count; i++) {
		struct lk__conn *conn = node->scripts[gathered ? i : count - 1 - i];
		if (conn->state == LK__CONN_UP)
			return conn;
	}
	return node->scripts[0];
}

static unsigned node_callers(struct lk__node *node, size_t count)
{
	unsigned callers = 0;
	for (size_t i = 0; i < count; i++)
		callers += atomic_load_explicit(&node->scripts[i]->callers, memory_order_relaxed);
	return callers;
}

/*
 * Counts a caller that found none free, or one that found one: `by` leads to more connections, and
 * less than nothing to one for all. 1 or -1: it has gone on for long enough. Two that count at once
 * may lose one: it takes a moment longer.
 */
static int node_lean(struct lk__node *node, int by)
{
	int crowd = atomic_load_explicit(&node->crowd, memory_order_relaxed);
	if (by == 0) /* back towards the middle */
		by = (crowd < 0) - (crowd > 0);
	if (by == 0)
		return 0;
	crowd += by;
	int way = (crowd >= CROWD_MOST) - (crowd <= -CROWD_MOST);
	atomic_store_explicit(&node->crowd, way ? 0 : crowd, memory_order_relaxed);
	return way;
}

struct lk__conn *lk__node_join(struct lk__node *node, bool *crowded_out)
{
	size_t count = atomic_load_explicit(&node->script_count, memory_order_acquire);
	bool gathered = atomic_load_explicit(&node->gathered, memory_order_relaxed);
	*crowded_out = false;
	for (size_t i = 0; i < count && !gathered; i++) {
		if (!conn_join_if_free(node->scripts[i]))
			continue;
		node_lean(node, 0);
		return node->scripts[i];
	}
	unsigned callers = node_callers(node, count);
	int by = gathered ? (callers < SPREAD ? NONE_FREE : 0)
			  : (callers < GATHERED ? NONE_FREE : -NONE_FREE);
	int way = node_lean(node, by);
	*crowded_out = way > 0 && !gathered;
	if (way)
		atomic_store(&node->gathered, way < 0);
	struct lk__conn *shared = node_shared(node, count, gathered);
	lk__conn_join(shared);
	return shared;
}

/* ---- more of them ---- */

static bool conn_may_open(struct lk__conn *conn, int64_t now_ns)
{
	pthread_mutex_lock(&conn->mutex);
	int64_t pause_ns = conn->failures > 0 ? conn->next_connect_ns + REFUSED_NS : 0;
	bool may = conn->state == LK__CONN_DOWN && now_ns >= pause_ns;
	pthread_mutex_unlock(&conn->mutex);
	return may;
}

/* One that was made before, and is down, or a new one; NULL: it is not to be had now. */
static struct lk__conn *node_spare(struct lk__node *node)
{
	size_t count = atomic_load(&node->script_count);
	struct lk__conn *down = NULL;
	for (size_t i = 1; i < count; i++) {
		if (node->scripts[i]->state == LK__CONN_CONNECTING)
			return NULL;
		if (!down && node->scripts[i]->state == LK__CONN_DOWN)
			down = node->scripts[i];
	}
	if (down)
		return conn_may_open(down, lk__now_ns()) ? down : NULL;
	if (count >= (size_t)node->config->connections || lk__node_add_conn(node, NULL) < 0)
		return NULL;
	return node->scripts[count];
}

void lk__node_grow(struct lk__node *node)
{
	if (atomic_exchange(&node->growing, true))
		return;
	struct lk__conn *conn = atomic_load(&node->grown) ? NULL : node_spare(node);
	if (conn)
		lk__conn_open(conn);
	atomic_store(&node->growing, false);
}

void lk__node_stop_growing(struct lk__node *node)
{
	struct lk__park nap = {0};
	atomic_store(&node->grown, true);
	while (atomic_load(&node->growing))
		lk__park_wait(&nap, lk__now_ns() + LK__MS);
}

size_t lk__node_extra(struct lk__node *node)
{
	size_t extra = 0, count = atomic_load(&node->script_count);
	for (size_t i = 1; i < count; i++) {
		enum lk__conn_state state = node->scripts[i]->state;
		extra += state == LK__CONN_UP || state == LK__CONN_CONNECTING;
	}
	return extra;
}

/* ---- fewer of them ---- */

int64_t lk__node_rest(struct lk__node *node, int64_t now_ns)
{
	size_t count = atomic_load(&node->script_count);
	int64_t next_ns = LK__NEVER;
	for (size_t i = 1; i < count; i++)
		if (node->scripts[i]->state == LK__CONN_UP)
			next_ns = lk__earlier(next_ns,
					      lk__conn_rest(node->scripts[i], now_ns, REST_NS));
	return next_ns;
}

/* ---- those that say nothing ---- */

void lk__node_judge(struct lk__node *node)
{
	struct lk__conn *conn;
	if (!atomic_exchange(&node->judges, false))
		return;
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		lk__conn_look_again(conn);
	int64_t silent_ns = atomic_load(&node->silent_ns);
	if (silent_ns > 0 && silent_ns < atomic_load(&node->greeted_ns)) {
		atomic_store(&node->silent_ns, 0);
		for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
			lk__conn_desert(conn, silent_ns);
	}
	lk__conn_rest(&node->probe, lk__now_ns(), 0);
}
