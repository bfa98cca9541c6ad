/* SPDX-License-Identifier: MIT */
#include "lock/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"

#define EVENTS_MAX 16          /* in one turn; the rest comes with the next */
#define TICK_NS (5 * LK__MS)   /* while answers are expected that nobody reads */
#define IDLE_TICKS 20          /* ticks without any before it stops */
#define TURNS_MAX 4            /* in one call of the program */
#define BLIND_NS (20 * LK__MS) /* between turns where waiting fails */

struct lk__loop {
	lk_client *client;
	pthread_t pthread;
	struct lk__thread thread; /* its place as a reader */
	int set_fd;               /* of the two below, and of the connections' sockets */
	int wake_fd, timer_fd;
	_Atomic int64_t armed_ns; /* when the timer goes off; LK__NEVER */
	int64_t tick_ns;          /* the next tick; LK__NEVER while it does not tick */
	int64_t read_ns; /* for asynchronous calls: to be read then, whatever the set says, */
	int64_t hear_ns; /* and those that is_heard() tells of */
	unsigned idle_ticks;
	bool blind; /* the set cannot be waited for: somebody closed our descriptors */
	bool threadless;
	_Atomic bool attending, verify, stop, processing;
};

static struct lk__loop *client_loop(lk_client *client)
{
	return atomic_load_explicit(&client->loop, memory_order_acquire);
}

/* ---- answers and messages that nobody waits for ---- */

/*
 * Where a server tells what happens to keys, its messages, and the answers to the questions that
 * follow from them, are heard by the set: a tick would come late, and the messages may come at any
 * time.
 */
static bool is_heard(const struct lk__conn *conn)
{
	return lk__tracking_is_wanted(&conn->node->tracking) &&
	       (conn->kind == LK__CONN_MESSAGES || conn->kind == LK__CONN_WORK);
}

/* For each connection: when the soonest is to be looked at again. */
static int64_t loop_each(struct lk__loop *loop,
			 int64_t (*act)(struct lk__loop *loop, struct lk__conn *conn))
{
	struct lk__topo *topo = loop->client->topo;
	struct lk__node *node;
	struct lk__conn *conn;
	int64_t next_ns = LK__NEVER;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++)
		for (size_t j = 0; (conn = lk__node_conn(node, j)); j++)
			next_ns = lk__earlier(next_ns, act(loop, conn));
	return next_ns;
}

/* 0: more is expected there. */
static int64_t conn_read(struct lk__loop *loop, struct lk__conn *conn)
{
	bool expected = lk__conn_attend(conn, &loop->thread, false);
	return expected && !is_heard(conn) ? 0 : LK__NEVER;
}

static bool loop_read(struct lk__loop *loop)
{
	return loop_each(loop, conn_read) == 0;
}

/* Nothing is expected any more. What came meanwhile, and did not wake us, begins it anew. */
static int64_t loop_end_ticks(struct lk__loop *loop)
{
	loop->tick_ns = LK__NEVER;
	atomic_store(&loop->attending, false);
	if (loop_read(loop))
		lk__loop_attend(loop->client);
	return LK__NEVER;
}

/* Returns when the next tick is due. */
static int64_t loop_tick(struct lk__loop *loop, int64_t now_ns)
{
	if (!atomic_load(&loop->attending))
		return LK__NEVER;
	if (loop->tick_ns == LK__NEVER)
		loop->idle_ticks = 0;
	else if (now_ns < loop->tick_ns)
		return loop->tick_ns;
	else
		loop->idle_ticks = loop_read(loop) ? 0 : loop->idle_ticks + 1;
	if (loop->idle_ticks == IDLE_TICKS)
		return loop_end_ticks(loop);
	loop->tick_ns = now_ns + TICK_NS;
	return loop->tick_ns;
}

static int64_t conn_arm(struct lk__loop *loop, struct lk__conn *conn)
{
	return lk__conn_arm(conn, loop->set_fd);
}

static int64_t conn_arm_heard(struct lk__loop *loop, struct lk__conn *conn)
{
	return is_heard(conn) ? conn_arm(loop, conn) : LK__NEVER;
}

/*
 * Asynchronous calls do not wait for a tick: the set tells when there is something to read. Returns
 * when to look without that.
 */
static int64_t loop_listen(struct lk__loop *loop)
{
	if (atomic_exchange(&loop->attending, false) || lk__now_ns() >= loop->read_ns)
		loop_read(loop);
	loop->tick_ns = LK__NEVER;
	loop->read_ns = loop_each(loop, conn_arm);
	return loop->read_ns;
}

/*
 * Sees to it that what is expected is read, in one way or the other. `any`: asynchronous calls were
 * resumed; the last of them may have left a try behind, whose answer is ticked for like any that
 * nobody awaits.
 */
static int64_t loop_expect(struct lk__loop *loop, bool any)
{
	bool listens = loop->threadless || lk__async_active(loop->client);
	int64_t next_ns = LK__NEVER;
	if (listens || any)
		next_ns = loop_listen(loop);
	if (listens)
		return next_ns;
	if (next_ns != LK__NEVER)
		atomic_store(&loop->attending, true);
	next_ns = lk__earlier(next_ns, loop_tick(loop, lk__now_ns()));
	if (lk__now_ns() >= loop->hear_ns)
		loop_read(loop);
	loop->hear_ns = loop_each(loop, conn_arm_heard);
	return lk__earlier(next_ns, loop->hear_ns);
}

/* ---- the turn ---- */

/* It may end while nobody reads it. */
static int64_t conn_watch(struct lk__loop *loop, struct lk__conn *conn)
{
	lk__conn_watch(conn, loop->set_fd);
	return LK__NEVER;
}

static void loop_take(struct lk__loop *loop, void *data)
{
	if (data == &loop->wake_fd) {
		lk__wake_fd_clear(loop->wake_fd);
		loop_each(loop, conn_watch);
	} else if (data == &loop->timer_fd) {
		lk__timer_arm(loop->timer_fd, LK__NEVER);
		loop->armed_ns = LK__NEVER;
	} else if (data && lk__conn_attend(data, &loop->thread, true) && !is_heard(data)) {
		lk__loop_attend(loop->client);
	}
}

/* The thread's timer may go off too early: that turn costs less than to move it with each request.
 * A program is told the truth (lk_client_due_ns()). */
static void loop_arm(struct lk__loop *loop, int64_t at_ns)
{
	if (at_ns == loop->armed_ns || (!loop->threadless && at_ns > loop->armed_ns))
		return;
	lk__timer_arm(loop->timer_fd, at_ns);
	loop->armed_ns = at_ns;
}

static int64_t conn_make(struct lk__loop *loop, struct lk__conn *conn)
{
	return lk__conn_make_turn(conn, &loop->thread, loop->set_fd);
}

/* Drives the connects that no caller drives; without threads, also what looks for masters: those
 * who connect may have to know first where their server is. */
static int64_t loop_connect(struct lk__loop *loop)
{
	struct lk__topo *topo = loop->client->topo;
	int64_t next_ns = loop_each(loop, conn_make);
	return loop->threadless ? lk__earlier(next_ns, lk__topo_turn(topo, loop->set_fd)) : next_ns;
}

/* Does what is due and never waits. Returns when more is, and has set the timer to that. */
static int64_t loop_turn(struct lk__loop *loop)
{
	void *ready[EVENTS_MAX];
	lk__async_rise(loop->client); /* an answer that we read need not wake us */
	int count = lk__set_take(loop->set_fd, ready, EVENTS_MAX);
	loop->blind = count < 0 && errno != EINTR;
	for (int i = 0; i < count; i++)
		loop_take(loop, ready[i]);
	int64_t next_ns = loop_connect(loop);
	bool any, verify = atomic_exchange(&loop->verify, false);
	next_ns = lk__earlier(next_ns, loop->client->ops->turn(loop->client, verify, &any));
	next_ns = lk__earlier(next_ns, loop_expect(loop, any));
	loop_arm(loop, next_ns);
	return next_ns;
}

/* ---- the thread ---- */

/* The timer is in the set: poll() itself does not count while the machine is suspended. Where there
 * is nothing to wait for, a look now and then keeps what is held. */
static void loop_wait(struct lk__loop *loop, int64_t next_ns)
{
	struct pollfd set = {.fd = loop->set_fd, .events = POLLIN};
	if (!lk__async_rest(loop->client))
		return;
	if (loop->blind)
		lk__park_wait(&loop->thread.park, lk__earlier(next_ns, lk__now_ns() + BLIND_NS));
	else
		lk__poll(&set, 1, -1);
}

static void *loop_main(void *argument)
{
	struct lk__loop *loop = argument;
	pthread_setname_np(pthread_self(), "lockkeeper");
	for (;;) {
		int64_t next_ns = loop_turn(loop);
		if (atomic_load(&loop->stop)) /* the turn may have taken the wake-up for that */
			return NULL;
		loop_wait(loop, next_ns);
	}
}

/* ---- or the program ---- */

int lk__loop_process(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (atomic_exchange(&loop->processing, true))
		return LK_EPROCESSING;
	int64_t next_ns = loop_turn(loop);
	for (int i = 1; i < TURNS_MAX && (next_ns == 0 || !lk__async_rest(client)); i++)
		next_ns = loop_turn(loop);
	if (!lk__async_rest(client))
		lk__wake_fd(loop->wake_fd);
	atomic_store(&loop->processing, false);
	return 0;
}

int lk__loop_fd(lk_client *client)
{
	return client_loop(client)->set_fd;
}

/* Asks the set as well: only it knows what has come since the last turn. */
int64_t lk__loop_due_ns(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	struct pollfd set = {.fd = loop->set_fd, .events = POLLIN};
	return lk__poll(&set, 1, 0) > 0 ? lk__now_ns() : atomic_load(&loop->armed_ns);
}

/* ---- life ---- */

static void loop_free(struct lk__loop *loop)
{
	if (loop->timer_fd >= 0)
		lk__fd_close(loop->timer_fd);
	if (loop->wake_fd >= 0)
		lk__fd_close(loop->wake_fd);
	if (loop->set_fd >= 0)
		lk__fd_close(loop->set_fd);
	free(loop);
}

static int loop_add(struct lk__loop *loop, int *fd)
{
	return lk__set_add(loop->set_fd, *fd, LK__SET_READABLE, fd);
}

static int loop_new(struct lk__loop **loop_out, lk_client *client, lk_error *error)
{
	struct lk__loop *loop = calloc(1, sizeof(*loop));
	if (!loop)
		return lk__fail(error, LK_ENOMEM, "background thread: out of memory");
	loop->client = client;
	loop->threadless = client->config->threadless;
	loop->armed_ns = loop->tick_ns = loop->read_ns = loop->hear_ns = LK__NEVER;
	loop->set_fd = lk__set_new();
	loop->wake_fd = lk__wake_fd_new();
	loop->timer_fd = lk__timer_new();
	if (loop->set_fd < 0 || loop->wake_fd < 0 || loop->timer_fd < 0 ||
	    loop_add(loop, &loop->wake_fd) < 0 || loop_add(loop, &loop->timer_fd) < 0) {
		int rc = lk__fail_system(error, errno, "cannot start the background thread");
		loop_free(loop);
		return rc;
	}
	*loop_out = loop;
	return 0;
}

static int loop_launch(lk_client *client, lk_error *error)
{
	struct lk__loop *loop = NULL;
	int rc = loop_new(&loop, client, error);
	if (rc < 0)
		return rc;
	rc = loop->threadless ? 0 : lk__thread_start(&loop->pthread, loop_main, loop);
	if (rc) {
		loop_free(loop);
		return lk__fail_system(error, rc, "cannot start the background thread");
	}
	if (loop->threadless) /* it rests until the program's first turn */
		lk__async_rest(client);
	atomic_store(&client->loop, loop);
	return 0;
}

int lk__loop_start(lk_client *client, lk_error *error)
{
	int rc = 0;
	if (client_loop(client))
		return 0;
	pthread_mutex_lock(&client->mutex);
	if (!client_loop(client))
		rc = loop_launch(client, error);
	pthread_mutex_unlock(&client->mutex);
	return rc;
}

void lk__loop_stop(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (!loop || atomic_exchange(&loop->stop, true))
		return;
	if (loop->threadless)
		return;
	lk__wake_fd(loop->wake_fd);
	lk__thread_join(loop->pthread);
}

void lk__loop_free(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (!loop)
		return;
	lk__loop_stop(client);
	atomic_store(&client->loop, NULL);
	loop_free(loop);
}

void lk__loop_attend(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop && !atomic_exchange(&loop->attending, true))
		lk__wake_fd(loop->wake_fd);
}

void lk__loop_wake(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop)
		lk__wake_fd(loop->wake_fd);
}

void lk__loop_verify(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop && !atomic_exchange(&loop->verify, true))
		lk__wake_fd(loop->wake_fd);
}
