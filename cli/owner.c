/* SPDX-License-Identifier: MIT */
#include "owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "escape.h"

#define ANOTHER_CLIENT "another client"

void owner_time_text(int64_t ms, char text_out[OWNER_TIME_SIZE])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm local;
	if (!localtime_r(&seconds, &local) ||
	    strftime(text_out, OWNER_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0)
		snprintf(text_out, OWNER_TIME_SIZE, "?");
}

int owner_is_kept(const char *field, size_t field_size)
{
	static const char mark[] = ":kept:";
	return memmem(field, field_size, mark, sizeof(mark) - 1) != NULL;
}

void owner_info_text(const lk_owner_info *owner, const char *field, size_t field_size,
		     char *text_out, size_t size)
{
	char since[OWNER_TIME_SIZE];
	const char *kept = owner_is_kept(field, field_size) ? "kept by " : "";
	if (!owner) {
		snprintf(text_out, size, "%s" ANOTHER_CLIENT, kept);
		return;
	}
	owner_time_text(owner->since_ms, since);
	int used = snprintf(text_out, size, "%s%s%spid %" PRId64 " on %s", kept, owner->program,
			    *owner->program ? ", " : "", owner->pid, owner->host);
	if (used >= 0 && (size_t)used < size)
		snprintf(text_out + used, size - (size_t)used, "%s%s%s, since %s%s%s",
			 *owner->user ? " (user " : "", owner->user, *owner->user ? ")" : "", since,
			 *owner->note ? ", note: " : "", owner->note);
}

void owner_text(lk_scan *scan, const char *field, size_t field_size, char *text_out, size_t size)
{
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	int known = lk_scan_owner(scan, field, field_size, &owner, NULL) == 1;
	owner_info_text(known ? &owner : NULL, field, field_size, text_out, size);
}

void holder_text(lk_scan *scan, const lk_lock_info *info, const lk_holder *holder, char *text_out,
		 size_t size)
{
	owner_text(scan, holder->field, holder->field_size, text_out, size);
	size_t used = strlen(text_out);
	if (info->looks_like && strcmp(text_out, ANOTHER_CLIENT) == 0)
		snprintf(text_out + used, size - used, ", looks like %s", info->looks_like);
}

/* A text that may have any bytes; "?" where it is not UTF-8. */
static int text_set(json_t *object, const char *key, const char *text)
{
	json_t *value = utf8_is_valid(text, strlen(text)) ? json_string(text) : json_string("?");
	return value ? json_object_set_new(object, key, value) : -1;
}

static int number_set(json_t *object, const char *key, int64_t number)
{
	json_t *value = json_integer(number);
	return value ? json_object_set_new(object, key, value) : -1;
}

json_t *owner_info_json(const lk_owner_info *owner)
{
	if (!owner)
		return json_null();
	json_t *object = json_object();
	if (object && text_set(object, "id", owner->client_id) == 0 &&
	    text_set(object, "host", owner->host) == 0 &&
	    number_set(object, "pid", owner->pid) == 0 &&
	    number_set(object, "since_ms", owner->since_ms) == 0 &&
	    text_set(object, "user", owner->user) == 0 &&
	    text_set(object, "program", owner->program) == 0 &&
	    (!*owner->note || text_set(object, "note", owner->note) == 0))
		return object;
	json_decref(object);
	return NULL;
}

json_t *owner_json(lk_scan *scan, const char *field, size_t field_size)
{
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	int known = lk_scan_owner(scan, field, field_size, &owner, NULL) == 1;
	return owner_info_json(known ? &owner : NULL);
}
