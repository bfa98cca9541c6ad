/* SPDX-License-Identifier: MIT */
/*
 * A server: where it has been, what its clock says, and which of its connections a caller takes.
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
 * - One that has sent nothing for long is closed (lk__node_turn()). The first stays.
 */
#include "conn/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/conn.h"

#define NONE_FREE 3 /* the weight of a caller that found none free; of one that found one it is 1 */
#define CROWD_MOST 192 /* at this difference of the sums something changes */
#define GATHERED 24    /* others that wait for answers: one connection serves them best, */
#define SPREAD 16      /* and fewer than so many are served better by several */
#define MOMENT_MAX_NS (100 * LK__MS)
#define REFUSED_NS (10000 * LK__MS) /* beyond its back-off, for one that could not be had */
#define SERVER_US_MAX (INT64_MAX / LK__US / 2) /* in the year 2116; no clock shows more */

/* ---- where it has been ---- */

void lk__node_note_place(struct lk__node *node, const char *place)
{
	struct lk__stays *stays = &node->stays;
	if (!*place)
		return;
	pthread_mutex_lock(&stays->mutex);
	bool stayed = stays->count > 0 &&
		      strcmp(stays->at[(stays->count - 1) % LK__STAYS_MAX].place, place) == 0;
	if (!stayed) {
		size_t i = stays->count++ % LK__STAYS_MAX;
		snprintf(stays->at[i].place, sizeof(stays->at[i].place), "%s", place);
		stays->at[i].epoch = atomic_load(&node->epoch);
	}
	pthread_mutex_unlock(&stays->mutex);
}

void lk__node_place_at(struct lk__node *node, uint64_t epoch, char place_out[LK__CONN_PLACE_SIZE])
{
	struct lk__stays *stays = &node->stays;
	char listed[LK__PLACE_SIZE] = "";
	if (!node->finder)
		lk__config_place(node->config, listed);
	snprintf(place_out, LK__CONN_PLACE_SIZE, "%.63s", listed);
	pthread_mutex_lock(&stays->mutex);
	size_t oldest = stays->count > LK__STAYS_MAX ? stays->count - LK__STAYS_MAX : 0;
	for (size_t i = stays->count; !*place_out && i-- > oldest;)
		if (stays->at[i % LK__STAYS_MAX].epoch <= epoch)
			memcpy(place_out, stays->at[i % LK__STAYS_MAX].place, LK__CONN_PLACE_SIZE);
	pthread_mutex_unlock(&stays->mutex);
}

/* ---- its clock ---- */

int64_t lk__node_server_us(const struct lk__node *node, int64_t at_ns)
{
	return (at_ns + atomic_load_explicit(&node->offset_ns, memory_order_relaxed)) / LK__US;
}

static bool is_clock(int64_t server_us)
{
	return server_us >= 0 && server_us <= SERVER_US_MAX;
}

void lk__node_learn_time(struct lk__node *node, int64_t server_us, int64_t received_ns)
{
	if (!is_clock(server_us))
		return;
	int64_t least_ns = server_us * LK__US - received_ns;
	if (least_ns > atomic_load(&node->offset_ns))
		atomic_store(&node->offset_ns, least_ns);
}

/* Reads the present difference first, which a step stores last. */
int64_t lk__node_most_offset_ns(const struct lk__node *node, int64_t now_ns)
{
	int64_t offset_ns = atomic_load(&node->offset_ns);
	int64_t before_ns = atomic_load(&node->before_ns);
	int64_t last_ns = lk__after_ms(atomic_load(&node->fell_ns),
				       node->config->command_timeout_ms);
	/* Subtracted, because the limit may be near the largest number. */
	bool matters = before_ns > offset_ns && now_ns - (before_ns - offset_ns) < last_ns;
	return matters ? before_ns : offset_ns;
}

/* A second step while the first one matters leaves the larger difference. */
static void node_fell(struct lk__node *node, int64_t received_ns)
{
	atomic_store(&node->before_ns, lk__node_most_offset_ns(node, received_ns));
	atomic_store(&node->fell_ns, received_ns);
}

void lk__node_hear_time(struct lk__node *node, int64_t server_us, int64_t sent_ns,
			int64_t received_ns)
{
	if (!is_clock(server_us))
		return;
	int64_t least_ns = server_us * LK__US - received_ns;
	int64_t most_ns = server_us * LK__US + LK__US - sent_ns; /* its clock counts whole µs */
	int64_t known_ns = atomic_load(&node->offset_ns);
	atomic_store(&node->asked_ns, received_ns);
	atomic_store_explicit(&node->counters.round_trip_ns, received_ns - sent_ns,
			      memory_order_relaxed);
	if (known_ns && known_ns > most_ns)
		node_fell(node, received_ns);
	if (known_ns < least_ns || known_ns > most_ns)
		atomic_store(&node->offset_ns, least_ns);
}

/* ---- its connections ---- */

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
	return lk__earlier(node->config->watchdog_ms * LK__MS / 30, MOMENT_MAX_NS);
}

int64_t lk__node_prepare(struct lk__node *node, int64_t now_ns)
{
	int64_t due_ns = atomic_load_explicit(&node->work_due_ns, memory_order_relaxed);
	int64_t first_ns = now_ns + node_moment_ns(node);
	if (due_ns == 0 && atomic_compare_exchange_strong(&node->work_due_ns, &due_ns, first_ns))
		due_ns = first_ns;
	if (now_ns < due_ns)
		return due_ns;
	if (atomic_exchange(&node->work_due_ns, LK__NEVER) != LK__NEVER) {
		atomic_store(&node->opens_work, true);
		node->events->connecting(node->context);
	}
	return LK__NEVER;
}

/* ---- which one a caller takes ---- */

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
