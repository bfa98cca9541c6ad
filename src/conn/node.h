/* SPDX-License-Identifier: MIT */
/*
 * One server: its connections, the difference between its clock and ours, and the count of
 * connections lost, by which grants know that they are in doubt.
 */
#ifndef LK__CONN_NODE_H
#define LK__CONN_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "conf/config.h"
#include "conn/conn.h"
#include "conn/tracking.h"

/* ---- where it is, if that changes ---- */

/*
 * Where a node is, if that changes: the topology finds out, the node's connections ask it.
 *
 * `generation` is raised whenever the server that is believed changes. A connection remembers the
 * one with which it was found. What an older one still says is not believed: the topology calls
 * lk__node_disown() after it has raised the generation, and a connection that is installed later
 * compares for itself.
 */

struct lk_config;
struct lk__finder;
struct lk__node;

struct lk__finder_ops {
	/* Writes host, port and url (for messages) into `config`, a copy of the caller's own.
	 * 1: it is not known yet; lk__node_found() tells when to look again. `asked` is 0 in the
	 * first call for an attempt, and then kept for the next. */
	int (*find)(struct lk__finder *finder, struct lk_config *config, uint64_t *generation_out,
		    uint64_t *asked, int64_t deadline_ns, lk_error *error);
	/* The server that was found says that it takes no writes: ask again soon. Under a
	 * connection's mutex. */
	void (*suspect)(struct lk__finder *finder);
	/* It says that another has the key, with these words: MOVED or ASK. Takes note of a MOVED.
	 * The node to ask instead; NULL: it is not known yet. `place`: of the server that
	 * says so. Under a connection's mutex. NULL: one node has all keys. */
	struct lk__node *(*redirect)(struct lk__finder *finder, const char *words,
				     const char *place);
	void (*unref)(struct lk__finder *finder);
};

struct lk__finder {
	const struct lk__finder_ops *ops;
	_Atomic int refs; /* the topology, and each connector */
	_Atomic uint64_t generation;
};

/* ---- unreported replicas ---- */

/*
 * Unreported replicas: a master has them connected, and neither sentinels nor nodes have told us
 * of them. Somebody may promote one of them before we hear of it. This decides which of them must
 * acknowledge a change, besides the replicas that are known.
 *
 * One must from its connect or its first acknowledgement on, until 5 s after its last one,
 * connected or not: a replica that is being promoted leaves its master. A connected replica that
 * acknowledges nothing during a whole WAIT hangs, or is loading: it need not, until it acknowledges
 * again. So each of those delays one WAIT at most. A replica that was known, and is not any more,
 * starts again as a new one: it is most likely down.
 */

#define LK__FOLLOWER_PLACE_SIZE 64
#define LK__FOLLOWER_MS 5000

struct lk__follower {
	char place[LK__FOLLOWER_PLACE_SIZE]; /* "": none */
	long long offset;                    /* which it had acknowledged when it was last seen */
	int64_t alive_ns; /* of its last acknowledgement while it was unreported; 0: it need not */
	bool silent;      /* it has acknowledged nothing during a WAIT */
};

struct lk__followers {
	struct lk__follower each[LK__ACKS_MAX];
	int64_t crowded_ns; /* when there were more; 0: never */
};

/* A sighting, by the ROLEs around a WAIT, of a replica that is connected after it. */
struct lk__sighting {
	const char *place;
	long long before, behind; /* the offsets; before is -1: it was not connected then */
	bool has;                 /* it has what is asked for */
	bool known;               /* it must have it anyway */
	bool returning;           /* the former master: it must from when it is first seen */
	bool over;                /* the WAIT took all its time */
};

/* Notes what was seen. True when one more WAIT must include it: it had no time to answer. */
bool lk__followers_see(struct lk__followers *followers, const struct lk__sighting *seen,
		       int64_t now_ns);

/* How many must acknowledge besides those that are known; LK__ACKS_MAX + 1: more than can. */
int lk__followers_due(const struct lk__followers *followers, int64_t now_ns);

/* ---- listed replicas ---- */

/*
 * Listed replicas: a URL names them, and WAIT counts whoever is connected. This tells which of
 * those that have a change are the listed ones, so that no other is taken for one of them.
 *
 * A master shows a replica by the address that it connects from, or announces; the list names it as
 * the client reaches it. The two may differ, behind an address translation for instance. So a
 * replica that its master has never shown under a name that we know may be any of those that we do
 * not know, if it says itself that it follows. One that has been shown must be shown.
 */
struct lk__listed_replica {
	char place[LK__CONN_PLACE_SIZE];   /* as the list names it */
	char address[LK__CONN_PLACE_SIZE]; /* where it was reached; "": never */
	bool alive;                        /* it answers, as a replica */
	bool follows;                      /* it says that it has a link to its master */
	bool met;                          /* this master has shown it */
	bool shown, has;                   /* in the answer that is looked at; it has the change */
};

struct lk__listed {
	struct lk__listed_replica each[LK__ACKS_MAX];
	int count;
	int others; /* in that answer: not known by name, and have the change */
};

/* One that is in the list. NULL: there are too many. */
struct lk__listed_replica *lk__listed_of(struct lk__listed *listed, const char *place);

/* Another master has shown none yet. */
void lk__listed_forget(struct lk__listed *listed);

/* An answer shows this one. */
void lk__listed_see(struct lk__listed *listed, const char *place, bool has);

/* All that it shows was seen: how many of those that are alive have it. `absent_out`: one that is
 * alive and that the master has not shown; NULL: there is none. */
int lk__listed_come(struct lk__listed *listed, const char **absent_out);

/* ---- a node ---- */

struct lk_config;
struct lk__finder;

#define LK__SCRIPT_CONNECTIONS_MAX 16

/* A node's news for its client; called with a connection's mutex held, so it may only take note,
 * except `connecting`, which is called with none. */
struct lk__node_events {
	void (*attention)(void *context);  /* answers are expected and nobody reads */
	void (*lost)(void *context);       /* a connection was lost: grants are in doubt */
	void (*up)(void *context);         /* a connection was made */
	void (*connecting)(void *context); /* one is to be made: the loop must go on with it */
	void (*doubt)(void *context, void *owner); /* a listener heard an unexpected message */
	/* There is something for the loop to take: tracking.h. NULL where nobody takes it. */
	void (*told)(void *context);
};

struct lk__node_counters {
	_Atomic uint64_t commands, resent, connects, disconnects, messages, unheard, failovers;
	_Atomic int64_t round_trip_ns; /* of the last question for its time; 0: not asked yet */
};

/* The replicas that are known to be alive. */
struct lk__replicas {
	_Atomic int count;
	bool named;  /* they are known by address */
	bool listed; /* they are those of a list */
	/* A former master may follow, which nobody has seen yet: it counts once its master has. */
	_Atomic bool returns;
	_Atomic int64_t look_ns; /* when it is time to see who is connected */
	pthread_mutex_t mutex;   /* of what follows */
	char place[LK__ACKS_MAX][LK__CONN_PLACE_SIZE];
	char returning[LK__CONN_PLACE_SIZE]; /* the former master */
	struct lk__followers followers;      /* connected to the master … */
	uint64_t generation;                 /* … that the node's finder found then */
	struct lk__listed list;              /* likewise */
};

/* Where its server has been, the last ones: each since the node had that epoch. */
#define LK__STAYS_MAX 4

struct lk__stays {
	size_t count; /* ever */
	struct {
		char place[LK__CONN_PLACE_SIZE];
		uint64_t epoch;
	} at[LK__STAYS_MAX];
	pthread_mutex_t mutex; /* a leaf; first, gcc 14 takes the places for a part of it */
};

struct lk__node {
	const struct lk_config *config;
	struct lk__finder *finder; /* NULL: it is where the configuration says */
	struct lk__log log;
	const struct lk__node_events *events;
	void *context;
	/* Connections that were made so far: the first, and others since there was a crowd. */
	struct lk__conn *scripts[LK__SCRIPT_CONNECTIONS_MAX];
	_Atomic size_t script_count;
	_Atomic int crowd;           /* how often callers found none free, see node.c */
	_Atomic bool gathered;       /* all share one of them: there are so many callers */
	_Atomic bool growing, grown; /* one makes another; nobody may any more */
	/* It has run over any of them, and the server has not been without it since. */
	_Atomic bool script_there[LK__SCRIPT_COUNT];
	_Atomic bool was_up;         /* ever: then a failure to connect is retried */
	_Atomic bool no_hello;       /* it does not know that: it is not asked again */
	_Atomic bool time_by_script; /* a proxy answers TIME itself */
	_Atomic bool spreads;        /* a proxy answers for several servers, each with some keys:
				    * a script, which runs at one, may be about one lock */
	enum lk__messages told_by;   /* the kind of its messages */
	const struct lk__acks_ops *acks_ops; /* of its connections: conn.h */
	const struct lk__channels_ops *channels_ops;
	bool can_spin;        /* asked for, and there is a core left for the server */
	int acks;             /* replicas that must have a grant, or LK__ACKS_ALL */
	enum lk__fsync fsync; /* and on which disks it must be */
	struct lk__replicas replicas;
	struct lk__stays stays; /* of one with a finder */
	struct lk__conn messages;
	struct lk__conn work;
	struct lk__conn probe;       /* made where another is silent, and closed again: conn.c */
	_Atomic int64_t work_due_ns; /* 0: nothing is renewed here; LK__NEVER: was to be opened */
	_Atomic bool opens_work;     /* the loop's next turn does that */
	_Atomic int64_t offset_ns;   /* server time - CLOCK_BOOTTIME, a lower bound; 0: unknown */
	_Atomic int64_t before_ns;   /* the difference before the server's clock stepped back … */
	_Atomic int64_t fell_ns;     /* … which was noticed then */
	_Atomic int64_t asked_ns;    /* when the server was last asked for its time */
	_Atomic uint64_t epoch;      /* connections lost so far */
	_Atomic int64_t greeted_ns;  /* when the last handshake that was answered was sent */
	_Atomic int64_t silent_ns;   /* since when one was silent that is lost; 0: none was */
	_Atomic int64_t mute_ns; /* the same of one for scripts, also once others were greeted */
	_Atomic bool judges;     /* one of these has changed */
	struct lk__tracking tracking;
	struct lk__node_counters counters;
};

int lk__node_init(struct lk__node *node, const struct lk_config *config,
		  const struct lk__node_events *events, void *context, lk_error *error);
void lk__node_close(struct lk__node *node);
void lk__node_destroy(struct lk__node *node);

/* Another master is believed to be at `place`; "": none is, which is no failover yet. */
static inline void lk__node_count_failover(struct lk__node *node, const char *place)
{
	if (*place)
		atomic_fetch_add_explicit(&node->counters.failovers, 1, memory_order_relaxed);
}

/* Another server is the master: breaks, unread, all connections that were found before the present
 * generation of the finder. One that is being made is looked for anew, at once, and so is one that
 * is wanted next. For a thread that holds no mutex. */
void lk__node_disown(struct lk__node *node, const char *reason);

/* Where its server is may be known: those who make its connections look. */
void lk__node_found(struct lk__node *node);

/* A connection was made to the server at `place`; "": without a finder. */
void lk__node_note_place(struct lk__node *node, const char *place);

/* Where its server was at that epoch, as host:port or the path of a socket; "": long ago. */
void lk__node_place_at(struct lk__node *node, uint64_t epoch, char place_out[LK__CONN_PLACE_SIZE]);

/* The connection for scripts that is always there, and the one of an entry that has chosen that
 * index; the first where this node has no such. */
static inline struct lk__conn *lk__node_scripts(const struct lk__node *node)
{
	return node->scripts[0];
}

static inline struct lk__conn *lk__node_scripts_at(const struct lk__node *node, unsigned index)
{
	return node->scripts[index < atomic_load(&node->script_count) ? index : 0];
}

/* Each connection of the node, by an index from 0; NULL behind the last. */
static inline struct lk__conn *lk__node_conn(struct lk__node *node, size_t index)
{
	struct lk__conn *const others[] = {&node->messages, &node->work, &node->probe};
	size_t count = sizeof(others) / sizeof(others[0]);
	if (index < count)
		return others[index];
	index -= count;
	return index < atomic_load(&node->script_count) ? node->scripts[index] : NULL;
}

/* Makes one more, which is down. */
int lk__node_add_conn(struct lk__node *node, lk_error *error);

/* Chooses one for a caller that is about to wait for an answer, and counts it there until
 * lk__conn_part(). `crowded_out`: there are callers for one more. */
struct lk__conn *lk__node_join(struct lk__node *node, bool *crowded_out);
static inline void lk__conn_join(struct lk__conn *conn) /* this one */
{
	atomic_fetch_add_explicit(&conn->callers, 1, memory_order_relaxed);
}

static inline void lk__conn_part(struct lk__conn *conn)
{
	atomic_fetch_sub_explicit(&conn->callers, 1, memory_order_relaxed);
}

/* Begins to open one more, unless there are `connections`, one is being opened, or could not be had
 * lately. */
void lk__node_grow(struct lk__node *node);
void lk__node_stop_growing(struct lk__node *node);

/* Since when it owes callers an answer, and says nothing on any connection; LK__NEVER: it owes
 * none. Renewals have no caller that waits. Where the server refused or ended a connection, it has
 * answered. */
int64_t lk__node_mute_since_ns(struct lk__node *node);

/* How many there are beside the first. */
size_t lk__node_extra(struct lk__node *node);

/* The loop's turn: opens the background's connection, when that is due. Connections that are silent
 * while others were greeted break, those that have been idle for as long are closed, and so are
 * those for a crowd that have not been used for long. Returns when the next of these is due. */
int64_t lk__node_turn(struct lk__node *node, int64_t now_ns);

/*
 * Something will be renewed: the loop is to open the background's connection while descriptors are
 * there, a moment after the first such call, since a lock that is held for less needs none. When to
 * call again, or LK__NEVER.
 */
int64_t lk__node_prepare(struct lk__node *node, int64_t now_ns);

/* The background's connection, or while that cannot be had one that is up. */
struct lk__conn *lk__node_work(struct lk__node *node);

/* Server time of an instant of ours, in µs: never later than the truth. */
int64_t lk__node_server_us(const struct lk__node *node, int64_t at_ns);

/* Raises the difference where an answer that arrived at `received_ns` shows that it is larger. */
void lk__node_learn_time(struct lk__node *node, int64_t server_us, int64_t received_ns);

/*
 * Learns the difference from a question sent at `sent_ns` and its answer, also that it has become
 * smaller. Every connection asks in its handshake, and with a command once a second at most.
 */
void lk__node_hear_time(struct lk__node *node, int64_t server_us, int64_t sent_ns,
			int64_t received_ns);

/* Tells whether changes of its keys may be told (tracking.h), as far as is known: by the option,
 * and by no proxy that spreads. */
static inline bool lk__node_may_track(const struct lk__node *node)
{
	return node->config->chosen.tracks && !atomic_load(&node->spreads) &&
	       !lk__tracking_is_refused(&node->tracking);
}

/* How many messages tell of one release, and how many subscriptions hear of each. */
static inline unsigned lk__node_tellings(const struct lk__node *node)
{
	return node->told_by == LK__MESSAGES_BOTH ? 2 : 1;
}

/* How many replicas must have a grant. */
static inline int lk__node_acks(const struct lk__node *node)
{
	return node->acks >= 0 ? node->acks : atomic_load(&node->replicas.count);
}

/* Tells whether an unreported replica may be connected (followers.c). */
static inline bool lk__replicas_may_be(const struct lk__replicas *replicas)
{
	return atomic_load(&replicas->returns) ||
	       (replicas->named && lk__now_ns() >= atomic_load(&replicas->look_ns));
}

/* Tells whether a grant waits for replicas or disks at all. */
static inline bool lk__node_is_acked(const struct lk__node *node)
{
	return node->fsync != LK__FSYNC_OFF || lk__node_acks(node) > 0 ||
	       (node->acks == LK__ACKS_ALL && lk__replicas_may_be(&node->replicas));
}

/*
 * The largest difference with which the deadline of a request under way at `now_ns` may have been
 * computed. After a step back it is the one before the step, until all such deadlines are past.
 */
int64_t lk__node_most_offset_ns(const struct lk__node *node, int64_t now_ns);

#endif
