/* SPDX-License-Identifier: MIT */
#include "lock_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define ROWS_FIRST 64
#define RATE_SHARE 0.2 /* of a look in the rate of changes */

static char *bytes_copy(const void *bytes, size_t size)
{
	char *copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, bytes, size);
		copy[size] = '\0';
	}
	return copy;
}

static void row_free(struct lock_row *row)
{
	free(row->name);
	free(row->owner);
	free(row->who);
	free(row->next);
	free(row->note);
}

static int name_compare(const struct lock_row *a, const struct lock_row *b)
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
	const struct lock_row *a = left, *b = right;
	uint64_t x = (uint64_t)a->ttl_ms, y = (uint64_t)b->ttl_ms;
	return x != y ? (x > y) - (x < y) : name_compare(a, b);
}

static int by_waiters(const void *left, const void *right)
{
	const struct lock_row *a = left, *b = right;
	if (a->waiters != b->waiters)
		return (a->waiters < b->waiters) - (a->waiters > b->waiters);
	return name_compare(a, b);
}

static int by_changes(const void *left, const void *right)
{
	const struct lock_row *a = left, *b = right;
	if (a->changes != b->changes)
		return (a->changes < b->changes) - (a->changes > b->changes);
	return name_compare(a, b);
}

/* Orders rows: what has been held for longest comes first; counters, which nobody holds, last. */
static int by_since(const void *left, const void *right)
{
	const struct lock_row *a = left, *b = right;
	if (!a->holders != !b->holders)
		return !a->holders - !b->holders;
	if (a->since_ns != b->since_ns)
		return (a->since_ns > b->since_ns) - (a->since_ns < b->since_ns);
	return name_compare(a, b);
}

void lock_rows_sort(struct lock_rows *rows, enum row_order order)
{
	static int (*const compare[])(const void *, const void *) = {
		[BY_NAME] = by_name,       [BY_TTL] = by_ttl,     [BY_WAITERS] = by_waiters,
		[BY_CHANGES] = by_changes, [BY_SINCE] = by_since,
	};
	if (rows->count > 0)
		qsort(rows->rows, rows->count, sizeof(*rows->rows), compare[order]);
}

/* Who waits in a queue that the server has: "1 pg_dump, pid 12 on db1; 2 …". To be freed. */
static char *next_text(lk_scan *scan, const lk_lock_info *info)
{
	char who[OWNER_TEXT_SIZE], text[NEXT_SIZE] = "";
	size_t used = 0;
	for (size_t i = 0; i < info->waiter_count && i < NEXT_MOST; i++) {
		const lk_waiter *waiter = &info->waiters[i];
		owner_text(scan, waiter->field, waiter->field_size, who, sizeof(who));
		if (used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%zu %s",
						 i ? "; " : "", i + 1, who);
	}
	return strdup(text);
}

/* To be freed. */
static char *who_text(lk_scan *scan, const lk_lock_info *info, const lk_holder *holder)
{
	char who[OWNER_TEXT_SIZE] = "";
	if (holder)
		holder_text(scan, info, holder, who, sizeof(who));
	return strdup(who);
}

/* To be freed. */
static char *note_text(lk_scan *scan, const lk_holder *holder)
{
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	if (!holder || lk_scan_owner(scan, holder->field, holder->field_size, &owner, NULL) != 1)
		return strdup("");
	return strdup(owner.note);
}

/* Fills a row; -1 when out of memory. */
static int row_fill(struct lock_row *row, lk_scan *scan, const lk_lock_info *info, int owners,
		    int64_t now_ns)
{
	const lk_holder *holder = info->holder_count ? &info->holders[0] : NULL;
	int64_t ttl_ms = holder ? holder->ttl_ms : info->ttl_ms;
	int64_t waiters = info->waiter_count ? (int64_t)info->waiter_count : info->waiting_clients;
	*row = (struct lock_row){
		.name = bytes_copy(info->name, info->name_size),
		.name_size = info->name_size,
		.type = info->type,
		.owner = holder ? bytes_copy(holder->field, holder->field_size) : bytes_copy("", 0),
		.who = owners ? who_text(scan, info, holder) : strdup(""),
		.note = owners ? note_text(scan, holder) : strdup(""),
		.next = owners ? next_text(scan, info) : strdup(""),
		.is_foreign = info->looks_like || strncmp(info->type, "foreign", 7) == 0,
		.holders = info->holder_count,
		.count = info->is_counter ? info->count : -1,
		.ttl_ms = ttl_ms,
		.ttl_least_ms = ttl_ms,
		.waiters = waiters,
		.since_ns = now_ns,
		.waiting_ns = waiters > 0 ? now_ns : 0,
	};
	return row->name && row->owner && row->who && row->note && row->next ? 0 : -1;
}

/* Takes over what the look before knew of the same lock. */
static void row_remember(struct lock_row *row, const struct lock_row *old, double seconds)
{
	int changed = *row->owner && strcmp(row->owner, old->owner) != 0;
	double rate = changed && seconds > 0 ? 1 / seconds : 0;
	row->changes = old->changes + (changed ? 1 : 0);
	row->rate = old->rate + RATE_SHARE * (rate - old->rate);
	if (row->waiters > 0 && old->waiters > 0)
		row->waiting_ns = old->waiting_ns;
	if (strcmp(row->owner, old->owner) != 0)
		return;
	row->since_ns = old->since_ns;
	/* -1 is a lock that has no end. */
	if ((uint64_t)old->ttl_least_ms < (uint64_t)row->ttl_ms)
		row->ttl_least_ms = old->ttl_least_ms;
}

/* Both are sorted by name. */
static void rows_remember(struct lock_rows *now, const struct lock_rows *before)
{
	double seconds = (double)(now->read_ns - before->read_ns) / 1e9;
	for (size_t i = 0; i < now->count && before->count; i++) {
		const struct lock_row *old = bsearch(&now->rows[i], before->rows, before->count,
						     sizeof(*old), by_name);
		if (old)
			row_remember(&now->rows[i], old, seconds);
	}
}

/* The next free row; NULL when out of memory. */
static struct lock_row *row_new(struct lock_rows *rows)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? 2 * rows->room : ROWS_FIRST;
		struct lock_row *grown = realloc(rows->rows, room * sizeof(*grown));
		if (!grown)
			return NULL;
		rows->rows = grown;
		rows->room = room;
	}
	return &rows->rows[rows->count++];
}

static int rows_scan(struct lock_rows *rows, lk_scan *scan, const struct look *look,
		     lk_error *error)
{
	lk_lock_info info = LK_LOCK_INFO_INIT;
	int result = 0;
	int64_t end_ns = rows->read_ns + look->limit_ms * NS_PER_MS;
	while ((result = lk_scan_next(scan, &info, error)) == 1) {
		if (rows->count == look->rows_most || clock_now_ns() > end_ns) {
			rows->partial = 1;
			return 0;
		}
		int owners = rows->count < look->owners_most;
		struct lock_row *row = row_new(rows);
		if (!row || row_fill(row, scan, &info, owners, rows->read_ns) < 0) {
			*error = (lk_error){.code = LK_ENOMEM};
			return LK_ENOMEM;
		}
	}
	return result;
}

/* SCAN may show a key twice. */
static void rows_unite(struct lock_rows *rows)
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

int lock_rows_read(struct lock_rows *rows, lk_client *client, const struct look *look,
		   lk_error *error)
{
	struct lock_rows now = {.read_ns = clock_now_ns()};
	lk_scan *scan = NULL;
	int result = lk_scan_new(&scan, client, look->pattern, error);
	if (result == 0)
		result = rows_scan(&now, scan, look, error);
	lk_scan_free(scan);
	if (result < 0) {
		lock_rows_free(&now);
		return result;
	}
	lock_rows_sort(&now, BY_NAME);
	rows_unite(&now);
	lock_rows_sort(rows, BY_NAME);
	rows_remember(&now, rows);
	lock_rows_free(rows);
	*rows = now;
	return 0;
}

void lock_rows_free(struct lock_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		row_free(&rows->rows[i]);
	free(rows->rows);
	*rows = (struct lock_rows){.rows = NULL};
}
