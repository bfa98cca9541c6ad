/* SPDX-License-Identifier: MIT */
/* Counters as the user sees them. */
#include "api/stats.h"

#include <lockkeeper/stats.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "base/utf8.h"
#include "lock/client.h"

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void get_histogram(lk_histogram *histogram, const _Atomic uint64_t *buckets,
			  const _Atomic uint64_t *sum_us)
{
	for (int i = 0; i < LK_HISTOGRAM_SIZE; i++) {
		histogram->bucket[i] = get(&buckets[i]);
		histogram->count += histogram->bucket[i];
	}
	histogram->sum_us = get(sum_us);
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

void lk__stats_get_counters(const struct lk__counters *counters, lk_stats *stats_out)
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
	get_histogram(&stats_out->wait_us, counters->wait_us, &counters->wait_sum_us);
	get_histogram(&stats_out->hold_us, counters->hold_us, &counters->hold_sum_us);
	get_histogram(&stats_out->renewal_us, counters->renewal_us, &counters->renewal_sum_us);
	get_histogram(&stats_out->margin_us, counters->margin_us, &counters->margin_sum_us);
}

void lk__stats_get(lk_client *client, lk_stats *stats_out)
{
	lk__stats_get_counters(&client->counters, stats_out);
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
	lk__stats_get(client, &stats);
	lk__copy_sized(stats_out, stats_out->struct_size, &stats, sizeof(stats));
	return 0;
}

/* ---- names whose locks are counted apart: declared before there are locks ---- */

#define REPLACEMENT "\xef\xbf\xbd"

/* A copy with a NUL, in which what is no UTF-8, which readers of metrics refuse, and a NUL are
 * U+FFFD. To be freed; NULL when out of memory. */
static char *label_new(const void *bytes, size_t size)
{
	const char *at = bytes;
	char *label = malloc(size * strlen(REPLACEMENT) + 1), *end = label;
	while (label && size > 0) {
		size_t length = lk__utf8_size(at, size);
		bool fits = length > 0 && *at;
		const char *from = fits ? at : REPLACEMENT;
		size_t count = fits ? length : strlen(REPLACEMENT);
		memcpy(end, from, count);
		end += count;
		length = length ? length : 1;
		at += length;
		size -= length;
	}
	if (label)
		*end = '\0';
	return label;
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
