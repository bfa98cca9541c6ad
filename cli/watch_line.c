/* SPDX-License-Identifier: MIT */
#include "watch_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "escape.h"
#include "inspect_json.h"
#include "message.h"
#include "owner.h"

#define TIME_SIZE 32

static const struct {
	const char *name; /* in JSON, and in the environment */
	const char *words;
	int ends; /* the sentence is about who had it */
} kinds[] = {
	[LK_CHANGE_STATE] = {"state", "", 0},
	[LK_CHANGE_ACQUIRED] = {"acquired", "acquired by ", 0},
	[LK_CHANGE_RENEWED] = {"renewed", "renewed by ", 0},
	[LK_CHANGE_RELEASED] = {"released", "released by ", 1},
	[LK_CHANGE_BROKEN] = {"broken", "broken; had by ", 1},
	[LK_CHANGE_EXPIRED] = {"expired", "expired; had by ", 1},
	[LK_CHANGE_LOST] = {"lost", "lost with the server's data; had by ", 1},
	[LK_CHANGE_UNKNOWN] = {"unknown", "gone, and nobody told how; had by ", 1},
	[LK_CHANGE_COUNT] = {"count", "", 0},
	[LK_CHANGE_GAP] = {"gap", "gap: ", 0},
};

#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

const char *change_name(const lk_change *change)
{
	return change->kind > 0 && change->kind < KINDS ? kinds[change->kind].name : "other";
}

int change_is_held(const lk_change *change)
{
	return change->holder_count > 0;
}

/* By the server's clock, or where it did not say by ours. */
static void time_text(int64_t at_ms, char text_out[TIME_SIZE])
{
	struct timespec now;
	struct tm utc;
	clock_gettime(CLOCK_REALTIME, &now);
	if (at_ms == 0)
		at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	time_t seconds = (time_t)(at_ms / 1000);
	size_t size = strftime(text_out, 24, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
	snprintf(text_out + size, TIME_SIZE - size, ".%03dZ", (int)(at_ms % 1000));
}

static void who_print(const lk_owner_info *who, const char *field, size_t size)
{
	char text[OWNER_TEXT_SIZE];
	owner_info_text(who, field, size, text, sizeof(text));
	escape_print(stdout, text, strlen(text));
}

static void state_print(const lk_change *change)
{
	if (change->is_counter)
		printf("%s: %" PRId64, change->type, change->count);
	else if (!change->owner)
		fputs("free", stdout);
	else
		fputs("held by ", stdout);
	if (change->owner)
		who_print(change->client, change->owner, change->owner_size);
	printf(" (%s%s)", change->initial ? "present state" : "state after the gap",
	       change->told ? "" : "; the server does not tell of changes, so it is asked");
}

static void words_print(const lk_change *change)
{
	if (change->kind <= 0 || change->kind >= KINDS) {
		fputs("another change", stdout);
		return;
	}
	fputs(kinds[change->kind].words, stdout);
	if (change->kind == LK_CHANGE_STATE)
		state_print(change);
	else if (change->kind == LK_CHANGE_COUNT)
		printf("the count is %" PRId64, change->count);
	else if (change->kind == LK_CHANGE_GAP && change->reason)
		escape_print(stdout, change->reason, strlen(change->reason));
	else if (kinds[change->kind].ends)
		who_print(change->was_client, change->was, change->was_size);
	else if (change->owner)
		who_print(change->client, change->owner, change->owner_size);
	if (change->kind == LK_CHANGE_ACQUIRED && change->was) {
		fputs("; before by ", stdout);
		who_print(change->was_client, change->was, change->was_size);
	}
	if (change->fence && change->owner)
		printf(", fence %" PRIu64, change->fence);
}

int change_print(const lk_change *change)
{
	char at[TIME_SIZE];
	time_text(change->at_ms, at);
	printf("%s  ", at);
	escape_print(stdout, change->name, change->name_size);
	fputs("  ", stdout);
	words_print(change);
	putchar('\n');
	return output_finish();
}

/* ---- JSON ---- */

static int field_set(json_t *object, const char *key, const char *key_hex, const char *field,
		     size_t size)
{
	return field ? bytes_set(object, key, key_hex, field, size)
		     : json_object_set_new(object, key, json_null());
}

static int value_set(json_t *object, const char *key, json_t *value)
{
	return value ? json_object_set_new(object, key, value) : -1;
}

static json_t *known(int is_known, int64_t number)
{
	return is_known ? json_integer(number) : json_null();
}

static json_t *note_json(const lk_owner_info *who)
{
	return who && *who->note ? text_json(who->note) : json_null();
}

json_t *change_json(const lk_change *change)
{
	char at[TIME_SIZE];
	time_text(change->at_ms, at);
	json_t *object = json_object();
	if (object && value_set(object, "event", json_string(change_name(change))) == 0 &&
	    value_set(object, "initial", json_boolean(change->initial)) == 0 &&
	    bytes_set(object, "name", "name_hex", change->name, change->name_size) == 0 &&
	    value_set(object, "type", json_string(change->type)) == 0 &&
	    value_set(object, "holders", json_integer((json_int_t)change->holder_count)) == 0 &&
	    field_set(object, "owner", "owner_hex", change->owner, change->owner_size) == 0 &&
	    value_set(object, "client", owner_info_json(change->client)) == 0 &&
	    value_set(object, "note", note_json(change->client)) == 0 &&
	    field_set(object, "was", "was_hex", change->was, change->was_size) == 0 &&
	    value_set(object, "was_client", owner_info_json(change->was_client)) == 0 &&
	    value_set(object, "ttl_ms", known(change->owner != NULL, change->ttl_ms)) == 0 &&
	    value_set(object, "fence", known(change->fence > 0, (int64_t)change->fence)) == 0 &&
	    value_set(object, "count", known(change->is_counter, change->count)) == 0 &&
	    value_set(object, "told", json_boolean(change->told)) == 0 &&
	    value_set(object, "reason", change->reason ? text_json(change->reason) : json_null()) ==
		    0 &&
	    value_set(object, "at", json_string(at)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

int change_print_json(const lk_change *change)
{
	json_t *object = change_json(change);
	char *text = object ? json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
	json_decref(object);
	if (!text)
		return trouble("cannot print the JSON");
	puts(text);
	free(text);
	return output_finish();
}
