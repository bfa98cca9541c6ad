#include "tracking.h"

#include <stdlib.h>
#include <string.h>

#include "commands_inside.h"
#include "resp.h"
#include "world.h"

static void drop(struct sim_tracking *tracking, size_t at)
{
	free((char *)tracking->all[at].key.bytes);
	tracking->all[at] = tracking->all[--tracking->count];
}

void sim_tracking_gone(struct sim_tracking *tracking, const struct sim_tracker *tracker)
{
	for (size_t i = tracking->count; i > 0; i--)
		if (tracking->all[i - 1].by == tracker)
			drop(tracking, i - 1);
}

void sim_tracking_clear(struct sim_tracking *tracking)
{
	while (tracking->count > 0)
		drop(tracking, tracking->count - 1);
	free(tracking->all);
	tracking->all = NULL;
	tracking->room = 0;
}

static bool is(const struct sim_asked *asked, size_t at, const char *text)
{
	return asked->count > at && sim_word_is(asked->words[at], text);
}

bool sim_tracking_obeys(struct sim_tracking *tracking, struct sim_tracker *tracker,
			const struct sim_asked *asked)
{
	if (tracker->id == 0)
		tracker->id = ++tracking->last_id;
	if (!is(asked, 0, "CLIENT"))
		return false;
	if (is(asked, 1, "ID")) {
		sim_say_integer(asked->out, tracker->id);
	} else if (is(asked, 1, "TRACKING")) {
		tracker->on = true;
		sim_read_integer(asked->words[4], &tracker->redirect);
		sim_say_status(asked->out, "OK");
	} else if (is(asked, 1, "CACHING")) {
		tracker->caching = tracker->on;
		sim_say_status(asked->out, "OK");
	} else {
		return false;
	}
	return true;
}

static uint64_t digest_of(const struct sim_asked *asked, struct sim_word key)
{
	return sim_key_digest(sim_key_find(&asked->redis->keys, key));
}

static void say(const struct sim_tracking *tracking, const struct sim_tracked *tracked,
		void (*tell)(int64_t id, const void *bytes, size_t size))
{
	struct lk__buffer out = {0};
	if (sim_chance(tracking->lost_in_1000)) {
		sim_note("nobody is told that %s has changed", tracked->key.bytes);
		return;
	}
	sim_say_array(&out, 3);
	sim_say_bulk(&out, sim_word("message"));
	sim_say_bulk(&out, sim_word("__redis__:invalidate"));
	sim_say_array(&out, 1);
	sim_say_bulk(&out, tracked->key);
	tell(tracked->by->redirect, lk__buffer_front(&out), lk__buffer_size(&out));
	lk__buffer_free(&out);
}

unsigned sim_tracking_count(const struct sim_tracking *tracking, struct sim_word key, bool waiting)
{
	unsigned count = 0;
	for (size_t i = 0; i < tracking->count; i++)
		count += (tracking->all[i].waits || !waiting) &&
			 tracking->all[i].key.size == key.size &&
			 memcmp(tracking->all[i].key.bytes, key.bytes, key.size) == 0;
	return count;
}

static void remember(struct sim_tracking *tracking, const struct sim_tracker *by,
		     const struct sim_asked *asked, struct sim_word key)
{
	bool waits = is(asked, 0, "PTTL");
	for (size_t i = tracking->count; i > 0; i--)
		if (tracking->all[i - 1].by == by && tracking->all[i - 1].key.size == key.size &&
		    memcmp(tracking->all[i - 1].key.bytes, key.bytes, key.size) == 0) {
			tracking->all[i - 1].waits |= waits;
			return;
		}
	if (tracking->count == tracking->room) {
		tracking->room = tracking->room ? 2 * tracking->room : 16;
		tracking->all = realloc(tracking->all, tracking->room * sizeof(*tracking->all));
	}
	char *copy = malloc(key.size + 1);
	memcpy(copy, key.bytes, key.size);
	copy[key.size] = '\0';
	tracking->all[tracking->count++] = (struct sim_tracked){
		by, {copy, key.size}, digest_of(asked, key), waits};
}

void sim_tracking_flushed(const struct sim_tracking *tracking, const struct sim_tracker *tracker,
			  void (*tell)(int64_t id, const void *bytes, size_t size))
{
	struct lk__buffer out = {0};
	if (!tracker->on || sim_chance(tracking->lost_in_1000))
		return;
	sim_say_array(&out, 3);
	sim_say_bulk(&out, sim_word("message"));
	sim_say_bulk(&out, sim_word("__redis__:invalidate"));
	sim_say_nil(&out);
	tell(tracker->redirect, lk__buffer_front(&out), lk__buffer_size(&out));
	lk__buffer_free(&out);
}

void sim_tracking_ran(struct sim_tracking *tracking, struct sim_tracker *tracker,
		      const struct sim_asked *asked,
		      void (*tell)(int64_t id, const void *bytes, size_t size))
{
	while (is(asked, 0, "FLUSHALL") && tracking->count > 0)
		drop(tracking, tracking->count - 1);
	for (size_t i = tracking->count; i > 0; i--) {
		const struct sim_tracked *tracked = &tracking->all[i - 1];
		if (digest_of(asked, tracked->key) == tracked->digest)
			continue;
		if (tracked->by != tracker)
			say(tracking, tracked, tell);
		drop(tracking, i - 1);
	}
	bool reads = tracker->caching && (is(asked, 0, "EXISTS") || is(asked, 0, "PTTL"));
	for (size_t i = 1; reads && i < asked->count; i++)
		remember(tracking, tracker, asked, asked->words[i]);
	tracker->caching = false;
}
