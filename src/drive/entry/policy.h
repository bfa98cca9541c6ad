/* SPDX-License-Identifier: MIT */
/*
 * What a lock's targets make of its calls: one node answers for it, or a majority of several does.
 * Every entry has one of the two rows of drive/life/policies.c, and drivers call through it. The
 * rows name functions of the layers above this one: they are handed down with the client.
 */
#ifndef LK__DRIVE_ENTRY_POLICY_H
#define LK__DRIVE_ENTRY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>

struct lk__batch;
struct lk__conn;
struct lk__entry;
struct lk__extending;
struct lk__head;
struct lk__releasing;

enum lk__targets { LK__ONE_NODE, LK__MAJORITY, LK__TARGETS };

/* With the entry's mutex held, unless it says otherwise. */
struct lk__policy {
	/* The entry goes. */
	void (*free)(struct lk__entry *entry);

	/* Background work. */
	/* `promised_ns`: its owner was told that it has the lock until then; 0: nobody was. */
	void (*release_unasked)(struct lk__entry *entry, uint64_t number, int64_t promised_ns);
	/* Whether a number of it may be held that nobody wants. */
	bool (*compensating)(const struct lk__entry *entry);
	/* Whether close need not wait for that: it is on less than a majority, or the client's
	 * compensation as a whole is waited for. */
	bool (*compensated)(const struct lk__entry *entry);
	/* Takes the batch; each of it ends in one lk__watch_renewed() or lk__watch_told(). Without
	 * the mutex. */
	void (*renew)(struct lk__batch *batch);
	/* Other work that is due when the watchdog looks. Without the mutex. */
	void (*turn)(struct lk__entry *entry);

	/* The head of its queue (drive/lock/head.h): where it connects; NULL: each try does. */
	struct lk__conn *(*route)(struct lk__head *head);

	/* Below: a begin, and the looks at what it waits for, which return LK__OP_WAITS until they
	 * have the same to say. */

	/* A try: 0 with an event, or why the head has to leave. */
	int (*send)(struct lk__head *head);
	int (*send_look)(struct lk__head *head);
	/* The last count of a hold is given up: 0 or a code. */
	int (*release)(struct lk__releasing *releasing);
	int (*release_look)(struct lk__releasing *releasing);
	/* 1 extended, 0 not ours any more, or a code. Without the mutex. */
	int (*extend)(struct lk__extending *extending);
	int (*extend_look)(struct lk__extending *extending);
};

#endif
