/* SPDX-License-Identifier: MIT */
#include "watch_prefix.h"

#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "exit_code.h"
#include "message.h"

#define PAUSE_MS 5000
#define PAUSE_TIMES 20 /* what a walk took */

/* One that is watched, or was found. */
struct name {
	size_t size;
	uint64_t free_at; /* the number of the change by which it became free; 0: it is held */
	int late;         /* found by a later walk than the first, and not told of yet */
	char bytes[];
};

struct watch_prefix {
	lk_client *client;
	lk_cancel *wake;
	char **prefixes, **own;
	size_t prefix_count;
	int own_count;
	pthread_t thread;
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t change;
	int over;
	int walks;      /* that have ended */
	lk_error error; /* of the last one */
	size_t found_count;
	struct name *found[LK_WATCH_NAMES_MAX]; /* and not taken yet */
	/* ---- the watch's side ---- */
	void *tree; /* of names, for tsearch() */
	size_t count;
	struct name *all[LK_WATCH_NAMES_MAX];
	uint64_t changes;
	int full; /* that has been said */
};

/* ---- names ---- */

static int name_compare(const void *one, const void *other)
{
	const struct name *left = one, *right = other;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return memcmp(left->bytes, right->bytes, left->size);
}

/* NULL when out of memory. */
static struct name *name_new(const char *bytes, size_t size)
{
	struct name *name = calloc(1, sizeof(*name) + size + 1);
	if (!name)
		return NULL;
	memcpy(name->bytes, bytes, size);
	name->size = size;
	return name;
}

static struct name *name_find(struct watch_prefix *prefix, const struct name *like)
{
	void *node = tfind(like, &prefix->tree, name_compare);
	return node ? *(struct name **)node : NULL;
}

/* ---- the walk ---- */

/* The prefix taken literally, and then anything. */
static char *pattern_make(const char *prefix)
{
	char *pattern = malloc(2 * strlen(prefix) + 2), *end = pattern;
	if (!pattern)
		return NULL;
	for (; *prefix; prefix++) {
		if (strchr("*?[]\\", *prefix))
			*end++ = '\\';
		*end++ = *prefix;
	}
	*end++ = '*';
	*end = '\0';
	return pattern;
}

/* Waits for room where the watch has taken none of them yet. 0: the end, or out of memory. */
static int found_put(struct watch_prefix *prefix, const lk_lock_info *info)
{
	struct name *name = name_new(info->name, info->name_size);
	pthread_mutex_lock(&prefix->mutex);
	while (prefix->found_count == LK_WATCH_NAMES_MAX && !prefix->over) {
		lk_cancel_now(prefix->wake);
		pthread_cond_wait(&prefix->change, &prefix->mutex);
	}
	int goes_on = name && !prefix->over;
	if (goes_on) {
		name->late = prefix->walks > 0;
		prefix->found[prefix->found_count++] = name;
	}
	pthread_mutex_unlock(&prefix->mutex);
	if (!goes_on)
		free(name);
	return goes_on;
}

static int walk(struct watch_prefix *prefix, const char *begin, lk_error *error)
{
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	char *pattern = pattern_make(begin);
	int result = pattern ? lk_scan_new(&scan, prefix->client, pattern, error) : LK_ENOMEM;
	while (result >= 0 && (result = lk_scan_next(scan, &info, error)) == 1)
		if (!found_put(prefix, &info))
			break;
	lk_scan_free(scan);
	free(pattern);
	if (!pattern)
		error->code = LK_ENOMEM;
	return result;
}

static int walks_pause(struct watch_prefix *prefix, int64_t pause_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += pause_ms / 1000;
	until.tv_nsec += pause_ms % 1000 * NS_PER_MS;
	until.tv_sec += until.tv_nsec / (1000 * NS_PER_MS);
	until.tv_nsec %= 1000 * NS_PER_MS;
	int timed_out = 0;
	while (!prefix->over && !timed_out)
		timed_out = pthread_cond_timedwait(&prefix->change, &prefix->mutex, &until) != 0;
	return !prefix->over;
}

static void *walks_main(void *argument)
{
	struct watch_prefix *prefix = argument;
	int goes_on = 1;
	while (goes_on) {
		int64_t began_ns = clock_now_ns();
		lk_error error = {0};
		int result = 0;
		for (size_t i = 0; i < prefix->prefix_count && result >= 0; i++)
			result = walk(prefix, prefix->prefixes[i], &error);
		int64_t took_ms = (clock_now_ns() - began_ns) / NS_PER_MS;
		pthread_mutex_lock(&prefix->mutex);
		prefix->error = error;
		prefix->walks += result >= 0;
		lk_cancel_now(prefix->wake);
		goes_on = walks_pause(prefix, took_ms * PAUSE_TIMES > PAUSE_MS
						      ? took_ms * PAUSE_TIMES
						      : PAUSE_MS);
		pthread_mutex_unlock(&prefix->mutex);
	}
	return NULL;
}

/* ---- the watch's side ---- */

static int thread_start(struct watch_prefix *prefix)
{
	pthread_condattr_t clock;
	sigset_t all, before;
	pthread_mutex_init(&prefix->mutex, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&prefix->change, &clock);
	pthread_condattr_destroy(&clock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int why = pthread_create(&prefix->thread, NULL, walks_main, prefix);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return why;
}

struct watch_prefix *watch_prefix_new(lk_client *client, lk_cancel *wake, char **prefixes,
				      size_t prefix_count, char **own, int own_count)
{
	struct watch_prefix *prefix = calloc(1, sizeof(*prefix));
	if (!prefix)
		return NULL;
	prefix->client = client;
	prefix->wake = wake;
	prefix->prefixes = prefixes;
	prefix->prefix_count = prefix_count;
	prefix->own = own;
	prefix->own_count = own_count;
	if (thread_start(prefix) == 0)
		return prefix;
	free(prefix);
	return NULL;
}

static int is_own(const struct watch_prefix *prefix, const struct name *name)
{
	for (int i = 0; i < prefix->own_count; i++)
		if (strlen(prefix->own[i]) == name->size &&
		    memcmp(prefix->own[i], name->bytes, name->size) == 0)
			return 1;
	return 0;
}

static void name_forget(struct watch_prefix *prefix, size_t at, lk_watch *watch)
{
	struct name *name = prefix->all[at];
	prefix->all[at] = prefix->all[--prefix->count];
	lk_watch_remove(watch, name->bytes, name->size, NULL);
	tdelete(name, &prefix->tree, name_compare);
	free(name);
}

/* Forgets the one that has been free for longest. 0: there is none. */
static int room_make(struct watch_prefix *prefix, lk_watch *watch)
{
	size_t oldest = prefix->count;
	for (size_t i = 0; i < prefix->count; i++) {
		const struct name *name = prefix->all[i];
		if (name->free_at &&
		    (oldest == prefix->count || name->free_at < prefix->all[oldest]->free_at))
			oldest = i;
	}
	if (oldest == prefix->count)
		return 0;
	name_forget(prefix, oldest, watch);
	return 1;
}

/* Takes it, and has it watched from now on if it was not: 0, or a code. */
static int name_take(struct watch_prefix *prefix, lk_watch *watch, struct name *name,
		     lk_error *error)
{
	int result = 0;
	if (name_find(prefix, name) || is_own(prefix, name)) {
		free(name);
		return 0;
	}
	result = lk_watch_add(watch, name->bytes, name->size, error);
	if (result == LK_ELIMIT && room_make(prefix, watch))
		result = lk_watch_add(watch, name->bytes, name->size, error);
	if (result == 0 && tsearch(name, &prefix->tree, name_compare)) {
		prefix->all[prefix->count++] = name;
		return 0;
	}
	free(name);
	if (result != LK_ELIMIT)
		return result < 0 ? result : LK_ENOMEM;
	if (!prefix->full)
		message("more than %d locks are held that begin so: not all are watched",
			LK_WATCH_NAMES_MAX);
	prefix->full = 1;
	return 0;
}

int watch_prefix_turn(struct watch_prefix *prefix, lk_watch *watch)
{
	lk_error error = {0};
	int result = 0;
	pthread_mutex_lock(&prefix->mutex);
	int walks = prefix->walks;
	for (size_t i = 0; i < prefix->found_count; i++) {
		if (result == 0)
			result = name_take(prefix, watch, prefix->found[i], &error);
		else
			free(prefix->found[i]);
	}
	prefix->found_count = 0;
	if (result == 0)
		error = prefix->error;
	pthread_cond_signal(&prefix->change);
	pthread_mutex_unlock(&prefix->mutex);
	if (result == 0 && (error.code == 0 || (walks > 0 && lk_error_is_retryable(error.code))))
		return 0;
	return result == LK_ENOMEM ? trouble("out of memory") : trouble_library(&error);
}

int watch_prefix_see(struct watch_prefix *prefix, const lk_change *change)
{
	struct name *like = name_new(change->name, change->name_size);
	struct name *name = like ? name_find(prefix, like) : NULL;
	int late = name && name->late;
	free(like);
	prefix->changes++;
	if (!name)
		return 0;
	if (change->holder_count > 0)
		name->free_at = 0;
	else if (name->free_at == 0)
		name->free_at = prefix->changes;
	name->late = 0;
	return late;
}

void watch_prefix_free(struct watch_prefix *prefix)
{
	if (!prefix)
		return;
	pthread_mutex_lock(&prefix->mutex);
	prefix->over = 1;
	pthread_cond_signal(&prefix->change);
	pthread_mutex_unlock(&prefix->mutex);
	pthread_join(prefix->thread, NULL);
	while (prefix->found_count > 0)
		free(prefix->found[--prefix->found_count]);
	while (prefix->count > 0) {
		struct name *name = prefix->all[--prefix->count];
		tdelete(name, &prefix->tree, name_compare);
		free(name);
	}
	pthread_cond_destroy(&prefix->change);
	pthread_mutex_destroy(&prefix->mutex);
	free(prefix);
}
