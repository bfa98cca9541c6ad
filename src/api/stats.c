/* SPDX-License-Identifier: MIT */
/* Counters as the user sees them. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/stats.h>
#include <lockkeeper/version.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/utf8.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/client.h"

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void get_histogram(lk_histogram *histogram_out, const struct lk__histogram *histogram)
{
	for (int i = 0; i < LK_HISTOGRAM_SIZE; i++) {
		histogram_out->bucket[i] = get(&histogram->bucket[i]);
		histogram_out->count += histogram_out->bucket[i];
	}
	histogram_out->sum_us = get(&histogram->sum_us);
}

static void get_nodes(lk_stats *stats, lk_client *client)
{
	struct lk__node *node;
	for (size_t i = 0; (node = client->topo->ops->node_at(client->topo, i)); i++) {
		stats->commands += get(&node->counters.commands);
		stats->resent += get(&node->counters.resent);
		stats->connects += get(&node->counters.connects);
		stats->disconnects += get(&node->counters.disconnects);
		stats->messages += get(&node->counters.messages);
		stats->unheard += get(&node->counters.unheard);
		stats->failovers += get(&node->counters.failovers);
	}
}

/* Reads what is counted by name: all but what its nodes count. */
static void stats_get_counters(const struct lk__counters *counters, lk_stats *stats_out)
{
	*stats_out = (lk_stats){
		.acquires = get(&counters->acquires),
		.reentries = get(&counters->reentries),
		.handovers = get(&counters->handovers),
		.wire_grants = get(&counters->wire_grants),
		.releases = get(&counters->releases),
		.busy = get(&counters->busy),
		.timeouts = get(&counters->timeouts),
		.cancels = get(&counters->cancels),
		.failures = get(&counters->failures),
		.lost = get(&counters->lost),
		.renewals = get(&counters->renewals),
		.compensations = get(&counters->compensations),
		.held = get(&counters->held),
		.waiting = get(&counters->waiting),
		.refusals = get(&counters->refusals),
		.contended = get(&counters->contended),
		.at_risk = get(&counters->at_risk),
	};
	for (int i = 0; i < LK_LOSS_CAUSES; i++)
		stats_out->lost_by[i] = get(&counters->lost_by[i]);
	get_histogram(&stats_out->wait_us, &counters->wait);
	get_histogram(&stats_out->hold_us, &counters->hold);
	get_histogram(&stats_out->renewal_us, &counters->renewal);
	get_histogram(&stats_out->margin_us, &counters->margin);
}

/* Fills all but `struct_size`. */
static void stats_get(lk_client *client, lk_stats *stats_out)
{
	stats_get_counters(&client->counters, stats_out);
	get_nodes(stats_out, client);
}

int lk_client_stats(lk_client *client, lk_stats *stats_out, lk_error *error)
{
	if (!client || !stats_out)
		return lk__fail(error, LK_EINVAL, "lk_client_stats: an argument is NULL");
	int rc = lk__check_size("lk_client_stats", stats_out, sizeof(size_t), sizeof(lk_stats),
				error);
	if (rc == 0)
		rc = lk__check_forked(client, "lk_client_stats", error);
	if (rc < 0)
		return rc;
	lk_stats stats;
	stats_get(client, &stats);
	lk__copy_sized(stats_out, stats_out->struct_size, &stats, sizeof(stats));
	return 0;
}

/* ---- text, for Prometheus and for labels ---- */

#define REPLACEMENT "\xef\xbf\xbd"

struct text {
	const lk_stats_source *sources;
	size_t count;
	bool open; /* OpenMetrics */
	char *buffer;
	size_t size, length; /* `length` may be more than `size` */
};

static void put_bytes(struct text *text, const char *bytes, size_t size)
{
	if (text->length < text->size) {
		size_t room = text->size - text->length;
		memcpy(text->buffer + text->length, bytes, size < room ? size : room);
	}
	text->length += size;
}

static void put(struct text *text, const char *word)
{
	put_bytes(text, word, strlen(word));
}

/* Puts one character, and tells how many bytes it has. What is no UTF-8, which readers of metrics
 * refuse, and a NUL are U+FFFD. */
static size_t put_character(struct text *text, const char *at, size_t size)
{
	size_t length = lk__utf8_size(at, size);
	if (length > 0 && *at)
		put_bytes(text, at, length);
	else
		put(text, REPLACEMENT);
	return length ? length : 1;
}

/* ---- names whose locks are counted apart: declared before there are locks ---- */

/* A copy of such characters, with a NUL. To be freed; NULL when out of memory. */
static char *label_new(const char *bytes, size_t size)
{
	size_t room = size * strlen(REPLACEMENT);
	struct text label = {.buffer = malloc(room + 1), .size = room};
	if (!label.buffer)
		return NULL;
	for (size_t at = 0; at < size;)
		at += put_character(&label, bytes + at, size - at);
	label.buffer[label.length] = '\0';
	return label.buffer;
}

#define REST "other"

/* The counters of a label that is there, or new ones; NULL when out of memory. */
static struct lk__counters *counters_of(const struct lk__declareds *declared, const char *label)
{
	for (size_t i = 0; i < atomic_load(&declared->count); i++)
		if (strcmp(declared->of[i].label, label) == 0)
			return declared->of[i].counters;
	return calloc(1, sizeof(struct lk__counters));
}

/* Adds a name whose label is made; what is made of it is freed when memory lacks. */
static bool declared_add(struct lk__declareds *declared, const void *name, size_t size)
{
	size_t count = atomic_load(&declared->count);
	struct lk__declared *one = &declared->of[count];
	bool is_prefix = size > 1 && ((const char *)name)[size - 1] == '*';
	*one = (struct lk__declared){.name = malloc(size),
				     .size = is_prefix ? size - 1 : size,
				     .is_prefix = is_prefix,
				     .label = label_new(name, size)};
	if (one->name && one->label)
		one->counters = counters_of(declared, one->label);
	if (!one->counters) {
		free(one->name);
		free(one->label);
		return false;
	}
	memcpy(one->name, name, size);
	atomic_store(&declared->count, count + 1); /* it is whole: others may see it */
	return true;
}

/* The client's, which are made by the first need; NULL when out of memory. */
static struct lk__declareds *declareds_get(lk_client *client)
{
	struct lk__declareds *declared = atomic_load(&client->declared);
	if (declared)
		return declared;
	declared = calloc(1, sizeof(*declared));
	if (declared && !declared_add(declared, REST, strlen(REST))) {
		free(declared);
		return NULL;
	}
	atomic_store(&client->declared, declared);
	return declared;
}

/* Names that look the same as labels have one label, and are counted together: whether this is the
 * first of them. */
static bool declared_is_first(const struct lk__declareds *declared, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (declared->of[i].counters == declared->of[index].counters)
			return false;
	return true;
}

void lk__declared_free(lk_client *client)
{
	struct lk__declareds *declared = atomic_load(&client->declared);
	for (size_t i = declared ? atomic_load(&declared->count) : 0; i-- > 0;) {
		if (declared_is_first(declared, i))
			free(declared->of[i].counters);
		free(declared->of[i].name);
		free(declared->of[i].label);
	}
	free(declared);
}

static bool is_declared(const struct lk__declareds *declared, const void *name, size_t size)
{
	bool is_prefix = size > 1 && ((const char *)name)[size - 1] == '*';
	for (size_t i = 1; i < atomic_load(&declared->count); i++) {
		const struct lk__declared *one = &declared->of[i];
		if (one->is_prefix == is_prefix && one->size == size - is_prefix &&
		    memcmp(one->name, name, one->size) == 0)
			return true;
	}
	return false;
}

/* Under the client's mutex. */
static int declare(lk_client *client, const void *name, size_t size, lk_error *error)
{
	const char *operation = "lk_stats_declare";
	if (client->entries.count > 0)
		return lk__fail(error, LK_EINVAL, "%s: the client has locks already", operation);
	struct lk__declareds *declared = declareds_get(client);
	if (declared && is_declared(declared, name, size))
		return 0;
	if (declared && atomic_load(&declared->count) > LK_STATS_NAMES_MAX)
		return lk__fail(error, LK_ELIMIT, "%s: %d names are declared already", operation,
				LK_STATS_NAMES_MAX);
	if (!declared || !declared_add(declared, name, size))
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	return 0;
}

int lk_stats_declare(lk_client *client, const void *name, size_t name_size, lk_error *error)
{
	const char *operation = "lk_stats_declare";
	int rc = lk__name_check(client, name, &name_size, operation, error);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&client->mutex);
	rc = declare(client, name, name_size, error);
	pthread_mutex_unlock(&client->mutex);
	return rc;
}

/* ---- as text for Prometheus ---- */

/*
 * The metrics of clients as text for Prometheus. The series are rows of metrics.def; both formats
 * come from them. A text is written in one pass, family by family, into the caller's memory: what
 * does not fit is only counted. Numbers are printed as integers, so no locale changes them.
 */

#define NODES_SHOWN 100
#define US_PER_S 1000000
#define LINE_SIZE 128

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct series {
	enum kind kind;
	bool by_name; /* it also stands for single locks, as lock_FAMILY */
	const char *family, *label, *value;
	size_t offset; /* in struct lk_stats */
	const char *help;
};

/* Whose sample it is: of a client, or of the locks of one label in it. */
struct subject {
	const char *client, *lock; /* labels; NULL: it has none */
};

static const struct series table[] = {
#define COUNTER(of, family, label, value, field, help)                                             \
	{COUNTER, of, family, label, value, offsetof(lk_stats, field), help},
#define GAUGE(of, family, field, help) {GAUGE, of, family, "", "", offsetof(lk_stats, field), help},
#define HISTOGRAM(of, family, field, help)                                                         \
	{HISTOGRAM, of, family "_seconds", "", "", offsetof(lk_stats, field), help},
#define CLIENT false
#define NAME true
#include "api/metrics.def"
#undef CLIENT
#undef NAME
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

__attribute__((format(printf, 2, 3))) static void putf(struct text *text, const char *format, ...)
{
	char line[LINE_SIZE];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	put_bytes(text, line, (size_t)size);
}

/* Both formats know the same three escapes. */
static void put_value(struct text *text, const char *value)
{
	const char *end = value + strlen(value);
	while (value < end) {
		if (*value == '\n')
			put(text, "\\n");
		else if (*value == '"' || *value == '\\')
			putf(text, "\\%c", *value);
		else
			value += put_character(text, value, (size_t)(end - value)) - 1;
		value++;
	}
}

/* ---- lines ---- */

/* `of` stands before the family's name: "", or "lock_" where it is that of single locks. */
static void put_family(struct text *text, const char *of, const char *family, const char *type,
		       const char *help)
{
	/* In OpenMetrics a family of counters has no "_total"; in the other format it has. */
	const char *end = strcmp(type, "counter") == 0 && !text->open ? "_total" : "";
	size_t size = strlen(family);
	const char *unit = size > 8 && strcmp(family + size - 8, "_seconds") == 0 ? "seconds" : "";
	putf(text, "# TYPE lockkeeper_%s%s%s %s\n", of, family, end, type);
	if (text->open && *unit)
		putf(text, "# UNIT lockkeeper_%s%s %s\n", of, family, unit);
	putf(text, "# HELP lockkeeper_%s%s%s ", of, family, end);
	put(text, help);
	put(text, "\n");
}

static void put_label(struct text *text, bool *any, const char *name, const char *value)
{
	putf(text, "%s%s=\"", *any ? "," : "{", name);
	put_value(text, value);
	put(text, "\"");
	*any = true;
}

/* The name, the labels of its subject, and another if that has a name. */
static void put_sample(struct text *text, const struct subject *subject, const char *family,
		       const char *end, const char *label, const char *value)
{
	bool any = false;
	putf(text, "lockkeeper_%s%s%s", subject->lock ? "lock_" : "", family, end);
	if (subject->client)
		put_label(text, &any, "client", subject->client);
	if (subject->lock)
		put_label(text, &any, "lock", subject->lock);
	if (*label)
		put_label(text, &any, label, value);
	put(text, any ? "} " : " ");
}

static void put_number(struct text *text, uint64_t number)
{
	putf(text, "%llu\n", (unsigned long long)number);
}

static void put_seconds(struct text *text, uint64_t us)
{
	putf(text, "%llu.%06llu\n", (unsigned long long)(us / US_PER_S),
	     (unsigned long long)(us % US_PER_S));
}

/* ---- histograms ---- */

/* Every other bucket of ours: powers of four from 4 µs to 4,295 s. One text is one series, so each
 * is written as OpenMetrics has it. */
static const struct {
	int power;
	const char *le;
} bounds[] = {
	{2, "4e-06"},      {4, "1.6e-05"},     {6, "6.4e-05"},      {8, "0.000256"},
	{10, "0.001024"},  {12, "0.004096"},   {14, "0.016384"},    {16, "0.065536"},
	{18, "0.262144"},  {20, "1.048576"},   {22, "4.194304"},    {24, "16.777216"},
	{26, "67.108864"}, {28, "268.435456"}, {30, "1073.741824"}, {32, "4294.967296"},
};

static void put_histogram(struct text *text, const struct subject *subject, const char *family,
			  const lk_histogram *histogram)
{
	uint64_t below = 0;
	int next = 0;
	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		while (next < bounds[i].power)
			below += histogram->bucket[next++];
		put_sample(text, subject, family, "_bucket", "le", bounds[i].le);
		put_number(text, below);
	}
	put_sample(text, subject, family, "_bucket", "le", "+Inf");
	put_number(text, histogram->count);
	put_sample(text, subject, family, "_count", "", "");
	put_number(text, histogram->count);
	put_sample(text, subject, family, "_sum", "", "");
	put_seconds(text, histogram->sum_us);
}

/* ---- families ---- */

static void put_row(struct text *text, const struct subject *subject, const struct series *row,
		    const lk_stats *stats)
{
	const void *field = (const char *)stats + row->offset;
	if (row->kind == HISTOGRAM) {
		put_histogram(text, subject, row->family, field);
		return;
	}
	put_sample(text, subject, row->family, row->kind == COUNTER ? "_total" : "", row->label,
		   row->value);
	put_number(text, *(const uint64_t *)field);
}

/* The rows of one family. */
struct family {
	size_t first, end;
};

static void put_rows(struct text *text, const struct subject *subject, const struct family *family,
		     const lk_stats *stats)
{
	for (size_t row = family->first; row < family->end; row++)
		put_row(text, subject, &table[row], stats);
}

static void put_names(struct text *text, const lk_stats_source *source, const struct family *family)
{
	lk_stats stats;
	const struct lk__declareds *declared = atomic_load(&source->client->declared);
	size_t count = declared ? atomic_load(&declared->count) : 0;
	for (size_t i = 0; i < count; i++) {
		if (!declared_is_first(declared, i))
			continue;
		const struct subject subject = {source->label, declared->of[i].label};
		stats_get_counters(declared->of[i].counters, &stats);
		put_rows(text, &subject, family, &stats);
	}
}

static bool any_name(const struct text *text)
{
	for (size_t i = 0; i < text->count; i++)
		if (atomic_load(&text->sources[i].client->declared))
			return true;
	return false;
}

/* Writes the series of all clients, and of single locks where names are declared. */
static void put_series(struct text *text, const struct family *family)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};
	const struct series *row = &table[family->first];
	put_family(text, "", row->family, types[row->kind], row->help);
	for (size_t i = 0; i < text->count; i++) {
		lk_stats stats;
		const struct subject subject = {text->sources[i].label, NULL};
		stats_get(text->sources[i].client, &stats);
		put_rows(text, &subject, family, &stats);
	}
	if (!row->by_name || !any_name(text))
		return;
	put_family(text, "lock_", row->family, types[row->kind], row->help);
	for (size_t i = 0; i < text->count; i++)
		put_names(text, &text->sources[i], family);
}

/* Returns the row behind the family's last one. */
static size_t put_family_at(struct text *text, size_t first)
{
	const size_t rows = sizeof(table) / sizeof(*table);
	struct family family = {first, first + 1};
	while (family.end < rows && strcmp(table[family.end].family, table[first].family) == 0)
		family.end++;
	put_series(text, &family);
	return family.end;
}

/* Where a node of the client is; false: there are fewer, or it is not known. */
static bool node_place(const lk_client *client, size_t at, char place_out[LK__CONN_PLACE_SIZE])
{
	struct lk__node *node = client->topo->ops->node_at(client->topo, at);
	if (!node)
		return false;
	lk__node_place_at(node, atomic_load(&node->epoch), place_out);
	if (!node->finder)
		snprintf(place_out, LK__CONN_PLACE_SIZE, "%s", client->config->url);
	return *place_out != '\0';
}

/* A series that stands twice makes the whole text invalid, and a server can move to where another
 * was. */
static bool is_shown(const lk_client *client, size_t at, const char *place)
{
	char other[LK__CONN_PLACE_SIZE];
	for (size_t before = 0; before < at; before++)
		if (node_place(client, before, other) && strcmp(other, place) == 0)
			return true;
	return false;
}

static void put_round_trip(struct text *text, const lk_stats_source *source, size_t at,
			   const struct lk__node *node)
{
	char place[LK__CONN_PLACE_SIZE];
	int64_t ns = atomic_load_explicit(&node->counters.round_trip_ns, memory_order_relaxed);
	if (ns <= 0 || !node_place(source->client, at, place) ||
	    is_shown(source->client, at, place))
		return;
	const struct subject subject = {source->label, NULL};
	put_sample(text, &subject, "node_round_trip_seconds", "", "node", place);
	put_seconds(text, (uint64_t)(ns / LK__US));
}

static void put_round_trips(struct text *text)
{
	put_family(text, "", "node_round_trip_seconds", "gauge",
		   "The last question for the server's time, by node");
	for (size_t i = 0; i < text->count; i++) {
		struct lk__topo *topo = text->sources[i].client->topo;
		struct lk__node *node;
		for (size_t at = 0; at < NODES_SHOWN && (node = topo->ops->node_at(topo, at)); at++)
			put_round_trip(text, &text->sources[i], at, node);
	}
}

static void put_build(struct text *text)
{
	if (text->open)
		put_family(text, "", "build", "info", "The version of the library");
	else
		put_family(text, "", "build_info", "gauge", "The version of the library");
	put_sample(text, &(struct subject){NULL, NULL}, "build", "_info", "version", LK_VERSION);
	put(text, "1\n");
}

static void put_all(struct text *text)
{
	put_build(text);
	for (size_t row = 0; row < sizeof(table) / sizeof(*table);)
		row = put_family_at(text, row);
	put_round_trips(text);
	if (text->open)
		put(text, "# EOF\n");
}

static int check_sources(const lk_stats_source *sources, size_t count, lk_error *error)
{
	const char *operation = "lk_stats_write";
	if (count < 1 || count > LK_STATS_CLIENTS_MAX)
		return lk__fail(error, LK_EINVAL, "%s: count is %zu, not 1 … %d", operation, count,
				LK_STATS_CLIENTS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (!sources[i].client)
			return lk__fail(error, LK_EINVAL, "%s: client %zu is NULL", operation, i);
		if (count > 1 && !sources[i].label)
			return lk__fail(error, LK_EINVAL, "%s: client %zu of several has no label",
					operation, i);
		int rc = lk__check_forked(sources[i].client, operation, error);
		if (rc < 0)
			return rc;
		for (size_t other = 0; count > 1 && other < i; other++)
			if (strcmp(sources[i].label, sources[other].label) == 0)
				return lk__fail(error, LK_EINVAL,
						"%s: two clients have the label \"%.100s\"",
						operation, sources[i].label);
	}
	return 0;
}

int lk_stats_write(const lk_stats_source *sources, size_t count, int format, char *buffer,
		   size_t size, size_t *length_out, lk_error *error)
{
	const char *operation = "lk_stats_write";
	if (!sources || !length_out || (!buffer && size > 0))
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	if (format != LK_STATS_PROMETHEUS && format != LK_STATS_OPENMETRICS)
		return lk__fail(error, LK_EINVAL, "%s: format is %d, not 0 or 1", operation,
				format);
	int rc = check_sources(sources, count, error);
	if (rc < 0)
		return rc;
	struct text text = {.sources = sources,
			    .count = count,
			    .open = format == LK_STATS_OPENMETRICS,
			    .buffer = buffer,
			    .size = size};
	put_all(&text);
	*length_out = text.length;
	if (text.length > size)
		return lk__fail(error, LK_ELIMIT, "%s: the text has %zu bytes, the buffer %zu",
				operation, text.length, size);
	return 0;
}
