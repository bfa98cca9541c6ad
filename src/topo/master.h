/* SPDX-License-Identifier: MIT */
/*
 * One node that has every key: a server, or a master that moves. Then this is the finder of the
 * node, as a scout makes the master known.
 *
 * - When another server is believed, it raises the finder's generation and then disowns the node's
 *   older connections: their holds are in doubt, and are verified at the new master.
 * - The replicas that are alive are counted in each round: so many must have what the master has
 *   done (conn/acks.c). Few who are cut off from the others see replicas as down of which the
 *   others may be making a master: all count then that they show.
 */
#ifndef LK__TOPO_MASTER_H
#define LK__TOPO_MASTER_H

#include "conn/node.h"
#include "topo/scout.h"

/* The kind of deployment makes this of the answers so far. */
enum lk__verdict {
	LK__VERDICT_OPEN,      /* not yet known */
	LK__VERDICT_MASTER,    /* `place` is it */
	LK__VERDICT_FEW,       /* so say some, who may be cut off from the others: see below */
	LK__VERDICT_UNKNOWN,   /* nobody can tell: connections stay as they are */
	LK__VERDICT_NO_MASTER, /* the server that was believed is not the master any more */
};

struct lk__master_ops {
	struct lk__scout_ops scout; /* judge and told are those below */
	/* Notes the replicas of the server at `place`, under their mutex, and returns how many are
	 * alive. NULL: those that were told of. */
	int (*replicas)(const struct lk__scout *scout, const char *place,
			struct lk__listed *listed);
	/* What is known; `believed`: the server that is at present, or ""; `over`: nobody else will
	 * answer. The first three have no error. */
	enum lk__verdict (*judge)(const struct lk__scout *scout, const char *believed, bool over,
				  char *place_out, lk_error *error);
};

/* Both kinds of master: with listed replicas, and watched by sentinels. */
extern const struct lk__master_ops lk__replicas_ops, lk__sentinel_ops;

/* ---- for the kinds, on the scout's thread ---- */

bool lk__master_judge(struct lk__scout *scout, bool over, lk_error *error);
void lk__master_told(struct lk__scout *scout);

/* A replica of the master that a peer names, as the peer says. */
struct lk__master_replica {
	const char *place;
	bool alive, follows;
	bool promoted;   /* it is being made the master */
	bool was_master; /* it has called itself a master ever since it was made a replica */
	bool joins;      /* it gets its first copy of the data */
};

void lk__master_hear(const struct lk__scout *scout, const struct lk__peer *peer,
		     const struct lk__master_replica *replica);

#endif
