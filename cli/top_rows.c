/* SPDX-License-Identifier: MIT */
#include "top_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define READ_LIMIT_NS (1000 * NS_PER_MS)

static char *bytes_copy(const void *bytes, size_t size)
{
	char *copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, bytes, size);
		copy[size] = '\0';
	}
	return copy;
}

static void row_free(struct top_row *row)
{
	free(row->name);
	free(row->owner);
}

static int name_compare(const struct top_row *a, const struct top_row *b)
{
	size_t size = a->name_size < b->name_size ? a->name_size : b->name_size;
	int order = memcmp(a->name, b->name, size);
	return order ? order : (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

static int by_name(const void *a, const void *b)
{
	return name_compare(a, b);
}

/* -1 is a lock that has no end. */
static int by_ttl(const void *left, const void *right)
{
	const struct top_row *a = left, *b = right;
	uint64_t x = (uint64_t)a->ttl_ms, y = (uint64_t)b->ttl_ms;
	return x != y ? (x > y) - (x < y) : name_compare(a, b);
}

static int by_waiters(const void *left, const void *right)
{
	const struct top_row *a = left, *b = right;
	if (a->waiters != b->waiters)
		return (a->waiters < b->waiters) - (a->waiters > b->waiters);
	return name_compare(a, b);
}

static int by_changes(const void *left, const void *right)
{
	const struct top_row *a = left, *b = right;
	if (a->changes != b->changes)
		return (a->changes < b->changes) - (a->changes > b->changes);
	return name_compare(a, b);
}

void top_rows_sort(struct top_rows *rows, enum top_order order)
{
	static int (*const compare[])(const void *, const void *) = {
		[TOP_BY_NAME] = by_name,
		[TOP_BY_TTL] = by_ttl,
		[TOP_BY_WAITERS] = by_waiters,
		[TOP_BY_CHANGES] = by_changes,
	};
	if (rows->count > 0)
		qsort(rows->rows, rows->count, sizeof(*rows->rows), compare[order]);
}

/* Who waits in a queue that the server has: "1 pg_dump, pid 12 on db1; 2 …". */
static void next_fill(struct top_row *row, lk_scan *scan, const lk_lock_info *info)
{
	char who[OWNER_TEXT_SIZE];
	size_t used = 0;
	for (size_t i = 0; i < info->waiter_count && i < TOP_NEXT_MOST; i++) {
		const lk_waiter *waiter = &info->waiters[i];
		owner_text(scan, waiter->field, waiter->field_size, who, sizeof(who));
		if (used < sizeof(row->next))
			used += (size_t)snprintf(row->next + used, sizeof(row->next) - used,
						 "%s%zu %s", i ? "; " : "", i + 1, who);
	}
}

/* Fills a row; -1 when out of memory. */
static int row_fill(struct top_row *row, lk_scan *scan, const lk_lock_info *info)
{
	const lk_holder *holder = info->holder_count ? &info->holders[0] : NULL;
	*row = (struct top_row){
		.name = bytes_copy(info->name, info->name_size),
		.name_size = info->name_size,
		.type = info->type,
		.owner = holder ? bytes_copy(holder->field, holder->field_size) : bytes_copy("", 0),
		.holders = info->holder_count,
		.count = info->is_counter ? info->count : -1,
		.ttl_ms = holder ? holder->ttl_ms : info->ttl_ms,
		.waiters = info->waiter_count ? (int64_t)info->waiter_count : info->waiting_clients,
	};
	if (holder)
		holder_text(scan, info, holder, row->who, sizeof(row->who));
	next_fill(row, scan, info);
	return row->name && row->owner ? 0 : -1;
}

/* What is known of the same lock from the last look; both are sorted by name. */
static void rows_remember(struct top_rows *now, const struct top_rows *before)
{
	double seconds = (double)(now->read_ns - before->read_ns) / 1e9;
	for (size_t i = 0; i < now->count; i++) {
		struct top_row *row = &now->rows[i];
		const struct top_row *old = before->count
						    ? bsearch(row, before->rows, before->count,
							      sizeof(*row), by_name)
						    : NULL;
		if (!old)
			continue;
		int changed = *row->owner && strcmp(row->owner, old->owner) != 0;
		row->changes = old->changes + (changed ? 1 : 0);
		row->rate = changed && seconds > 0 ? 1 / seconds : 0;
	}
}

static int rows_scan(struct top_rows *rows, lk_scan *scan, lk_error *error)
{
	lk_lock_info info;
	int result = 0;
	while ((result = lk_scan_next(scan, &info, error)) == 1) {
		if (rows->count == TOP_ROWS_MAX || clock_now_ns() - rows->read_ns > READ_LIMIT_NS) {
			rows->partial = 1;
			return 0;
		}
		struct top_row *row = &rows->rows[rows->count++];
		if (row_fill(row, scan, &info) < 0) {
			*error = (lk_error){.code = LK_ENOMEM};
			return LK_ENOMEM;
		}
	}
	return result;
}

/* SCAN may show a key twice. */
static void rows_unite(struct top_rows *rows)
{
	size_t kept = 0;
	for (size_t i = 0; i < rows->count; i++) {
		if (kept > 0 && name_compare(&rows->rows[kept - 1], &rows->rows[i]) == 0)
			row_free(&rows->rows[i]);
		else
			rows->rows[kept++] = rows->rows[i];
	}
	rows->count = kept;
}

int top_rows_read(struct top_rows *rows, lk_client *client, const char *pattern, lk_error *error)
{
	struct top_rows now = {.rows = calloc(TOP_ROWS_MAX, sizeof(*now.rows)),
			       .read_ns = clock_now_ns()};
	lk_scan *scan = NULL;
	int result = now.rows ? lk_scan_new(&scan, client, pattern, error) : LK_ENOMEM;
	if (result == 0)
		result = rows_scan(&now, scan, error);
	lk_scan_free(scan);
	if (result < 0) {
		top_rows_free(&now);
		return result;
	}
	top_rows_sort(&now, TOP_BY_NAME);
	rows_unite(&now);
	top_rows_sort(rows, TOP_BY_NAME);
	rows_remember(&now, rows);
	top_rows_free(rows);
	*rows = now;
	return 0;
}

void top_rows_free(struct top_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		row_free(&rows->rows[i]);
	free(rows->rows);
	*rows = (struct top_rows){.rows = NULL};
}
