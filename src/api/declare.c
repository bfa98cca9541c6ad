/* SPDX-License-Identifier: MIT */
/* Names whose locks are counted apart: the program declares them before it makes locks. */
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/stats.h>

#include "api/check.h"
#include "api/label.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "lock/client.h"

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
				     .label = lk__label_new(name, size)};
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
