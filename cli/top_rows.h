/* SPDX-License-Identifier: MIT */
/*
 * What `top` shows: the locks at this moment, and how often each was seen to change its owner.
 *
 * Contract: a refresh reads at most TOP_ROWS_MAX locks and takes at most about a second; what is
 * left out is told. An owner that came and went between two looks was not seen, so the rate of
 * changes is a lower bound.
 */
#ifndef CLI_TOP_ROWS_H
#define CLI_TOP_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper.h>

#include "owner.h"

#define TOP_ROWS_MAX 2000
#define TOP_NEXT_MOST 3    /* waiters that are named */
#define TOP_NEXT_SIZE 1024 /* of their names */

enum top_order { TOP_BY_NAME, TOP_BY_TTL, TOP_BY_WAITERS, TOP_BY_CHANGES, TOP_ORDERS };

struct top_row {
	char *name; /* with a NUL after its bytes */
	size_t name_size;
	const char *type;
	char *owner;               /* field of the first holder; "" */
	char who[OWNER_TEXT_SIZE]; /* that is */
	char next[TOP_NEXT_SIZE];  /* the first waiters of a queue, in order; "" */
	size_t holders;
	int64_t count; /* of a counter; -1 */
	int64_t ttl_ms;
	int64_t waiters;
	uint64_t changes; /* of the owner, seen so far */
	double rate;      /* of these, a second, since the last look */
};

struct top_rows {
	struct top_row *rows;
	size_t count;
	int partial; /* there are more */
	int64_t read_ns;
};

/* Reads the locks anew, keeping what is known of each; 0, or a code with `error`. */
int top_rows_read(struct top_rows *rows, lk_client *client, const char *pattern, lk_error *error);
void top_rows_sort(struct top_rows *rows, enum top_order order);
void top_rows_free(struct top_rows *rows);

#endif
