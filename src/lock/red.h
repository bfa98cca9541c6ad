/* SPDX-License-Identifier: MIT */
/*
 * The red lock: one lock on a majority of several independent nodes.
 *
 * Its entry, in the first client, has queue, hold, watch and notices as every lock's; what goes to
 * the wire goes to all nodes at once (fan_out.h), each by the member: the entry of the same name
 * and of the underlying kind in that node's client. On each node the grant has a number of that
 * client, so that the members' own release and compensation serve.
 *
 * Where a node is a cluster, each request goes to the master that has the name's slot then. An
 * answer is a vote only if it comes from the master that was identified before.
 *
 * A front's mutex may be held while a member's is taken, never the other way round.
 *
 *   red.c        what it is made of; what the other two have in common
 *   red_try.c    one try
 *   red_hold.c   what keeps a grant: nodes that join it, renewals, extensions; its release
 */
#ifndef LK__LOCK_RED_H
#define LK__LOCK_RED_H

#include "lock/acquire.h"
#include "lock/extend.h"
#include "lock/fan_out.h"
#include "lock/release.h"
#include "sync/red/red.h"

#define LK__RED_MAX 32
#define LK__RED_ASKED_MAX 4 /* questions that a node may leave open before it is left alone */

enum lk__red_part {
	LK__RED_NOT_HELD,
	LK__RED_HELD,
	LK__RED_UNSURE, /* asked, and no answer that we know of */
};

/* The last number that was given back: what its requests have been answered since. */
struct lk__given_back {
	uint64_t number;
	bool unsure; /* one was sent twice, or its answer does not tell */
	bool over;   /* all are answered, and none is unsure: no copy can run any more */
};

struct lk__red_node {
	lk_client *client;        /* a reference, but for the first */
	struct lk__entry *member; /* a reference */
	struct lk__front front;   /* in the member's list */
	/* Below: under the front's mutex. */
	bool known; /* `identity`, as of `epoch`, */
	bool met;   /* or as of an earlier one */
	uint64_t epoch;
	struct lk__node *place; /* whose it is */
	struct lk__identity identity;
	unsigned asked; /* tries on their way that nobody waits for any more */
	unsigned joins; /* how often it was asked to join a grant */
	struct lk__given_back given_back;
	uint64_t kept; /* a part of a lost grant, which stays until its deadline; 0 */
	/* Of the current grant. */
	uint64_t number;
	enum lk__red_part part;
	bool copies; /* it was asked twice: whatever it answered, a copy may still run */
	bool joined; /* it was asked again after the grant: older answers tell nothing */
	struct lk__request *join; /* such a question under way; NULL */
	int64_t again_ns;         /* another has it there: when to ask once more; 0: not */
	int64_t pause_ns;         /* before that */
	enum lk__red_part before_join;
};

struct lk__red_round;

struct lk__red {
	size_t count, majority;
	unsigned questions;          /* by which a node is identified */
	int64_t quarantine_ms;       /* -1: none; 0: the lease */
	int64_t node_limit_ms;       /* 0: from the lease */
	uint64_t number;             /* of the current grant; 0: none */
	uint64_t kept;               /* of the last that was lost, and keeps parts; 0 */
	int64_t until_ns;            /* no copy of its tries can run after that */
	struct lk__red_round *round; /* the renewal that the watchdog waits for; NULL */
	bool again;                  /* it was undecided because of a join: ask behind that */
	struct lk__red_node node[LK__RED_MAX];
};

/* Makes the entry a red lock over the clients, or finds that it is that already. `kind`: what is
 * in each node. LK_EINVAL when it is one over others. */
int lk__red_make(struct lk__entry *entry, lk_client *const *clients, size_t count,
		 const struct lk__recipe *kind, int64_t quarantine_ms, int64_t node_limit_ms,
		 lk_error *error);

static inline struct lk__red *lk__red_of(const struct lk__entry *entry)
{
	return entry->data;
}

/* Asks every node whether it is locked, or frees it there by force: how many answered, and how many
 * had it. Returns how many may have it all the same, or LK_ENOMEM. */
int lk__red_ask(struct lk__entry *entry, struct lk__thread *thread, bool force,
		size_t *answered_out, size_t *yes_out, lk_error *error);

/* What the three files do for an entry (lock/entry.h). */
extern const struct lk__quorum_parts lk__red_parts;
int lk__red_send(struct lk__head *head);
extern const struct lk__quorum_holds lk__red_holds;

/* ---- calls to all nodes ---- */

/* Its caller waits for the fan-out, without the entry's mutex and at most until then, between a
 * begin and its end. */
struct lk__nodes_call {
	struct lk__entry *entry;
	struct lk__fan_out *fan_out;
	int64_t until_ns;
};

/*
 * Makes one, which begins with a struct lk__nodes_call and has so many bytes, with references that
 * last until all answers are there: then it is freed. The caller waits for the command limit, and
 * not beyond that time. NULL when out of memory.
 */
void *lk__red_call_new(size_t size, struct lk__entry *entry, struct lk__thread *thread,
		       const struct lk__fan_out_use *use, int64_t until_ns);

/* Adds a request for a node, which may be sent twice, until that time. False where it is NULL. */
bool lk__red_add(const struct lk__nodes_call *call, size_t index, struct lk__conn *conn,
		 struct lk__request *request, int64_t deadline_ns);

/* Tells whether all that is needed of the nodes is there, or is not waited for any more. The
 * entry's mutex is held, and given up meanwhile. */
bool lk__red_answered(const struct lk__op *op, struct lk__entry *entry);

/* ---- a node's part ---- */

/* All with the front's mutex held. */

/* Releases on a node what was perhaps granted there under `number`; `unsure`: and again when no
 * copy of the try can run any more. */
void lk__red_give_back(struct lk__red_node *node, uint64_t number, bool unsure, int64_t until_ns,
		       int64_t lease_ms);
/* A number is given back; `unsure`: what was answered before does not tell, or not all. */
void lk__red_note_given_back(struct lk__red_node *node, uint64_t number, bool unsure);
/* Such a number has been answered, when `asked` no longer counts that; `once`: by one copy, which
 * tells. */
void lk__red_note_answered(struct lk__red_node *node, uint64_t number, bool once);

/* The request for the lock under a number; NULL when out of memory. */
struct lk__request *lk__red_request(const struct lk__red_node *node, uint64_t number,
				    int64_t lease_ms);

/* Asks a node for the current grant, which is certain until `end_ns`, in the background; `busy`:
 * another has it there, so after a pause that grows. */
void lk__red_join(struct lk__entry *entry, size_t index, int64_t lease_ms, int64_t end_ns,
		  bool busy);

#endif
