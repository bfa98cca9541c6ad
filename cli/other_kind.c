/* SPDX-License-Identifier: MIT */
#include "other_kind.h"

#include <string.h>

#include "message.h"
#include "options.h"

/* Kinds with the same data, which one call takes for another's hold. */
enum family { COUNTER, REENTRANT, SIDES, PLAIN, BARRIER };

static enum family family_of(const struct lock_kind *kind)
{
	if (!kind)
		return COUNTER;
	if (kind == &kind_barrier)
		return BARRIER;
	if (kind->option == OPTION_SHARED || kind->option == OPTION_EXCLUSIVE)
		return SIDES;
	return kind->option == OPTION_PLAIN ? PLAIN : REENTRANT;
}

static void lock_say(const char *name, const lk_lock_info *info, enum family family)
{
	static const char *const takes[] = {
		[REENTRANT] = "run without an option for the kind",
		[SIDES] = "run --shared or --exclusive",
		[PLAIN] = "run --plain",
	};
	message("%s is a %s: %s takes it, its last release removes it, and lockkeeper break frees "
		"it now",
		name, info->type, takes[family]);
}

static void counter_say(const char *name, const lk_lock_info *info)
{
	int latch = strcmp(info->type, "latch") == 0;
	message("%s is a %s, now at %lld: lockkeeper %s delete removes it", name, info->type,
		(long long)info->count, latch ? "latch" : "sem");
}

int other_kind_say(lk_client *client, const char *name, const struct lock_kind *wanted)
{
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_error error = {0};
	int said = 0;
	if (lk_scan_new(&scan, client, NULL, &error))
		return 0;
	int result = lk_scan_show(scan, name, strlen(name), &info, &error);
	if (result == LK_EWRONGTYPE) {
		message("%s: use another name, or remove the key with the server's DEL",
			library_text(&error));
		said = 1;
	} else if (result == 0 && (info.holder_count > 0 || info.is_counter)) {
		const struct lock_kind *kind = is_barrier(&info) ? &kind_barrier : kind_of(&info);
		enum family family = family_of(kind);
		said = family != family_of(wanted);
		if (said && family == BARRIER)
			message("%s is a barrier, at which others stand", name);
		else if (said && family == COUNTER)
			counter_say(name, &info);
		else if (said)
			lock_say(name, &info, family);
	}
	lk_scan_free(scan);
	return said;
}

int trouble_name(lk_client *client, const char *name, const struct lock_kind *wanted,
		 const lk_error *error)
{
	int code = trouble_library(error);
	if (error->code == LK_EWRONGTYPE)
		other_kind_say(client, name, wanted);
	return code;
}
