/* SPDX-License-Identifier: MIT */
#include "inspect_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "kind.h"
#include "message.h"
#include "owner.h"

json_t *text_json(const char *text)
{
	char *escaped = NULL;
	size_t size;
	FILE *stream = open_memstream(&escaped, &size);
	if (!stream)
		return NULL;
	escape_print(stream, text, strlen(text));
	json_t *string = fclose(stream) == 0 ? json_stringn(escaped, size) : NULL;
	free(escaped);
	return string;
}

static json_t *hex_new(const unsigned char *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * size + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	json_t *hex = json_stringn(text, 2 * size);
	free(text);
	return hex;
}

int bytes_set(json_t *object, const char *key, const char *key_hex, const void *bytes, size_t size)
{
	if (utf8_is_valid(bytes, size))
		return json_object_set_new(object, key, json_stringn(bytes, size));
	return json_object_set_new(object, key_hex, hex_new(bytes, size));
}

/* Sets a new value that may be NULL, which is out of memory; -1 then. */
static int value_set(json_t *object, const char *key, json_t *value)
{
	return value ? json_object_set_new(object, key, value) : -1;
}

static json_t *known(int is_known, int64_t number)
{
	return is_known ? json_integer(number) : json_null();
}

static json_t *holder_json(lk_scan *scan, const lk_lock_info *info, size_t index)
{
	const lk_holder *holder = &info->holders[index];
	int64_t since_ms = info->since_ms ? info->since_ms[index] : 0;
	static const char *const roles[] = {
		[LK_HOLDER_OWNER] = "owner",   [LK_HOLDER_READER] = "reader",
		[LK_HOLDER_WRITER] = "writer", [LK_HOLDER_PERMIT] = "permit",
		[LK_HOLDER_WAITS] = "waits",   [LK_HOLDER_INSIDE] = "inside",
	};
	json_t *object = json_object();
	if (bytes_set(object, "owner", "owner_hex", holder->field, holder->field_size) == 0 &&
	    value_set(object, "hold_count", json_integer(holder->hold_count)) == 0 &&
	    value_set(object, "role", json_string(roles[holder->role])) == 0 &&
	    value_set(object, "ttl_ms", json_integer(holder->ttl_ms)) == 0 &&
	    (!info->since_ms ||
	     value_set(object, "since_ms", known(since_ms > 0, since_ms)) == 0) &&
	    value_set(object, "client", owner_json(scan, holder->field, holder->field_size)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *waiter_json(lk_scan *scan, const lk_waiter *waiter)
{
	json_t *object = json_object();
	if (bytes_set(object, "owner", "owner_hex", waiter->field, waiter->field_size) == 0 &&
	    value_set(object, "client", owner_json(scan, waiter->field, waiter->field_size)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *holders_json(lk_scan *scan, const lk_lock_info *info)
{
	json_t *array = json_array();
	for (size_t i = 0; i < info->holder_count; i++) {
		if (json_array_append_new(array, holder_json(scan, info, i))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *waiters_json(lk_scan *scan, const lk_lock_info *info)
{
	json_t *array = json_array();
	for (size_t i = 0; i < info->waiter_count; i++) {
		if (json_array_append_new(array, waiter_json(scan, &info->waiters[i]))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

/* Writes a lock as JSON: what only some kinds have is null for the others. */
json_t *inspect_json(lk_scan *scan, const lk_lock_info *info)
{
	json_t *object = json_object();
	int there = info->holder_count || info->is_counter;
	if (bytes_set(object, "name", "name_hex", info->name, info->name_size) == 0 &&
	    value_set(object, "type", json_string(info->type)) == 0 &&
	    value_set(object, "looks_like",
		      info->looks_like ? text_json(info->looks_like) : json_null()) == 0 &&
	    value_set(object, "may_be_data", json_boolean(info->may_be_data)) == 0 &&
	    value_set(object, "locked", json_boolean(info->holder_count > 0)) == 0 &&
	    value_set(object, "holders", holders_json(scan, info)) == 0 &&
	    value_set(object, "waiters", waiters_json(scan, info)) == 0 &&
	    value_set(object, "ttl_ms", known(there, info->ttl_ms)) == 0 &&
	    value_set(object, "count", known(info->is_counter, info->count)) == 0 &&
	    value_set(object, "fence", known(info->fence > 0, (int64_t)info->fence)) == 0 &&
	    (!is_barrier(info) ||
	     value_set(object, "parties", known(info->parties > 0, info->parties)) == 0) &&
	    value_set(object, "waiting_clients", json_integer(info->waiting_clients)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

json_t *inspect_json_at(lk_scan *scan, const lk_lock_info *info, const char *node)
{
	json_t *object = inspect_json(scan, info);
	if (!object || !node || value_set(object, "node", text_json(node)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

json_t *silence_json(const char *node, const char *reason)
{
	return json_pack("{s:o, s:o}", "node", text_json(node), "error", text_json(reason));
}

#define JSON_STYLE (JSON_INDENT(2) | JSON_PRESERVE_ORDER)

/* Most locks fit into the buffer: json_dumpf() calls fwrite() for each of its many pieces. */
int inspect_json_write(const json_t *value)
{
	char text[4096];
	size_t size = json_dumpb(value, text, sizeof(text), JSON_STYLE);
	if (size == 0 || size > sizeof(text))
		return json_dumpf(value, stdout, JSON_STYLE);
	return fwrite(text, 1, size, stdout) == size ? 0 : -1;
}

int inspect_json_print(json_t *value)
{
	if (!value)
		return trouble("out of memory");
	int failed = inspect_json_write(value);
	json_decref(value);
	putchar('\n');
	int code = output_finish();
	return code || !failed ? code : trouble("cannot print the JSON");
}
