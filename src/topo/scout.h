/* SPDX-License-Identifier: MIT */
/*
 * The scout of a deployment whose master moves: one thread that asks several peers (the listed
 * servers, or the sentinels) where the master is, and believes what the kind of deployment makes
 * of their answers.
 *
 * - It asks in rounds: once a second, when a connector wants to know (lk__finder), when a
 *   connection was told READONLY, and when a sentinel publishes something. A round ends when all
 *   have answered or failed, or after two seconds.
 * - A connector waits for a round that began after it asked.
 * - The replicas that are alive are counted in each round: so many must have what the master has
 *   done (conn/acks.c).
 * - When another server is believed, it raises the finder's generation and then disowns the node's
 *   older connections: their holds are in doubt, and are verified at the new master.
 * - The thread starts with the first question and ends with the client. It alone touches the
 *   peers; what it shares with others is under the scout's mutex, which it holds for no I/O.
 */
#ifndef LK__TOPO_SCOUT_H
#define LK__TOPO_SCOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

#include "conf/url.h"
#include "conn/finder.h"
#include "topo/link.h"

struct lk_config;
struct lk__node;
struct lk__scout;

#define LK__PEERS_MAX 32    /* listed and learned together */
#define LK__PEER_ID_SIZE 48 /* a run id, with its NUL */
#define LK__PEER_FAULT_SIZE 120
#define LK__PEER_ROUNDS 5 /* that a learned peer is kept without being named again */

struct lk__peer {
	char name[LK__PLACE_SIZE]; /* host:port */
	char id[LK__PEER_ID_SIZE]; /* its run id, or "" */
	bool listed;               /* in the URL; the others were learned */
	struct lk__link ask;       /* questions and answers */
	struct lk__link hear;      /* messages */
	int64_t open_ns;           /* not opened before */
	int64_t asked_ns;          /* when the answers that it owes were asked for */
	uint64_t asked_round, answered_round, failed_round, named_round;
	char says[LK__PLACE_SIZE];       /* its answer: what it means, the kind knows */
	char fault[LK__PEER_FAULT_SIZE]; /* why it failed, or what else it said */
	int code;                        /* of the fault */
};

/* What the kind of deployment makes of the answers so far. */
enum lk__verdict {
	LK__VERDICT_OPEN,      /* not yet known */
	LK__VERDICT_MASTER,    /* `place` is it */
	LK__VERDICT_UNKNOWN,   /* nobody can tell: who is connected stays so */
	LK__VERDICT_NO_MASTER, /* what was believed is none any more */
};

struct lk__scout_ops {
	/* Says the questions of a round; `first`: the link is new. 0, or LK_ENOMEM. */
	int (*ask)(struct lk__scout *scout, struct lk__peer *peer, bool first);
	/* An answer; true when it was the last of the round. */
	bool (*answered)(struct lk__scout *scout, struct lk__peer *peer, const char *what,
			 const redisReply *reply);
	/* Says what begins the messages. NULL: there are none. */
	int (*listen)(struct lk__scout *scout, struct lk__peer *peer);
	/* How many replicas of the server at `place` are alive. NULL: those that were told of. */
	int (*replicas)(const struct lk__scout *scout, const char *place);
	/* What is known; `over`: nobody else will answer. The first two have no error. */
	enum lk__verdict (*judge)(const struct lk__scout *scout, bool over, char *place_out,
				  lk_error *error);
};

/* `asking` is how its peers are reached: where, in all but host and port. Takes it over. */
int lk__scout_new(struct lk__scout **scout_out, const struct lk__scout_ops *ops,
		  struct lk_config *asking, struct lk__node *node, lk_error *error);

/* The finder of the node. */
struct lk__finder *lk__scout_finder(struct lk__scout *scout);

/* Ends thread and waits; again does nothing. From now on nothing is found. */
void lk__scout_stop(struct lk__scout *scout);
void lk__scout_unref(struct lk__scout *scout);

/* ---- for the kinds, on its thread ---- */

const struct lk_config *lk__scout_config(const struct lk__scout *scout);
size_t lk__scout_count(const struct lk__scout *scout);
const struct lk__peer *lk__scout_peer(const struct lk__scout *scout, size_t index);
bool lk__scout_has_answered(const struct lk__scout *scout, const struct lk__peer *peer);
/* In this round or the one before, and not failed since. */
bool lk__scout_answered_lately(const struct lk__scout *scout, const struct lk__peer *peer);

/* The server that is believed at present, or ""; and the one before it. */
const char *lk__scout_believed(const struct lk__scout *scout);
const char *lk__scout_former(const struct lk__scout *scout);

/* Another peer that a peer has named, with its run id. */
void lk__scout_learn(struct lk__scout *scout, const char *host, int port, const char *id);

/* A replica that is alive, as a peer says of the master that it names. */
void lk__scout_replica(struct lk__scout *scout, const struct lk__peer *peer, const char *place);

/* Asks for AUTH if the configuration has a password. 0, or LK_ENOMEM. */
int lk__scout_auth(struct lk__scout *scout, struct lk__link *link);

/* Notes why a peer gave no answer of use. */
void lk__scout_fault(struct lk__peer *peer, int code, const char *reason);

/* The same with an error reply. Of several refusals of AUTH the first is the reason. */
void lk__scout_refused(struct lk__peer *peer, const char *words);

/* A refusal among the peers' faults that stays, like a wrong password; else `code`. */
int lk__scout_worst(const struct lk__scout *scout, int code);

/* Fails with the peers' faults behind the text. */
int lk__scout_fail(const struct lk__scout *scout, lk_error *error, int code, const char *text);

#endif
