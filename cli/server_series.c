/* SPDX-License-Identifier: MIT */
#include "server_series.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "exposition.h"

/* docs/metrics.md is made from these rows, too. */
enum server_series {
	SERIES_UP,
	SERIES_LOOK,
	SERIES_PARTIAL,
	SERIES_LOCKS,
	SERIES_FOREIGN,
	SERIES_WAITING,
	SERIES_CONTENDED,
	SERIES_WITHOUT_LEASE,
	SERIES_PERMITS_USED,
	SERIES_PERMITS_FREE,
	SERIES_FINDINGS,
	SERIES_OLDEST,
	SERIES_LOCK_LEASE,
	SERIES_LOCK_WAITING,
	SERIES_LOCK_SEEN,
};

static const struct {
	const char *family, *label, *help;
} table[] = {
	[SERIES_UP] = {"up", "",
		       "1: the server answered; 0: it did not, and nothing else is told."},
	[SERIES_LOOK] = {"look_seconds", "", "How long the look at its locks took."},
	[SERIES_PARTIAL] = {"partial", "", "1: there are more locks than were looked at."},
	[SERIES_LOCKS] = {"locks", "kind",
			  "Locks and counters that are there; a lock is there while it is held."},
	[SERIES_FOREIGN] = {"foreign_locks", "", "Of these, what looks like other libraries'."},
	[SERIES_WAITING] = {"waiting", "", "Clients that wait for any of them."},
	[SERIES_CONTENDED] = {"contended_locks", "", "Locks that somebody waits for."},
	[SERIES_WITHOUT_LEASE] = {"locks_without_lease", "",
				  "Locks held without an end: a holder that dies keeps them."},
	[SERIES_PERMITS_USED] = {"permits_used", "", "Permits of semaphores that are in use."},
	[SERIES_PERMITS_FREE] = {"permits_free", "", "Permits that are free."},
	[SERIES_FINDINGS] = {"findings", "level",
			     "What the doctor finds wrong with the server (lockkeeper doctor)."},
	[SERIES_OLDEST] = {"oldest_hold_seen_timestamp_seconds", "",
			   "When the hold was first seen that is held for longest; 0: none is."},
	[SERIES_LOCK_LEASE] = {"lock_lease_seconds", "lock",
			       "The rest of a lock's lease; -1: it has no end."},
	[SERIES_LOCK_WAITING] = {"lock_waiting", "lock", "Clients that wait for it."},
	[SERIES_LOCK_SEEN] = {"lock_hold_seen_timestamp_seconds", "lock",
			      "When its hold was first seen."},
};

static const char *const kinds[] = {
	"lock",
	"fair lock",
	"fenced lock",
	"read/write lock",
	"plain lock",
	"permit semaphore",
	"semaphore",
	"latch",
	"semaphore or latch",
	"foreign lock",
	"foreign semaphore",
	"counter beside a lock",
};

static const char *const levels[SEVERITIES] = {
	[LK_SEVERITY_NOTE] = "note",
	[LK_SEVERITY_WARNING] = "warning",
	[LK_SEVERITY_ERROR] = "error",
};

static void family_begin(FILE *stream, enum server_series series)
{
	char family[128];
	snprintf(family, sizeof(family), "lockkeeper_server_%s", table[series].family);
	exposition_family(stream, family, "gauge", table[series].help);
}

static void sample_begin(FILE *stream, enum server_series series, const void *label, size_t size)
{
	fprintf(stream, "lockkeeper_server_%s", table[series].family);
	if (*table[series].label) {
		fprintf(stream, "{%s=\"", table[series].label);
		exposition_label(stream, label, size);
		fputs("\"}", stream);
	}
	putc(' ', stream);
}

static void number_print(FILE *stream, enum server_series series, int64_t number)
{
	family_begin(stream, series);
	sample_begin(stream, series, "", 0);
	fprintf(stream, "%" PRId64 "\n", number);
}

static void thousandths_print(FILE *stream, enum server_series series, int64_t thousandths)
{
	family_begin(stream, series);
	sample_begin(stream, series, "", 0);
	exposition_thousandths(stream, thousandths);
}

/* Two clocks: that of the looks has no date. */
static int64_t wall_ms(int64_t at_ns)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + (now.tv_nsec - (clock_now_ns() - at_ns)) / NS_PER_MS;
}

static void kinds_print(FILE *stream, const struct lock_rows *rows)
{
	family_begin(stream, SERIES_LOCKS);
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++) {
		size_t count = 0;
		for (size_t i = 0; i < rows->count; i++)
			count += strcmp(rows->rows[i].type, kinds[kind]) == 0;
		sample_begin(stream, SERIES_LOCKS, kinds[kind], strlen(kinds[kind]));
		fprintf(stream, "%zu\n", count);
	}
}

static void findings_print(FILE *stream, const struct server_sums *sums)
{
	family_begin(stream, SERIES_FINDINGS);
	for (int level = 0; level < SEVERITIES; level++) {
		sample_begin(stream, SERIES_FINDINGS, levels[level], strlen(levels[level]));
		fprintf(stream, "%" PRId64 "\n", sums->findings[level]);
	}
}

/* ---- single locks ---- */

static void row_print(FILE *stream, enum server_series series, const struct lock_row *row)
{
	sample_begin(stream, series, row->name, row->name_size);
	if (series == SERIES_LOCK_WAITING)
		fprintf(stream, "%" PRId64 "\n", row->waiters);
	else if (series == SERIES_LOCK_SEEN)
		exposition_thousandths(stream, wall_ms(row->since_ns));
	else if (row->ttl_ms < 0)
		fputs("-1\n", stream);
	else
		exposition_thousandths(stream, row->ttl_ms);
}

/* The text of a name's label; NULL when out of memory. To be freed. */
static char *label_text(const struct lock_row *row)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return NULL;
	exposition_label(stream, row->name, row->name_size);
	return fclose(stream) == 0 ? text : NULL;
}

struct label {
	char *text;
	const struct lock_row *row;
};

static int label_compare(const void *left, const void *right)
{
	return strcmp(((const struct label *)left)->text, ((const struct label *)right)->text);
}

/* Labels of the first locks, sorted; of names that look the same as labels only one: a series that
 * stands twice makes the whole text invalid. NULL when out of memory. */
static struct label *labels_make(const struct lock_rows *rows, size_t *count_out)
{
	struct label *labels = calloc(NAMES_MOST, sizeof(*labels));
	size_t count = 0, kept = 0;
	for (size_t i = 0; labels && i < rows->count && count < NAMES_MOST; i++) {
		char *text = label_text(&rows->rows[i]);
		if (text)
			labels[count++] = (struct label){text, &rows->rows[i]};
	}
	if (count > 0)
		qsort(labels, count, sizeof(*labels), label_compare);
	for (size_t i = 0; i < count; i++) {
		if (kept > 0 && strcmp(labels[kept - 1].text, labels[i].text) == 0)
			free(labels[i].text);
		else
			labels[kept++] = labels[i];
	}
	*count_out = kept;
	return labels;
}

static void names_print(FILE *stream, const struct lock_rows *rows, int watches)
{
	size_t count = 0;
	struct label *labels = labels_make(rows, &count);
	enum server_series last = watches ? SERIES_LOCK_SEEN : SERIES_LOCK_WAITING;
	for (enum server_series series = SERIES_LOCK_LEASE; series <= last; series++) {
		family_begin(stream, series);
		for (size_t i = 0; i < count; i++)
			row_print(stream, series, labels[i].row);
	}
	for (size_t i = 0; i < count; i++)
		free(labels[i].text);
	free(labels);
}

static void look_print(FILE *stream, struct server_look *look, const struct series_wish *wish)
{
	struct server_sums sums;
	server_sum(look, &sums);
	lock_rows_sort(&look->rows, BY_NAME);
	thousandths_print(stream, SERIES_LOOK, look->took_ms);
	number_print(stream, SERIES_PARTIAL, look->rows.partial);
	kinds_print(stream, &look->rows);
	number_print(stream, SERIES_FOREIGN, sums.foreign);
	number_print(stream, SERIES_WAITING, sums.waiting);
	number_print(stream, SERIES_CONTENDED, sums.contended);
	number_print(stream, SERIES_WITHOUT_LEASE, sums.without_lease);
	number_print(stream, SERIES_PERMITS_USED, sums.permits_used);
	number_print(stream, SERIES_PERMITS_FREE, sums.permits_free);
	findings_print(stream, &sums);
	if (wish->watches)
		thousandths_print(stream, SERIES_OLDEST,
				  sums.oldest_ns ? wall_ms(sums.oldest_ns) : 0);
	if (wish->names)
		names_print(stream, &look->rows, wish->watches);
}

void server_series_print(FILE *stream, struct server_look *look, const struct series_wish *wish)
{
	number_print(stream, SERIES_UP, look->error.code == 0);
	if (look->error.code == 0)
		look_print(stream, look, wish);
	exposition_end(stream);
}
