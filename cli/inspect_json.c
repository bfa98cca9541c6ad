#include "inspect_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "escape.h"
#include "message.h"

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

static int bytes_set(json_t *object, const char *key, const char *key_hex, const void *bytes,
		     size_t size)
{
	if (utf8_is_valid(bytes, size))
		return json_object_set_new(object, key, json_stringn(bytes, size));
	return json_object_set_new(object, key_hex, hex_new(bytes, size));
}

static json_t *holder_json(const lk_holder *holder)
{
	json_t *object = json_object();
	if (bytes_set(object, "owner", "owner_hex", holder->field, holder->field_size) == 0 &&
	    json_object_set_new(object, "hold_count", json_integer(holder->hold_count)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *holders_json(const lk_lock_info *info)
{
	json_t *array = json_array();
	for (size_t i = 0; i < info->holder_count; i++) {
		if (json_array_append_new(array, holder_json(&info->holders[i]))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

json_t *inspect_json(const lk_lock_info *info)
{
	json_t *object = json_object();
	json_t *ttl = info->holder_count ? json_integer(info->ttl_ms) : json_null();
	if (bytes_set(object, "name", "name_hex", info->name, info->name_size) == 0 &&
	    json_object_set_new(object, "type", json_string(info->type)) == 0 &&
	    json_object_set_new(object, "locked", json_boolean(info->holder_count > 0)) == 0 &&
	    json_object_set_new(object, "holders", holders_json(info)) == 0 &&
	    json_object_set(object, "ttl_ms", ttl) == 0 &&
	    json_object_set_new(object, "waiting_clients", json_integer(info->waiting_clients)) ==
		    0) {
		json_decref(ttl);
		return object;
	}
	json_decref(ttl);
	json_decref(object);
	return NULL;
}

int inspect_json_print(json_t *value)
{
	if (!value)
		return trouble("out of memory");
	int failed = json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	json_decref(value);
	putchar('\n');
	int code = output_finish();
	return code || !failed ? code : trouble("cannot print the JSON");
}
