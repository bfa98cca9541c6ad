/* SPDX-License-Identifier: MIT */
/*
 * One connection to a node, driven by the threads that wait for what it brings.
 *
 * Contract:
 * - Commands go out in the order of lk__conn_submit(), answers come back in it. A caller that
 *   finds no reader becomes the reader (`leader`), for itself and for the others, until its own
 *   answer is there. Then it writes what was left for it and wakes the next; if that one does not
 *   run soon, the next caller leads instead. While the leader works, or the next is on its way,
 *   others leave their bytes for its next write; while it sleeps, they write themselves.
 * - The leader sleeps in poll() on the socket, `wake_fd` and its cancel token, never in a read.
 *   A caller that has waited for longer than usual reads in its place while it sleeps, or waits
 *   for a core: the thread that clears `asleep` may touch `reader` and `chunk`. Writing is done
 *   under `mutex`; reading too where the stream cannot do both at once (TLS).
 * - When the oldest answer is later than the command limit, or the connection alone is silent
 *   (conn.c), or the stream fails, the connection is broken: what is in flight and may be
 *   repeated is sent again, in order, on the next one; the rest is done with an outcome (not sent:
 *   not done; sent: unknown).
 * - While the connection is made, its leader takes the connector's steps; without one the loop
 *   takes them, so that connecting goes on when impatient callers have left.
 * - Answers that nobody waits for are read by the loop (lk__conn_attend()).
 * - What must be on replicas is done when they have it: acks.c.
 * - Locks: a lock's entry first, then a connection's mutex; `finish` is called with neither.
 */
#ifndef LK__CONN_CONN_H
#define LK__CONN_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/containers.h"
#include "base/door.h"
#include "base/thread.h"
#include "conn/request.h"

struct lk__channel;
struct lk__connector;
struct lk__greeting;
struct lk__node;
struct lk__reader;
struct lk__stream;
struct lk_config;
struct pollfd;

enum lk__conn_kind { LK__CONN_SCRIPTS, LK__CONN_MESSAGES, LK__CONN_WORK, LK__CONN_PROBE };
enum lk__conn_state { LK__CONN_DOWN, LK__CONN_CONNECTING, LK__CONN_UP, LK__CONN_CLOSED };

#define LK__CONN_PLACE_SIZE 64 /* a longer one is cut */
#define LK__CHUNK_SIZE 16384   /* bytes of one read */
#define LK__WAKES_MAX 256      /* threads woken together */
#define LK__ACKS_PARTS 3       /* of the command limit: a WAIT takes one of them at most */

/* A caller that waits for something that this connection brings; lives on its stack. */
struct lk__wait {
	struct lk__thread *thread;
	bool (*ready)(const void *subject); /* called under the connection's mutex */
	const void *subject;
	struct lk__request *request; /* what it waits for, or NULL */
	bool listed;                 /* in `waits`; the answer takes it out */
	_Atomic bool appointed;      /* woken to lead */
	struct lk__wait *prev, *next;
};

/*
 * The memory of whether spinning has paid lately. Touched by the leader alone. A spin that took the
 * core from others costs far more than it saves: one in some hundred turns would be the slowest
 * hundredth of all calls. So each such pause is twice as long as the last, unless spinning has paid
 * since.
 */
struct lk__spin {
	int credit;      /* raised by each answer that came in time, lowered by each that did not */
	int pause;       /* turns to go without a spin */
	unsigned misses; /* pauses since it has paid */
};

/* Why a connection must break: the first reason. */
struct lk__fault {
	int code;
	char reason[160];
};

struct lk__conn {
	pthread_mutex_t mutex;
	struct lk__node *node;
	enum lk__conn_kind kind;
	unsigned char index;               /* kind SCRIPTS: among those of its node */
	enum lk__conn_state _Atomic state; /* written under the mutex */
	_Atomic unsigned callers; /* that wait for an answer here, or are about to: see node.c */
	int64_t used_ns;          /* when it came up, or last sent something */
	int64_t heard_ns;         /* when it came up, or something was last read */
	int64_t doubt_ns;         /* when its silence is to be doubted, or before: conn.c */
	int64_t doubted_ns;       /* when that was last done */
	struct lk__stream *stream;
	struct lk__reader *reader;
	struct lk__buffer out;
	struct lk__request *in_flight; /* sent, or waiting for the next connection; oldest first */
	size_t in_flight_count;
	struct lk__request *postponed; /* sent, refused, and to be sent again: pipeline.c */
	int64_t postponed_until_ns;
	struct lk__request *unacked;  /* answered, and not yet acknowledged; before in_flight */
	bool asks_acks;               /* a WAIT is under way for them */
	int more_acks;                /* of unreported replicas, see acks.c */
	int64_t ask_ns;               /* when one is sent for them if none is under way */
	struct lk__request *finished; /* done, and left to a thread that may call `finish` */
	_Atomic unsigned finishing;   /* threads that call it now, or keep it pinned */
	bool closing;                 /* no new tries, please: the client is being closed */
	struct lk__wait *waits;
	struct lk__standby *standbys; /* operations that wait for it, and do not lead it */
	struct lk__thread *leader;
	struct lk__wait *next_leader; /* woken to lead, and has not run yet */
	int64_t appointed_ns;         /* when it was */
	int64_t trip_ns;              /* from a command to its answer, lately, */
	int64_t least_ns;             /* and at least, since it came up; 0: none yet */
	_Atomic bool tended; /* while it is made, and no caller does that: the loop was told */
	/* The leader sleeps: newcomers write themselves. The thread that clears it reads. */
	_Atomic bool asleep;
	int64_t asleep_until_ns; /* at most, if nothing comes */
	_Atomic bool left;       /* bytes were left for the leader */
	_Atomic bool ended;      /* the set has told its end: to be read when the leader goes */
	bool outlived;   /* it is silent, and another was greeted since: to be read once more */
	bool silent;     /* it must break because it is */
	bool must_break; /* for the leader to do: `fault` says why */
	bool drains;     /* it must break when it has said what it owes: pipeline.c */
	bool disowned;   /* it must break, and what it still says is not believed */
	bool exclusive;  /* the stream cannot be read and written at once */
	struct lk__fault fault;
	int64_t drain_until_ns;
	uint64_t generation;             /* of the node's finder, when it was found */
	char place[LK__CONN_PLACE_SIZE]; /* where the node was found; "" without a finder */
	int wake_fd; /* of its leader; kind PROBE: -1, the loop alone makes it */
	struct lk__spin spin;
	struct lk__channel *channels;   /* kind MESSAGES: what is subscribed to, by name */
	bool scripts[LK__SCRIPT_COUNT]; /* which the server has, or was sent before */
	bool load_refused;              /* SCRIPT LOAD was: there is none, or this user may not */
	int64_t loaded_ns[LK__SCRIPT_COUNT]; /* when each was last sent */
	struct lk__connector *connector;
	size_t wanted;          /* callers that wait for the connection itself */
	bool watched;           /* the present connection is in the loop's set, */
	_Atomic bool armed;     /* which is asked to tell when it can be read, */
	bool proved;            /* and which has answered a caller's request */
	unsigned failures;      /* to get a connection that answers, in a row */
	int64_t greeted_ns;     /* when the present connection's handshake was sent */
	uint64_t failure_count; /* of connecting, ever: waits look for a change */
	int64_t next_connect_ns;
	lk_error last_error;
	char chunk[LK__CHUNK_SIZE];
};

/* A wait without leading: woken when the connection comes up or fails to. */
struct lk__standby {
	struct lk__standby *prev, *next;
	struct lk__thread *thread;
	bool once;              /* one failed attempt ends it */
	uint64_t failure_count; /* of the connection, when it began */
};

/* The work that is left until the mutex is free: threads to wake, requests to finish. */
struct lk__deferred {
	struct lk__thread *wakes[LK__WAKES_MAX];
	size_t wake_count;
	struct lk__request *finished;
	bool drives;      /* the caller goes on to wait for the connection, and makes it itself */
	int64_t probe_ns; /* another connection is needed until then, or 0: conn.c */
};

/* Nothing is. To clear the array would cost more than the rest of many a call. */
static inline void lk__deferred_init(struct lk__deferred *after)
{
	after->wake_count = 0;
	after->finished = NULL;
	after->drives = false;
	after->probe_ns = 0;
}

/* How long a silence is borne where there is so much time for an answer: 50 ms at least, for it
 * may be slow by itself. */
static inline int64_t lk__patience_ns(int64_t left_ns)
{
	return lk__later(left_ns / 3, 50 * LK__MS);
}

/* Its mutex, for lk__conn_unlock() or lk__conn_unlock_held(). */
static inline void lk__conn_lock(struct lk__conn *conn, struct lk__deferred *after)
{
	lk__deferred_init(after);
	pthread_mutex_lock(&conn->mutex);
}

/* Its leader looks again. */
static inline void lk__conn_wake(const struct lk__conn *conn)
{
	if (conn->wake_fd >= 0)
		lk__wake_fd(conn->wake_fd);
}

/* Tells whether a caller reads, or is about to; under the mutex. */
static inline bool lk__conn_is_led(const struct lk__conn *conn)
{
	return conn->leader || conn->next_leader;
}

/* Tells whether the next leader is on its way. One that gets no core for a while is not expected
 * any more: a newcomer leads. */
static inline bool lk__conn_expects_leader(const struct lk__conn *conn)
{
	return conn->next_leader &&
	       lk__now_ns() - conn->appointed_ns < lk__later(conn->trip_ns, 100 * LK__US);
}

int lk__conn_init(struct lk__conn *conn, struct lk__node *node, enum lk__conn_kind kind,
		  lk_error *error);

/* From now on tries are refused (LK_ECLOSED); what is in flight goes on. */
void lk__conn_close_to_tries(struct lk__conn *conn);

/* Tells whether every answer is there and finished; under the mutex, as lk__conn_wait() calls
 * it. */
bool lk__conn_is_idle(const void *conn);

/* Not idle in between: the caller has an answer to read yet, and may have more to send then. */
void lk__conn_pin(struct lk__conn *conn);
void lk__conn_unpin(struct lk__conn *conn);

/* Ends it: everything in flight is done, every waiter returns LK_ECLOSED. */
void lk__conn_close(struct lk__conn *conn);

/* Queues a request and starts the connection if need be; never blocks, never fails: a
 * request that cannot be sent is done with a code. */
void lk__conn_submit(struct lk__conn *conn, struct lk__request *request);

/* Sends now what was submitted, or put, for a thread that does not lead, if it has not left
 * before. */
void lk__conn_send_queued(struct lk__conn *conn);

/*
 * Sends for a caller who asks several connections, and reads them itself (lk__conn_attend()): what
 * was put leaves in one write (lk__conn_send_queued()), and the loop need not read. A caller that
 * stops reading says so (forgo) where answers are missing.
 */
void lk__conn_put(struct lk__conn *conn, struct lk__request *request);
void lk__conn_forgo(struct lk__conn *conn);

/* Sends a request that nobody awaits, to a client that may be closed: false, and the request is
 * still the caller's. Of a closed client no thread is left that would call its finish(). */
bool lk__conn_offer(struct lk__conn *conn, struct lk__request *request);

/* Sends a request whose answer nobody wants, within the command limit, and takes it. Sends nothing
 * if the client is closed, or if `request` is NULL: the caller had no memory for it. */
void lk__conn_tell(struct lk__conn *conn, struct lk__request *request);

/*
 * Keeps a request of which a copy, sent at `sent_ns`, was done and answered. The request is done
 * when replicas have what it did; the connection asks them with the next grant, or after
 * `pause_ns`. A connection that is lost before sends it like any other. False: that has happened
 * already, and the request is still the caller's.
 */
bool lk__conn_keep(struct lk__conn *conn, struct lk__request *request, int64_t sent_ns,
		   int64_t pause_ns);

/* Where the node was found last; "": never, or without a finder. */
void lk__conn_place(struct lk__conn *conn, char place_out[LK__CONN_PLACE_SIZE]);

/* Tells whether it is up at this moment: a hint for what need not be sent at any cost. */
bool lk__conn_is_up(struct lk__conn *conn);

/* Finishes what is done, for callers that hold no lock. The loop does that too, but not any more
 * for what was submitted to a connection that is closed. */
void lk__conn_settle(struct lk__conn *conn);

/* Results of waiting beside LK_ECANCELLED and LK_ECLOSED. */
#define LK__WAIT_TIME_UP 0
#define LK__WAIT_READY 1

/* Waits until `ready(subject)`, reading for all if nobody else does. */
int lk__conn_wait(struct lk__conn *conn, struct lk__thread *thread,
		  bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
		  lk_cancel *cancel);

/* Waits until the request is done. */
int lk__conn_await(struct lk__request *request, struct lk__thread *thread, int64_t until_ns,
		   lk_cancel *cancel);

/* lk__conn_submit() and lk__conn_await() in one. */
int lk__conn_call(struct lk__conn *conn, struct lk__request *request, struct lk__thread *thread,
		  int64_t until_ns, lk_cancel *cancel);

/*
 * Nobody waits for the request any more: `finish` will own it. False when it is done already, or
 * was never sent, which makes it so: then it stays the caller's. Where no thread waited, false
 * means that the `finish` it had is called.
 */
bool lk__conn_leave(struct lk__request *request, void (*finish)(struct lk__request *request));

/* The request's waiter has no more time: if it was answered, and waits for replicas or
 * disks, it is done now, with LK_ENOTDURABLE and the names of those that it waits for. True: it is
 * done. For callers that may hold an entry. */
bool lk__conn_hurry(struct lk__request *request);

/* Withdraws a request that nobody waits for, if it was never sent: true, and it is done, without a
 * call of its `finish`. */
bool lk__conn_withdraw(struct lk__request *request);

/* Lets `thread` wait until then for a request that was left. False when it is done: `finish` has
 * it. */
bool lk__conn_take_over(struct lk__request *request, struct lk__thread *thread, int64_t until_ns);

/*
 * Waits until the connection is up. Begin: true when it is; `once`: one failed attempt ends the
 * wait, also where the connection has been up before. Look: LK__WAIT_READY, LK__WAIT_TIME_UP while
 * it may still come, LK_ECLOSED, or the code with which connecting failed; what has failed is
 * written to `error`, which may be NULL. The thread is woken to look. Each begin that was false has
 * its end.
 */
bool lk__conn_ready_begin(struct lk__conn *conn, struct lk__standby *standby,
			  struct lk__thread *thread, bool once);
int lk__conn_ready_look(struct lk__conn *conn, const struct lk__standby *standby, lk_error *error);
void lk__conn_ready_end(struct lk__conn *conn, struct lk__standby *standby);

/* Between two looks, in a calling thread: makes the connection if nobody does, or sleeps. */
void lk__conn_ready_sleep(struct lk__conn *conn, const struct lk__standby *standby,
			  struct lk__thread *thread, int64_t until_ns, lk_cancel *cancel);

/* The whole of it, in the calling thread: what the last look has returned. */
int lk__conn_ready(struct lk__conn *conn, struct lk__thread *thread, bool once, int64_t until_ns,
		   lk_error *error);

/* Tells whether a connection that could not be had for the reason `code` may be had later,
 * though nothing here is changed: not with a password or certificates that stay, or without
 * descriptors. */
bool lk__conn_may_come(const struct lk_config *config, int code);

/* Begins to connect if it is down and its pause is over; waits for nothing. */
void lk__conn_open(struct lk__conn *conn);

/* Tells whether it is up, and its handshake, which was answered, was sent at that time or later. */
bool lk__conn_greeted_since(struct lk__conn *conn, int64_t since_ns);

/* Why there is no answer on it, at this moment: it is down, or the server is silent. */
void lk__conn_fault(struct lk__conn *conn, struct lk__fault *fault_out);

/* The loop's turn: reads what is there if nobody else reads, and keeps the command limit. Returns
 * whether answers or messages are still expected without a reader. `event`: the set has told of it;
 * a leader reads up to its own answer, and may not see the end behind that. */
bool lk__conn_attend(struct lk__conn *conn, struct lk__thread *thread, bool event);

/* The loop's turn for one that is being made: goes on with that, unless a caller does, and has the
 * set tell when to call again. Returns when to do so without. */
int64_t lk__conn_make_turn(struct lk__conn *conn, struct lk__thread *thread, int set_fd);

/* Puts the socket into a set, once for each connection made: one event when the other side ends it,
 * with `conn` as its data. Where that fails, its next user notices its end. */
void lk__conn_watch(struct lk__conn *conn, int set_fd);

/*
 * For a loop that sleeps until there is something to read: asks for one event when there is, or
 * when what is left can be written; not while another reads. Returns when to attend without one.
 */
int64_t lk__conn_arm(struct lk__conn *conn, int set_fd);

/* The socket and what to wait for, for poll() alone: a hint that is out of date when the connection
 * is lost. True where poll() cannot tell: lk__conn_attend() is to be called, and there may be no
 * socket (-1). */
bool lk__conn_poll(struct lk__conn *conn, struct pollfd *poll_out);

/* For the files of src/conn alone, with the mutex held. */
int64_t lk__conn_next_ns(const struct lk__conn *conn); /* when to look, if nothing comes */
/* If it is being made, it is needed until the request needs its answer. */
void lk__conn_hasten(struct lk__conn *conn, const struct lk__request *request);
/* Makes the one that shows whether a server that says nothing would greet another. */
void lk__node_try(struct lk__node *node, int64_t until_ns);
/* The request was written just now: conn.c looks after its answer. */
void lk__conn_count_on(struct lk__conn *conn, const struct lk__request *request);
/* A WAIT is over: what is behind it is doubted sooner. */
void lk__conn_waited(struct lk__conn *conn);
/* Something is in flight, and there was nothing to read. */
void lk__conn_heard_nothing(struct lk__conn *conn, struct lk__deferred *after);
/* Queues it and starts the connection if need be. */
void lk__conn_accept(struct lk__conn *conn, struct lk__request *request,
		     struct lk__deferred *after);
void lk__conn_enqueue(struct lk__conn *conn, struct lk__request *request);
void lk__conn_remove(struct lk__conn *conn, struct lk__request *request);
void lk__conn_push(struct lk__conn *conn); /* what was appended must leave now */
void lk__conn_append(struct lk__conn *conn, struct lk__request *request);
void lk__conn_done(struct lk__conn *conn, struct lk__request *request, int code, const char *reason,
		   struct lk__deferred *after);
void lk__conn_must_break(struct lk__conn *conn, int code, const char *reason);
struct lk__request *lk__conn_answered(struct lk__conn *conn); /* whose answer comes next, or NULL */
void lk__conn_break(struct lk__conn *conn, int code, const char *reason,
		    struct lk__deferred *after);
void lk__conn_start(struct lk__conn *conn, struct lk__deferred *after);
void lk__conn_flush(struct lk__conn *conn);
void lk__conn_take(struct lk__conn *conn, redisReply *reply, struct lk__deferred *after);
void lk__after_wake(struct lk__deferred *after, struct lk__thread *thread);
/* Frees the mutex, then wakes and finishes; for callers that hold no entry. A connection that is
 * being made, and that nobody leads, is left to the loop. */
void lk__conn_unlock(struct lk__conn *conn, struct lk__deferred *after);
/* Unlocks for callers that may hold one: finishing is left to the next who may, or the loop. */
void lk__conn_unlock_held(struct lk__conn *conn, struct lk__deferred *after);

/* ---- what a connection leaves to others ---- */

/* Acknowledgements (acks.c) and subscriptions (channels.c) stand above connections: both use them,
 * and a connection knows both by these functions alone. With the mutex held. */
struct lk__acks_ops {
	/* It is answered, and what it did must be acknowledged: true, and it waits for that. */
	bool (*await)(struct lk__conn *conn, struct lk__request *request,
		      struct lk__deferred *after);
	void (*came)(struct lk__conn *conn, const struct lk__request *asked,
		     struct lk__deferred *after);
	void (*lost)(struct lk__conn *conn);
	void (*turn)(struct lk__conn *conn, struct lk__deferred *after);
	/* Its waiter has no more time: what waits for others to acknowledge it is done. */
	void (*hurry)(struct lk__conn *conn, struct lk__request *request,
		      struct lk__deferred *after);
};

struct lk__channels_ops {
	void (*take)(struct lk__conn *conn, redisReply *reply, struct lk__deferred *after);
	void (*probe)(struct lk__conn *conn); /* PING when it has been silent for long */
	/* Each of its node's connections that was made, as the server calls it, or has ended. */
	void (*made)(struct lk__conn *conn, int64_t id);
	void (*lost)(struct lk__conn *conn);
};

extern const struct lk__acks_ops lk__acks_ops;
extern const struct lk__channels_ops lk__channels_ops;

/* ---- answers that lead elsewhere ---- */

/*
 * Answers of a server that must not be asked: it is not a master any more, or, in a cluster,
 * another node has the key. In both cases the server has not run the command.
 */

/* Sends again what waits in the connection until its keys have moved. */
void lk__conn_resume(struct lk__conn *conn);

/* Sends a request that is done, and was redirected, to its new node: true, and it is not done. The
 * owner calls this before it reads anything from the request, and holds no mutex. */
bool lk__conn_follow(struct lk__request *request);

#endif
