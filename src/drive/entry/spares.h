/* SPDX-License-Identifier: MIT */
/* Memory for compensations (src/drive/background/compensation.h), which an entry keeps ready. */
#ifndef LK__DRIVE_ENTRY_SPARES_H
#define LK__DRIVE_ENTRY_SPARES_H

#include "drive/client/client.h"

struct lk__compensation {
	struct lk__compensation *prev, *next;
	struct lk__compensation *next_due; /* or the next of the entry's spares */
	struct lk__entry *entry;
	const struct lk__node *node; /* that the acquire was sent to */
	uint64_t number;
	bool given; /* the master has released it: what is missing is that replicas have that */
	bool kept;  /* nobody wants it, and others are not to have it before its first attempt */
	/* A copy of the acquire may run until then, as the clocks were then. Comes closer under the
	 * client's mutex. */
	_Atomic int64_t until_ns;
	int64_t offset_ns; /* the server's time less ours, when that was computed, or more */
	int64_t end_ns;    /* by then its lease has ended it; LK__NEVER where there is none */
	int64_t at_ns;     /* the next attempt; LK__NEVER while one is under way */
	int64_t pause_ns;  /* before it, if this one is refused */
	bool unheard;      /* replicas have not acknowledged the grant, */
	bool told;         /* and the master has released it: close need not wait for more */
};

/* Keeps memory for what the next try, release or extension of an entry may leave behind: before it
 * is sent. False when there is none. Entry's mutex held. The opposite: the entry goes, or none of
 * these is out. */
bool lk__compensation_reserve(struct lk__entry *entry);
void lk__compensation_unreserve(struct lk__entry *entry);

/* One of these, or new; NULL when out of memory. Entry's mutex held. */
struct lk__compensation *lk__compensation_spare(struct lk__entry *entry);

#endif
