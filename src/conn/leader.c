/* SPDX-License-Identifier: MIT */
/* Who reads a connection: the leader's turn, those who wait meanwhile, and those who leave. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/connector.h"
#include "conn/node.h"
#include "net/stream.h"
#include "resp/reply.h"

#define SPIN_CREDIT_MAX 16
#define SPIN_LATE_CREDIT 4 /* that a spin without an answer costs, */
#define SPIN_GAP_CREDIT 8  /* and one that lost its core */
#define WAIT_SERVED 2      /* LK__WAIT_READY, and the mutex is not held */
#define TRIP_PART 8        /* of each answer's time that counts for the usual one */
#define TRIPS 4            /* for so many of those a follower waits for its leader, */
#define PATIENCE_NS                                                                                \
	(5 * LK__MS)         /* and for this long at least: a timer that is soon due costs much */
#define SPIN_PAUSE 32        /* turns without a spin after it has not paid; doubled each time, */
#define SPIN_MISSES_MAX 6    /* so often, until it has paid again */
#define LOOK_NS (5 * LK__MS) /* where another keeps the mutex */
#define SPIN_GAP_NS (100 * LK__US) /* between two looks: the core was somebody else's */

/* ---- the leader's turn ---- */

/* With the mutex, or where the stream can be read and written at once without it. */
static ssize_t conn_read_now(struct lk__conn *conn)
{
	bool ended = atomic_load(&conn->ended);
	if (ended)
		atomic_store(&conn->ended, false);
	ssize_t got = lk__stream_read(conn->stream, conn->chunk, sizeof(conn->chunk));
	if (ended && got > 0) /* the end is still to be read */
		atomic_store(&conn->ended, true);
	return got == 0 ? -ECONNRESET : got;
}

static ssize_t conn_read(struct lk__conn *conn)
{
	if (!conn->exclusive)
		return conn_read_now(conn);
	pthread_mutex_lock(&conn->mutex);
	ssize_t got = conn_read_now(conn);
	pthread_mutex_unlock(&conn->mutex);
	return got;
}

static void spin_hit(struct lk__spin *spin)
{
	spin->credit += spin->credit < SPIN_CREDIT_MAX;
	if (spin->credit == SPIN_CREDIT_MAX)
		spin->misses = 0;
}

static void spin_missed(struct lk__spin *spin, int credit)
{
	spin->credit -= credit;
	if (spin->credit >= 0)
		return;
	spin->credit = 0;
	spin->pause = SPIN_PAUSE << spin->misses;
	spin->misses += spin->misses < SPIN_MISSES_MAX;
}

/* Reads without sleeping for as long as that has paid lately: a lone caller's answer is near. */
static ssize_t conn_spin(struct lk__conn *conn, int64_t now_ns)
{
	struct lk__spin *spin = &conn->spin;
	int64_t until_ns = now_ns + conn->node->config->spin_us * LK__US;
	int64_t gap_ns = 0;
	while (now_ns < until_ns && gap_ns < SPIN_GAP_NS &&
	       !atomic_load_explicit(&conn->left, memory_order_relaxed)) {
		int64_t looked_ns = now_ns;
		ssize_t got = conn_read(conn);
		now_ns = lk__now_ns();
		gap_ns = now_ns - looked_ns;
		if (got == -EAGAIN || got == -EINTR)
			continue;
		if (gap_ns < SPIN_GAP_NS)
			spin_hit(spin);
		else
			spin_missed(spin, SPIN_GAP_CREDIT);
		return got;
	}
	/* No answer in time, or another caller came: we are not alone. */
	spin_missed(spin, gap_ns < SPIN_GAP_NS ? SPIN_LATE_CREDIT : SPIN_GAP_CREDIT);
	return -EAGAIN;
}

static bool conn_may_spin(struct lk__conn *conn)
{
	bool alone = conn->waits && !conn->waits->next && conn->in_flight &&
		     !conn->in_flight->contended;
	if (!alone || conn->kind != LK__CONN_SCRIPTS || !conn->node->can_spin ||
	    !lk__thread_is_alone(conn->leader, lk__now_ns()))
		return false;
	if (conn->spin.pause > 0) {
		conn->spin.pause--;
		return false;
	}
	return true;
}

static void conn_sleep(struct lk__conn *conn, short events, int64_t until_ns, lk_cancel *cancel)
{
	struct pollfd fds[3] = {
		{.fd = conn->stream->fd, .events = events},
		{.fd = conn->wake_fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	int timeout_ms = until_ns == LK__NEVER ? 60000
					       : lk__ms_until(lk__now_ns(), until_ns, 60000);
	lk__cancel_poll(cancel, fds, cancel ? 3 : 2, timeout_ms);
	if (fds[1].revents)
		lk__wake_fd_clear(conn->wake_fd);
}

static void conn_note_trip(struct lk__conn *conn, int64_t trip_ns)
{
	conn->trip_ns += (trip_ns - conn->trip_ns) / TRIP_PART;
	if (!conn->least_ns || trip_ns < conn->least_ns)
		conn->least_ns = trip_ns;
}

/* Takes whole replies out of what was read; true when the peer does not speak the protocol. */
static bool conn_parse(struct lk__conn *conn, ssize_t got, struct lk__deferred *after)
{
	int rc = lk__reader_feed(conn->reader, conn->chunk, (size_t)got);
	int64_t now_ns = lk__now_ns();
	if (conn->kind != LK__CONN_MESSAGES && conn->in_flight)
		conn_note_trip(conn, now_ns - conn->in_flight->sent_ns);
	conn->heard_ns = now_ns;
	conn->outlived = false;
	redisReply *reply;
	while (rc >= 0 && conn->state == LK__CONN_UP &&
	       (rc = lk__reader_next(conn->reader, &reply)) == 1) {
		if (conn->kind == LK__CONN_MESSAGES)
			conn->node->channels_ops->take(conn, reply, after);
		else
			lk__conn_take(conn, reply, after);
	}
	return rc < 0;
}

/* The last reason is the nearest to what has happened. */
static void conn_fault(struct lk__conn *conn, int code, const char *reason)
{
	conn->must_break = false;
	lk__conn_must_break(conn, code, reason);
}

/* After each read of one that drains: it is left when it has answered all, or takes too long. */
static void conn_drained(struct lk__conn *conn)
{
	bool owes = conn->in_flight && conn->in_flight->appended;
	if (!owes || lk__now_ns() >= conn->drain_until_ns)
		lk__conn_must_break(conn, LK_EUNREACHABLE, "it has become a replica");
}

/* Takes in what was read, by the leader or in its place. The leader acts on what is wrong with
 * it. */
static void conn_take_in(struct lk__conn *conn, ssize_t got, struct lk__deferred *after)
{
	char text[160];
	if (conn->disowned) /* what was read is not looked at; it must break */
		return;
	if (got > 0) {
		if (conn_parse(conn, got, after))
			conn_fault(conn, LK_EPROTOCOL, lk__reader_error(conn->reader));
	} else if (got == -ECONNRESET) {
		conn_fault(conn, LK_EUNREACHABLE, "the connection was closed");
	} else if (got != -EAGAIN && got != -EINTR) {
		conn_fault(conn, LK_EUNREACHABLE, lk__system_text((int)-got, text, sizeof(text)));
	} else if (conn->in_flight) {
		lk__conn_heard_nothing(conn, after);
	}
	if (conn->drains)
		conn_drained(conn);
}

static void conn_took(struct lk__conn *conn, ssize_t got, struct lk__deferred *after)
{
	if (conn->state == LK__CONN_CLOSED) /* meanwhile; a lost connection would be opened again */
		return;
	conn_take_in(conn, got, after);
	if (conn->must_break)
		lk__conn_break(conn, conn->fault.code, conn->fault.reason, after);
}

/* One turn of the leader: write, spin or sleep, read, hand out. Frees the mutex meanwhile. */
static void conn_turn(struct lk__conn *conn, int64_t until_ns, lk_cancel *cancel,
		      struct lk__deferred *after)
{
	assert(conn->leader && conn->state == LK__CONN_UP);
	if (conn->kind == LK__CONN_MESSAGES)
		conn->node->channels_ops->probe(conn);
	if (conn->postponed && lk__now_ns() >= conn->postponed_until_ns)
		lk__conn_resume(conn);
	if (conn->unacked && !conn->drains)
		conn->node->acks_ops->turn(conn, after);
	lk__conn_flush(conn);
	int64_t next_ns = lk__conn_next_ns(conn);
	bool spins = until_ns > 0 && conn_may_spin(conn);
	short events = conn->stream->wants | (lk__buffer_size(&conn->out) ? POLLOUT : 0);
	bool sleeps = until_ns > 0 && !spins && !conn->stream->buffered && !conn->must_break;
	conn->asleep_until_ns = lk__earlier(until_ns, next_ns);
	atomic_store(&conn->asleep, sleeps);
	lk__conn_unlock(conn, after);
	ssize_t got;
	if (spins) {
		got = conn_spin(conn, lk__now_ns());
	} else {
		if (sleeps)
			conn_sleep(conn, events, lk__earlier(until_ns, next_ns), cancel);
		bool taken = sleeps && !atomic_exchange(&conn->asleep, false);
		got = taken ? -EAGAIN : conn_read(conn);
	}
	pthread_mutex_lock(&conn->mutex);
	conn_took(conn, got, after);
}

/* ---- the leader of one that is being made ---- */

/* Sleeps until the next step can be taken, or the thread is woken: true. */
static bool conn_doze(const struct lk__conn *conn, const struct lk__readiness *waits,
		      struct lk__thread *thread, int64_t until_ns, lk_cancel *cancel)
{
	struct pollfd fds[2 + LK__CONNECTOR_WAITS] = {
		{.fd = conn->wake_fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	for (size_t i = 0; i < LK__CONNECTOR_WAITS; i++) {
		fds[2 + i] = (struct pollfd){.fd = waits[i].fd, .events = waits[i].events};
		until_ns = lk__earlier(until_ns, waits[i].until_ns);
	}
	atomic_store(&thread->polled, conn->wake_fd + 1);
	if (!lk__park_has_token(&thread->park))
		lk__cancel_poll(cancel, fds, 2 + LK__CONNECTOR_WAITS,
				lk__ms_until(lk__now_ns(), until_ns, 60000));
	atomic_store(&thread->polled, 0);
	if (fds[0].revents)
		lk__wake_fd_clear(conn->wake_fd);
	bool woken = lk__park_has_token(&thread->park);
	if (woken)
		lk__park_wait(&thread->park, 0);
	return woken;
}

/* One turn of the leader: it goes on to make it. Frees the mutex meanwhile, and may not lead any
 * more then. True: its thread was woken. */
static bool conn_make(struct lk__conn *conn, int64_t until_ns, lk_cancel *cancel,
		      struct lk__deferred *after)
{
	struct lk__thread *thread = conn->leader;
	struct lk__connector *connector = conn->connector;
	struct lk__readiness waits[LK__CONNECTOR_WAITS];
	conn->tended = false;
	lk__conn_unlock(conn, after);
	bool woken = lk__connector_step(connector, waits) &&
		     conn_doze(conn, waits, thread, until_ns, cancel);
	pthread_mutex_lock(&conn->mutex);
	return woken;
}

/* ---- the lead goes on ---- */

/*
 * The leader goes, and has written all. The first who still waits is woken to lead. False: there is
 * none.
 */
static bool conn_pass_lead(struct lk__conn *conn, struct lk__deferred *after)
{
	struct lk__wait *wait;
	conn->leader = NULL;
	if (conn->state != LK__CONN_UP && conn->state != LK__CONN_CONNECTING)
		return false;
	if (conn->state == LK__CONN_UP)
		lk__conn_flush(conn);
	if (conn->next_leader) /* it is on its way still */
		return true;
	DL_FOREACH(conn->waits, wait)
	{
		if (!wait->ready(wait->subject)) {
			conn->next_leader = wait;
			conn->appointed_ns = lk__now_ns();
			atomic_store(&wait->appointed, true);
			lk__after_wake(after, wait->thread);
			return true;
		}
	}
	return false;
}

/* Tells whether somebody has to look again even if nothing more comes. */
static bool conn_is_unfinished(const struct lk__conn *conn)
{
	return conn->in_flight || conn->postponed || conn->unacked || conn->must_break ||
	       atomic_load(&conn->ended);
}

/*
 * A caller that leads goes: without a next one, the loop is told. Not when it goes because it has
 * heard its message: it tries now, and then listens again, leaves the channel, or tells the loop
 * (head_grant()). Waking the loop would be in the way of that try.
 */
static void conn_resign(struct lk__conn *conn, bool heard, struct lk__deferred *after)
{
	if (conn_pass_lead(conn, after) || conn->state != LK__CONN_UP)
		return;
	if (conn_is_unfinished(conn) || (conn->channels && !heard))
		conn->node->events->attention(conn->node->context);
}

/* Answered by another who led: out of the list already, and no business with the connection. */
static bool conn_served(const struct lk__wait *wait)
{
	return wait->request && atomic_load_explicit(&wait->request->done, memory_order_acquire) &&
	       !atomic_load(&wait->appointed);
}

/* ---- followers ---- */

/* Tells whether the leader has to look: its own answer is there, or the connection is to end. */
static bool conn_wants_leader(const struct lk__conn *conn)
{
	const struct lk__wait *wait;
	DL_FOREACH(conn->waits, wait)
	if (wait->thread == conn->leader)
		return conn->must_break || wait->ready(wait->subject);
	return true; /* its answer took it out */
}

/* Reads in the place of a leader that sleeps: its core may be somebody else's. */
static void conn_help(struct lk__conn *conn, struct lk__deferred *after)
{
	bool asleep = true;
	if (conn->state != LK__CONN_UP || !conn->leader || conn->must_break || !conn->in_flight ||
	    !atomic_compare_exchange_strong(&conn->asleep, &asleep, false))
		return;
	ssize_t got = conn_read_now(conn);
	conn_take_in(conn, got, after);
	lk__conn_flush(conn);
	atomic_store(&conn->asleep, true);
	if (conn_wants_leader(conn))
		lk__conn_wake(conn);
}

/* Waits for what another reads, and looks itself when that takes longer than usual; seldomer each
 * time. True: it is there, and the mutex is not held. */
static bool conn_follow(struct lk__conn *conn, struct lk__wait *wait, int64_t until_ns,
			lk_cancel *cancel, int64_t *patience_ns, struct lk__deferred *after)
{
	int64_t look_ns = LK__NEVER;
	if (wait->request && conn->state == LK__CONN_UP) { /* messages may come at any time */
		*patience_ns = lk__later(*patience_ns,
					 lk__later(TRIPS * conn->trip_ns, PATIENCE_NS));
		look_ns = lk__now_ns() + *patience_ns;
	}
	lk__conn_push(conn);
	lk__conn_unlock(conn, after);
	lk__cancel_park(cancel, &wait->thread->park, lk__earlier(until_ns, look_ns));
	if (conn_served(wait))
		return true;
	pthread_mutex_lock(&conn->mutex);
	if (look_ns != LK__NEVER && lk__now_ns() >= look_ns) {
		*patience_ns *= 2;
		conn_help(conn, after);
	}
	return false;
}

/* Returns with the mutex, but for WAIT_SERVED. */
static int conn_wait(struct lk__conn *conn, struct lk__wait *wait, int64_t until_ns,
		     lk_cancel *cancel, struct lk__deferred *after)
{
	int64_t patience_ns = 0;
	for (;;) {
		if (wait->ready(wait->subject))
			return LK__WAIT_READY;
		if (conn->state == LK__CONN_CLOSED)
			return LK_ECLOSED;
		if (lk__cancelled(cancel))
			return LK_ECANCELLED;
		if (until_ns != LK__NEVER && lk__now_ns() >= until_ns)
			return LK__WAIT_TIME_UP;
		if (!wait->request && atomic_exchange(&wait->thread->looks, false))
			return LK__WAIT_TIME_UP;
		bool up = conn->state == LK__CONN_UP;
		if ((up || conn->state == LK__CONN_CONNECTING) && !conn->leader &&
		    (conn->next_leader == wait || !lk__conn_expects_leader(conn)))
			conn->leader = wait->thread;
		if (conn->next_leader == wait)
			conn->next_leader = NULL;
		if (conn->leader == wait->thread && up)
			conn_turn(conn, until_ns, cancel, after);
		else if (conn->leader == wait->thread)
			conn_make(conn, until_ns, cancel, after);
		else if (conn_follow(conn, wait, until_ns, cancel, &patience_ns, after))
			return WAIT_SERVED;
	}
}

static int conn_wait_and_go(struct lk__conn *conn, struct lk__wait *wait, int64_t until_ns,
			    lk_cancel *cancel, struct lk__deferred *after)
{
	DL_APPEND(conn->waits, wait);
	wait->listed = true;
	if (wait->request)
		wait->request->wait = wait;
	int rc = conn_wait(conn, wait, until_ns, cancel, after);
	if (rc == WAIT_SERVED)
		return LK__WAIT_READY;
	if (wait->listed)
		DL_DELETE(conn->waits, wait);
	if (wait->request)
		wait->request->wait = NULL;
	bool next = conn->next_leader == wait;
	if (next)
		conn->next_leader = NULL;
	if (conn->leader == wait->thread || (next && !conn->leader))
		conn_resign(conn, rc == LK__WAIT_READY, after);
	lk__conn_unlock(conn, after);
	return rc;
}

int lk__conn_wait(struct lk__conn *conn, struct lk__thread *thread,
		  bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
		  lk_cancel *cancel)
{
	struct lk__deferred after;
	struct lk__wait wait = {.thread = thread, .ready = ready, .subject = subject};
	lk__conn_lock(conn, &after);
	return conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
}

static bool request_ready(const void *subject)
{
	return atomic_load(&((const struct lk__request *)subject)->done);
}

int lk__conn_await(struct lk__request *request, struct lk__thread *thread, int64_t until_ns,
		   lk_cancel *cancel)
{
	int rc;
	do {
		struct lk__conn *conn = request->conn;
		struct lk__deferred after;
		struct lk__wait wait = {.thread = thread,
					.ready = request_ready,
					.subject = request,
					.request = request};
		lk__conn_lock(conn, &after);
		rc = conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
	} while (rc == LK__WAIT_READY && lk__conn_follow(request));
	return rc;
}

int lk__conn_call(struct lk__conn *conn, struct lk__request *request, struct lk__thread *thread,
		  int64_t until_ns, lk_cancel *cancel)
{
	struct lk__deferred after;
	struct lk__wait wait = {
		.thread = thread, .ready = request_ready, .subject = request, .request = request};
	request->thread = thread;
	lk__conn_lock(conn, &after);
	lk__conn_accept(conn, request, &after);
	int rc = conn_wait_and_go(conn, &wait, until_ns, cancel, &after);
	bool moved = rc == LK__WAIT_READY && lk__conn_follow(request);
	return moved ? lk__conn_await(request, thread, until_ns, cancel) : rc;
}

/* ---- who waits no more, or again ---- */

/* Locks the connection that has the request, or any when it is done. A reader may be taking it to
 * another one: then once more, at most for each redirect. `done` is looked at first, because the
 * reader clears it last. */
static struct lk__conn *request_lock(struct lk__request *request)
{
	for (;;) {
		struct lk__conn *conn = atomic_load(&request->conn);
		pthread_mutex_lock(&conn->mutex);
		if (atomic_load(&request->done) || atomic_load(&request->conn) == conn)
			return conn;
		pthread_mutex_unlock(&conn->mutex);
	}
}

/* True when it was never sent: then it is done. */
static bool conn_withdraw(struct lk__conn *conn, struct lk__request *request)
{
	const char *awaits = lk__connector_awaits(conn->connector);
	const char *why = conn->last_error.code ? conn->last_error.message
			  : awaits              ? awaits
						: "no connection yet";
	if (request->done || request->sends > 0)
		return false;
	if (request->postponed)
		why = "its keys are being moved to another node";
	lk__conn_remove(conn, request);
	request->done = true;
	request->code = LK_EUNREACHABLE;
	snprintf(request->reason, sizeof(request->reason), "not sent: %.140s", why);
	return true;
}

bool lk__conn_withdraw(struct lk__request *request)
{
	struct lk__conn *conn = request_lock(request);
	bool withdrawn = conn_withdraw(conn, request);
	pthread_mutex_unlock(&conn->mutex);
	return withdrawn;
}

bool lk__conn_hurry(struct lk__request *request)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	struct lk__conn *conn = request_lock(request);
	conn->node->acks_ops->hurry(conn, request, &after);
	bool done = request->done;
	lk__conn_unlock_held(conn, &after);
	return done;
}

bool lk__conn_leave(struct lk__request *request, void (*finish)(struct lk__request *request))
{
	struct lk__conn *conn = request_lock(request);
	if (request->thread) /* else its present `finish` would never hear that it is done */
		conn_withdraw(conn, request);
	bool left = !request->done;
	if (left) {
		request->thread = NULL;
		request->finish = finish;
		if (!lk__conn_is_led(conn) && conn->state == LK__CONN_UP)
			conn->node->events->attention(conn->node->context);
	}
	pthread_mutex_unlock(&conn->mutex);
	return left;
}

bool lk__conn_take_over(struct lk__request *request, struct lk__thread *thread, int64_t until_ns)
{
	struct lk__conn *conn = request_lock(request);
	bool taken = !request->done;
	if (taken) {
		request->thread = thread;
		request->needed_ns = until_ns;
		lk__conn_count_on(conn, request);
		lk__conn_hasten(conn, request);
	}
	pthread_mutex_unlock(&conn->mutex);
	return taken;
}

/* ---- the wait for the connection itself ---- */

static bool conn_has_come(const struct lk__conn *conn, uint64_t failure_count, bool once)
{
	bool failed = conn->failure_count != failure_count;
	return conn->state == LK__CONN_UP || conn->state == LK__CONN_DOWN ||
	       (failed && (once || !atomic_load(&conn->node->was_up)));
}

bool lk__conn_ready_begin(struct lk__conn *conn, struct lk__standby *standby,
			  struct lk__thread *thread, bool once)
{
	struct lk__deferred after;
	if (conn->state == LK__CONN_UP)
		return true;
	lk__conn_lock(conn, &after);
	bool up = conn->state == LK__CONN_UP;
	if (!up) {
		conn->wanted++;
		*standby = (struct lk__standby){
			.thread = thread, .once = once, .failure_count = conn->failure_count};
		DL_APPEND(conn->standbys, standby);
		if (conn->state == LK__CONN_DOWN)
			lk__conn_start(conn, &after);
		after.drives = !thread->on_wake;
	}
	lk__conn_unlock_held(conn, &after);
	return up;
}

int lk__conn_ready_look(struct lk__conn *conn, const struct lk__standby *standby, lk_error *error)
{
	int rc = LK__WAIT_TIME_UP;
	pthread_mutex_lock(&conn->mutex);
	if (conn->state == LK__CONN_CLOSED) {
		rc = LK_ECLOSED;
	} else if (conn->state == LK__CONN_UP) {
		rc = LK__WAIT_READY;
	} else {
		if (conn_has_come(conn, standby->failure_count, standby->once))
			rc = conn->last_error.code ? conn->last_error.code : LK_EUNREACHABLE;
		const char *awaits = lk__connector_awaits(conn->connector);
		if (conn->last_error.code && error)
			*error = conn->last_error;
		else if (awaits && error)
			snprintf(error->message, sizeof(error->message),
				 "the server cannot be reached: %s", awaits);
	}
	pthread_mutex_unlock(&conn->mutex);
	return rc;
}

void lk__conn_ready_end(struct lk__conn *conn, struct lk__standby *standby)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	DL_DELETE(conn->standbys, standby);
	conn->wanted--;
	lk__conn_unlock_held(conn, &after);
}

/* Woken, it looks for itself what that means. */
void lk__conn_ready_sleep(struct lk__conn *conn, const struct lk__standby *standby,
			  struct lk__thread *thread, int64_t until_ns, lk_cancel *cancel)
{
	struct lk__deferred after;
	lk__conn_lock(conn, &after);
	bool leads = conn->state == LK__CONN_CONNECTING && !lk__conn_is_led(conn), woken = false;
	if (leads)
		conn->leader = thread;
	while (!woken && conn->leader == thread && conn->state == LK__CONN_CONNECTING &&
	       !conn_has_come(conn, standby->failure_count, standby->once) &&
	       !lk__cancelled(cancel) && lk__now_ns() < until_ns)
		woken = conn_make(conn, until_ns, cancel, &after);
	if (conn->leader == thread)
		conn_resign(conn, false, &after);
	lk__conn_unlock(conn, &after);
	if (!leads)
		lk__cancel_park(cancel, &thread->park, until_ns);
}

int lk__conn_ready(struct lk__conn *conn, struct lk__thread *thread, bool once, int64_t until_ns,
		   lk_error *error)
{
	struct lk__standby standby;
	int rc;
	if (lk__conn_ready_begin(conn, &standby, thread, once))
		return LK__WAIT_READY;
	while ((rc = lk__conn_ready_look(conn, &standby, error)) == LK__WAIT_TIME_UP &&
	       lk__now_ns() < until_ns)
		lk__conn_ready_sleep(conn, &standby, thread, until_ns, NULL);
	lk__conn_ready_end(conn, &standby);
	return rc;
}

/* ---- the loop, in the place of callers ---- */

bool lk__conn_attend(struct lk__conn *conn, struct lk__thread *thread, bool event)
{
	struct lk__deferred after;
	lk__deferred_init(&after);
	bool armed = event && atomic_exchange(&conn->armed, false);
	if (pthread_mutex_trylock(&conn->mutex) != 0) {
		if (event)
			atomic_store(&conn->ended, true);
		return true; /* its holder may be stopped in a debugger: renewals go on */
	}
	bool made = conn->state == LK__CONN_UP;
	if (event && made &&
	    (conn->leader || !armed)) /* a reader finds it at the end of what there is */
		atomic_store(&conn->ended, true);
	if (conn->state == LK__CONN_UP && !conn->leader) {
		conn->leader = thread;
		conn_turn(conn, 0, NULL, &after);
		if (conn->leader == thread)
			conn_pass_lead(conn, &after);
	}
	bool expected = !lk__conn_is_led(conn) && (conn_is_unfinished(conn) || conn->channels);
	lk__conn_unlock(conn, &after);
	return expected;
}

int64_t lk__conn_make_turn(struct lk__conn *conn, struct lk__thread *thread, int set_fd)
{
	struct lk__deferred after;
	struct lk__readiness waits[LK__CONNECTOR_WAITS];
	int64_t next_ns = LK__NEVER;
	if (conn->state != LK__CONN_CONNECTING)
		return LK__NEVER;
	if (pthread_mutex_trylock(&conn->mutex) != 0)
		return lk__now_ns() + LOOK_NS; /* its holder may be stopped in a debugger */
	if (conn->state != LK__CONN_CONNECTING || lk__conn_is_led(conn)) {
		pthread_mutex_unlock(&conn->mutex);
		return LK__NEVER;
	}
	struct lk__connector *connector = conn->connector;
	conn->leader = thread;
	conn->tended = true;
	pthread_mutex_unlock(&conn->mutex);
	if (lk__connector_step(connector, waits))
		next_ns = lk__connector_watch(connector, set_fd);
	lk__conn_lock(conn, &after);
	if (conn->leader == thread)
		conn_pass_lead(conn, &after);
	lk__conn_unlock(conn, &after);
	return next_ns;
}
