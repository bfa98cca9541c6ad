/* SPDX-License-Identifier: MIT */
/*
 * The locks on a server at one moment, and what was seen of each in the looks before: for `top`,
 * and for the metrics and the page of `metrics`.
 *
 * Contract: a look reads at most so many locks, and takes at most so long, as it is told; what is
 * left out is told. What came and went between two looks was not seen: the rate of changes, and how
 * long somebody has held or waited, are lower bounds.
 */
#ifndef CLI_LOCK_ROWS_H
#define CLI_LOCK_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper.h>

#include "owner.h"

#define NEXT_MOST 3    /* waiters that are named */
#define NEXT_SIZE 1024 /* of their names */

enum row_order { BY_NAME, BY_TTL, BY_WAITERS, BY_CHANGES, BY_SINCE, ROW_ORDERS };

/* The results of a look. */
struct look {
	const char *pattern; /* of names; NULL: all */
	size_t rows_most;
	size_t owners_most; /* of so many rows the owners are looked up */
	int64_t limit_ms;
};

struct lock_row {
	char *name; /* with a NUL after its bytes */
	size_t name_size;
	const char *type;
	char *owner; /* field of the first holder; "" */
	char *who;   /* that is; "" where it was not looked up */
	char *note;  /* why the first holder has it; "" */
	char *next;  /* the first waiters of a queue, in order; "" */
	int is_foreign;
	size_t holders;
	int64_t count; /* of a counter; -1 */
	int64_t ttl_ms;
	int64_t ttl_least_ms; /* that was seen since this owner has it */
	int64_t waiters;
	int64_t since_ns;   /* when this owner was first seen */
	int64_t waiting_ns; /* since when somebody was always seen to wait; 0: nobody does */
	uint64_t changes;   /* of the owner, seen so far */
	double rate;        /* of these, a second: the latest count most */
};

struct lock_rows {
	struct lock_row *rows;
	size_t count, room;
	int partial; /* there are more */
	int64_t read_ns;
};

/* Reads the locks anew, keeping what is known of each; 0, or a code with `error`. */
int lock_rows_read(struct lock_rows *rows, lk_client *client, const struct look *look,
		   lk_error *error);
void lock_rows_sort(struct lock_rows *rows, enum row_order order);
void lock_rows_free(struct lock_rows *rows);

#endif
