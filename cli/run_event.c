/* SPDX-License-Identifier: MIT */
#include "run_event.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <lockkeeper/config.h>

#include "clock.h"
#include "escape.h"
#include "message.h"

static const char *const names[RUN_EVENTS] = {
	[RUN_START] = "start", [RUN_SKIP] = "skip",   [RUN_TIMEOUT] = "timeout",
	[RUN_RISK] = "risk",   [RUN_LOST] = "lost",   [RUN_ASK] = "ask",
	[RUN_END] = "end",     [RUN_ERROR] = "error",
};

const char *run_event_name(enum run_event_type type)
{
	return names[type];
}

int run_event_find(const char *name, size_t size)
{
	for (int i = 0; i < RUN_EVENTS; i++)
		if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
			return i;
	return -1;
}

/* ---- what stays the same ---- */

/* A UUID of version 4: random. */
static void id_make(char id_out[RUN_ID_SIZE])
{
	unsigned char bytes[16] = {0};
	char *at = id_out;
	if (getrandom(bytes, sizeof(bytes), 0) < 0)
		memcpy(bytes, &(int64_t){clock_now_ns()}, sizeof(int64_t)); /* an old kernel */
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(bytes); i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      bytes[i]);
}

/* Finds the second field of "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" (W3C Trace
 * Context); another text has no trace id. */
static void trace_find(char trace_out[RUN_TRACE_SIZE])
{
	static const char hex[] = "0123456789abcdef";
	static const size_t dash[] = {2, 35, 52};
	const char *text = getenv("TRACEPARENT");
	size_t size = text ? strlen(text) : 0;
	*trace_out = '\0';
	if (size < 55 || (size > 55 && (text[55] != '-' || memcmp(text, "00", 2) == 0)) ||
	    memcmp(text, "ff", 2) == 0)
		return;
	for (size_t i = 0, dashes = 0; i < 55; i++) {
		if (dashes < 3 && i == dash[dashes]) {
			if (text[i] != '-')
				return;
			dashes++;
		} else if (!strchr(hex, text[i])) {
			return;
		}
	}
	if (strspn(text + 3, "0") >= RUN_TRACE_SIZE - 1)
		return;
	memcpy(trace_out, text + 3, RUN_TRACE_SIZE - 1);
	trace_out[RUN_TRACE_SIZE - 1] = '\0';
}

void run_facts_make(struct run_facts *facts_out, const char *name)
{
	facts_out->name = name;
	id_make(facts_out->id);
	trace_find(facts_out->trace);
}

/* ---- the line of --json ---- */

static int value_set(json_t *object, const char *key, json_t *value)
{
	return value ? json_object_set_new(object, key, value) : -1;
}

/* Null for what is empty; bytes that are not UTF-8 are escaped, as in a message. */
static json_t *text_json(const char *text)
{
	char *escaped = NULL;
	size_t size = 0;
	if (*text == '\0')
		return json_null();
	if (utf8_is_valid(text, strlen(text)))
		return json_string(text);
	FILE *stream = open_memstream(&escaped, &size);
	if (!stream)
		return NULL;
	escape_print(stream, text, strlen(text));
	json_t *value = fclose(stream) == 0 ? json_string(escaped) : NULL;
	free(escaped);
	return value;
}

static json_t *known(int64_t number)
{
	return number == RUN_UNKNOWN ? json_null() : json_integer(number);
}

static int fields_set(json_t *object, const struct run_facts *facts, const struct run_event *event)
{
	return value_set(object, "event", json_string(names[event->type])) ||
	       value_set(object, "run", json_string(facts->id)) ||
	       value_set(object, "name", text_json(facts->name)) ||
	       value_set(object, "status", known(event->status)) ||
	       value_set(object, "lost", json_boolean(event->lost)) ||
	       value_set(object, "waited_ms", known(event->waited_ms)) ||
	       value_set(object, "held_ms", known(event->held_ms)) ||
	       value_set(object, "owner", text_json(event->owner)) ||
	       value_set(object, "fence",
			 event->fence ? json_integer((json_int_t)event->fence) : json_null()) ||
	       value_set(object, "holder", text_json(event->holder)) ||
	       value_set(object, "trace_id", text_json(facts->trace));
}

char *run_event_json(const struct run_facts *facts, const struct run_event *event)
{
	char text[32], *line = NULL;
	snprintf(text, sizeof(text), "run: %s", names[event->type]);
	int is_well = event->type == RUN_END ? !event->lost : event->type != RUN_ERROR;
	json_t *object = message_json(is_well ? LK_LOG_INFO : LK_LOG_ERROR, text);
	char *json = object && fields_set(object, facts, event) == 0
			     ? json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER)
			     : NULL;
	json_decref(object);
	if (json && asprintf(&line, "%s\n", json) < 0)
		line = NULL;
	free(json);
	return line;
}
