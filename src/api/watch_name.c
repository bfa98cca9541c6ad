/* SPDX-License-Identifier: MIT */
/* The tellers of a name: the tracker of its key, and the channels of its kind. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/watch.h"
#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "lock/loop.h"
#include "sync/recipes.h"

/* Under the mutex of the node's connection for subscriptions. */
static void watched_tell(struct lk__tracker *tracker, enum lk__tracking_news news,
			 struct lk__deferred *after)
{
	static const unsigned bits[] = {[LK__TRACKING_TOUCHED] = LK__NEWS_TOUCHED,
					[LK__TRACKING_FLUSHED] = LK__NEWS_FLUSHED,
					[LK__TRACKING_LOST] = LK__NEWS_LOST,
					[LK__TRACKING_BEGINS] = LK__NEWS_BEGINS};
	struct lk__watched *watched = (struct lk__watched *)((char *)tracker -
							     offsetof(struct lk__watched, tracker));
	struct lk__thread *thread = atomic_load(&watched->watch->thread);
	int64_t never = 0;
	atomic_compare_exchange_strong(&watched->touched_ns, &never, lk__now_ns());
	atomic_fetch_or(&watched->news, bits[news]);
	if (thread)
		lk__after_wake(after, thread);
}

struct lk__watched *lk__watched_new(lk_watch *watch, const char *name, size_t size)
{
	const char *prefix = watch->client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	struct lk__watched *watched = calloc(1, sizeof(*watched) + prefix_size + size + 1);
	if (!watched)
		return NULL;
	memcpy(mempcpy(watched->key, prefix, prefix_size), name, size);
	watched->key_size = prefix_size + size;
	watched->name_at = prefix_size;
	watched->watch = watch;
	watched->type = "none";
	watched->prefix = LK__LOCK_CHANNEL_PREFIX;
	watched->tracker.tell = watched_tell;
	return watched;
}

static void ear_close(struct lk__watched *watched, struct lk__watch_ear *ear)
{
	if (ear->listening)
		lk__channel_close(&watched->node->messages, ear->listening);
	ear->listening = NULL;
}

static void watched_deafen(struct lk__watched *watched)
{
	ear_close(watched, &watched->release);
	ear_close(watched, &watched->broken);
}

static void watched_leave(struct lk__watched *watched)
{
	if (!watched->node)
		return;
	watched_deafen(watched);
	if (watched->tracker.of)
		lk__tracker_end(&watched->tracker, watched->node);
	watched->node = NULL;
}

void lk__watched_free(struct lk__watched *watched)
{
	watched_leave(watched);
	lk__watched_forget(watched);
	free(watched);
}

static void ear_mark(const struct lk__watched *watched, struct lk__watch_ear *ear)
{
	if (ear->listening)
		lk__channel_mark(&watched->node->messages, ear->listening, &ear->next);
}

/* Without memory for it an end is told as unknown. */
static void ear_open(struct lk__watched *watched, struct lk__watch_ear *ear, const char *suffix)
{
	size_t size;
	char *name = lk__derived_name(watched->prefix, watched->key, watched->key_size, &size);
	size_t suffix_size = strlen(suffix);
	char *whole = name ? malloc(size + suffix_size + 1) : NULL;
	if (whole) {
		memcpy(mempcpy(whole, name, size), suffix, suffix_size + 1);
		ear->listening = lk__channel_open(&watched->node->messages, whole,
						  size + suffix_size, NULL, NULL);
		ear_mark(watched, ear);
		ear->mark = ear->next;
	}
	free(whole);
	free(name);
}

static void watched_hear(struct lk__watched *watched)
{
	if (!watched->prefix)
		return;
	if (!watched->release.listening)
		ear_open(watched, &watched->release, "");
	if (!watched->broken.listening)
		ear_open(watched, &watched->broken, LK__BROKEN);
	lk__watched_wakes(watched, atomic_load(&watched->watch->thread));
	lk__loop_attend(watched->watch->client);
}

int lk__watched_listen(struct lk__watched *watched, struct lk__node *node, bool *moved_out)
{
	*moved_out = watched->node && watched->node != node;
	if (*moved_out)
		watched_leave(watched);
	watched->node = node;
	if (!watched->tracker.of &&
	    lk__tracker_begin(&watched->tracker, node, watched->key, watched->key_size) != 0)
		return LK_ENOMEM;
	watched_hear(watched);
	return 0;
}

/* The prefix of the channel on which a release of that kind is told. */
static const char *prefix_of(const char *type)
{
	static const struct {
		const char *type, *prefix;
	} kinds[] = {
		{"read/write lock", LK__RW_CHANNEL_PREFIX},
		{"permit semaphore", LK__SEMAPHORE_CHANNEL_PREFIX},
		{"semaphore", NULL}, /* who listens there decides what it looks like */
		{"latch", NULL},
		{"semaphore or latch", NULL},
		{"foreign semaphore", NULL},
		{"counter beside a lock", NULL},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].type, type) == 0)
			return kinds[i].prefix;
	return LK__LOCK_CHANNEL_PREFIX;
}

void lk__watched_kind(struct lk__watched *watched, const char *type)
{
	const char *prefix = strcmp(type, "none") == 0 ? watched->prefix : prefix_of(type);
	if (prefix == watched->prefix ||
	    (prefix && watched->prefix && strcmp(prefix, watched->prefix) == 0))
		return;
	watched_deafen(watched);
	watched->prefix = prefix;
	watched_hear(watched);
}

void lk__watched_wakes(struct lk__watched *watched, struct lk__thread *thread)
{
	struct lk__watch_ear *const ears[] = {&watched->release, &watched->broken};
	for (int i = 0; i < 2; i++)
		if (ears[i]->listening)
			lk__channel_listener(&watched->node->messages, ears[i]->listening, thread);
}

void lk__watched_mark(struct lk__watched *watched)
{
	ear_mark(watched, &watched->release);
	ear_mark(watched, &watched->broken);
}

void lk__watched_marked(struct lk__watched *watched)
{
	watched->release.mark = watched->release.next;
	watched->broken.mark = watched->broken.next;
}

bool lk__watch_ear_heard(const struct lk__watched *watched, const struct lk__watch_ear *ear)
{
	struct lk__watch_ear now = *ear;
	if (!ear->listening || ear->mark.listening != ear->listening)
		return false;
	ear_mark(watched, &now);
	return now.next.heard != ear->mark.heard;
}

bool lk__watched_sync(struct lk__watched *watched)
{
	bool begun = watched->broken.listening &&
		     lk__channel_sync(&watched->node->messages, watched->broken.listening);
	if (begun)
		lk__loop_attend(watched->watch->client);
	return begun;
}

bool lk__watched_synced(struct lk__watched *watched)
{
	return lk__channel_listens(&watched->node->messages, watched->broken.listening);
}
