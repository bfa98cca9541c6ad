/* SPDX-License-Identifier: MIT */
/*
 * The scout of a deployment whose masters move: one thread that asks several peers (listed servers,
 * sentinels, or nodes of a cluster) where they are. What their answers mean, the kind of deployment
 * says.
 *
 * - It asks in rounds: about once a second, when somebody waits for one, when a connection failed
 *   or was told that its server is not a master, and when a sentinel publishes (rounds.h).
 *   A round ends when all have answered or failed, or after two seconds. While a master is missed,
 *   one peer is asked every 100 ms, and another answer than before begins a round.
 * - A waiter waits for a round that began after that, or in the 100 ms before, if no master is
 *   missed: each connection asks its server itself whether it is the master.
 * - The thread starts with the first question and ends with the client. It alone touches the
 *   peers; what it shares with others is under the scout's mutex, which it holds for no I/O. For a
 *   threadless client the program's turns stand in for it.
 */
#ifndef LK__TOPO_SCOUT_H
#define LK__TOPO_SCOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "conf/url.h"
#include "topo/link.h"
#include "topo/rounds.h"

struct lk_config;
struct lk__scout;

#define LK__PEERS_MAX 32    /* listed and learned together */
#define LK__PEER_ID_SIZE 48 /* a run id, with its NUL */
#define LK__PEER_FAULT_SIZE 120
#define LK__PEER_ROUNDS 5 /* in which others answer, and do not name a learned peer: it goes */

struct lk__peer {
	char name[LK__PLACE_SIZE]; /* host:port */
	char id[LK__PEER_ID_SIZE]; /* its run id, or "" */
	bool listed;               /* in the URL; the others were learned */
	struct lk__link ask;       /* questions and answers */
	struct lk__link hear;      /* messages */
	int64_t open_ns;           /* not opened before */
	int64_t begun_ns;          /* when it was opened last */
	int64_t asked_ns;          /* when the answers that it owes were asked for */
	uint64_t asked_round, answered_round, failed_round, named_round, silent_round;
	unsigned unnamed;                /* rounds since then in which others have answered */
	char says[LK__PLACE_SIZE];       /* its answer: what it means, the kind knows */
	char fault[LK__PEER_FAULT_SIZE]; /* why it failed, or what else it said */
	int code;                        /* of the fault */
};

struct lk__scout_ops {
	/* Says the questions of a round; `first`: the link is new, and AUTH has been said if there
	 * is a password. 0, or LK_ENOMEM. */
	int (*ask)(struct lk__scout *scout, struct lk__peer *peer, bool first);
	/* An answer; true when it was the last of the round. */
	bool (*answered)(struct lk__scout *scout, struct lk__peer *peer, const char *what,
			 const redisReply *reply);
	/* Says what begins the messages. NULL: there are none. */
	int (*listen)(struct lk__link *hear);
	/* Believes what the answers so far make known; `over`: nobody else will answer. True when
	 * those who wait can be told: that it is known, or with an error why nothing is. */
	bool (*judge)(struct lk__scout *scout, bool over, lk_error *error);
	/* They are to look. */
	void (*told)(struct lk__scout *scout);
};

/* `asking` is how its peers are reached: where, in all but host and port. Takes it over (NULL:
 * there was no memory for it). `kind`: for the functions of the kind. */
int lk__scout_new(struct lk__scout **scout_out, const struct lk__scout_ops *ops, void *kind,
		  struct lk_config *asking, const struct lk_config *config, lk_error *error);

/* The outcome of a round that begins after now, or has just begun: 0, or a code; 1 means not yet.
 * `asked` is 0 in the first call, and keeps the round for the next. */
int lk__scout_await(struct lk__scout *scout, uint64_t *asked, int64_t deadline_ns, lk_error *error);

/* Takes the turn of a threadless client: does what the thread would, as far as that goes without
 * waiting, and has the set tell when it goes on, without data. Returns when to call again without
 * that; 0: at once, after those who wait. */
int64_t lk__scout_turn(struct lk__scout *scout, int set_fd);

/* Another round is wanted. Any thread, under any mutex. */
void lk__scout_want(struct lk__scout *scout, enum lk__want why);

/* Writes host, port and url (for messages) of a place into `config`, a copy of the caller's own. */
int lk__scout_point(const struct lk__scout *scout, const char *place, struct lk_config *config,
		    lk_error *error);

/* Ends thread, links and waits; again does nothing. From now on nothing is found. */
void lk__scout_stop(struct lk__scout *scout);
void lk__scout_unref(struct lk__scout *scout);

/* ---- for the kinds, on its thread ---- */

void *lk__scout_kind(const struct lk__scout *scout);
const struct lk_config *lk__scout_config(const struct lk__scout *scout);
size_t lk__scout_count(const struct lk__scout *scout);
const struct lk__peer *lk__scout_peer(const struct lk__scout *scout, size_t index);
uint64_t lk__scout_round(const struct lk__scout *scout);
bool lk__scout_has_answered(const struct lk__scout *scout, const struct lk__peer *peer);
/* It has answered, and has not failed since: a peer that does not answer fails after a second. */
bool lk__scout_is_alive(const struct lk__peer *peer);

/* Another peer that a peer has named, with its run id: a new one, or one that was elsewhere. */
void lk__scout_learn(struct lk__scout *scout, const char *name, const char *id);

/* Notes why a peer gave no answer of use. */
void lk__scout_fault(struct lk__peer *peer, int code, const char *reason);

/* Notes an error reply as the reason. Of several refusals of AUTH the first one stays. */
void lk__scout_refused(struct lk__peer *peer, const char *words);

/* Picks the worst of the peers' faults: a refusal that stays, like a wrong password; or what this
 * process lacks; else `code`. */
int lk__scout_worst(const struct lk__scout *scout, int code);

/* Fails with the peers' faults behind the text. */
int lk__scout_fail(const struct lk__scout *scout, lk_error *error, int code, const char *text);

#endif
