/* SPDX-License-Identifier: MIT */
/* The kinds of lock that `run` takes: each is one option, and one row of the table in kind.c. */
#ifndef CLI_KIND_H
#define CLI_KIND_H

#include <stddef.h>
#include <string.h>

#include <lockkeeper.h>

#include "options.h"

struct lock_kind {
	int option;       /* 0: the kind without an option, the reentrant lock */
	const char *name; /* of the option */
	int (*make)(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
		    lk_error *error);
};

extern const struct lock_kind kind_default;

/* A barrier: no kind that an option chooses, but one that stands in the way of a lock. */
extern const struct lock_kind kind_barrier;

struct command;
/* The two sides of a read/write lock prefer writers: readers stand back while one waits. Those of
 * this kind do not; of another kind it is the kind itself. */
const struct lock_kind *kind_without_preference(const struct lock_kind *kind);

static inline int kind_is_side(const struct lock_kind *kind)
{
	return kind->option == OPTION_SHARED || kind->option == OPTION_EXCLUSIVE;
}

/*
 * Takes the kind of an option: 1, 0 when the option names none, or -EXIT_TROUBLE when another
 * kind was named before (said).
 */
int kind_take(const struct lock_kind **kind, int option);

/* --poll: the slowest pace at which plain locks that are made from now on are looked at; 0: the
 * library's. And whether it was given for another kind, or for several servers. */
int64_t *kind_poll_ms(void);
int kind_polls_in_vain(const struct lock_kind *kind, int several);

/* Whose waiters the releases of the process's plain locks wake, as lk_plain_lock_options has it. */
void kind_notify(const char *notify);

/* Tells whether --notify was given; and whether for a kind that has no such thing. */
int kind_notifies(void);
int kind_notifies_in_vain(const struct lock_kind *kind);

static inline int is_barrier(const lk_lock_info *info)
{
	return strcmp(info->type, "barrier") == 0;
}

/* The kind of lock that was found under a name; NULL when nobody can be said to hold it. */
const struct lock_kind *kind_of(const lk_lock_info *info);

/* Says what the server has under that name, and how to take or remove it. 1 if it is something else
 * than `wanted` (NULL: a counter), which is said; else 0. */
int other_kind_say(lk_client *client, const char *name, const struct lock_kind *wanted);

/* As trouble_library(), for a call about that name. */
int trouble_name(lk_client *client, const char *name, const struct lock_kind *wanted,
		 const lk_error *error);

#endif
