/* SPDX-License-Identifier: MIT */
#include "kind.h"

#include <string.h>

#include <lockkeeper.h>

#include "exit_code.h"
#include "message.h"
#include "options.h"

static int make_fenced(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
		       lk_error *error)
{
	return lk_fenced_lock_new(lock_out, client, name, size, NULL, error);
}

static const lk_read_write_options prefer_writers = {sizeof(prefer_writers), 1};

static int make_shared(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
		       lk_error *error)
{
	return lk_read_lock_new(lock_out, client, name, size, &prefer_writers, error);
}

static int make_exclusive(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
			  lk_error *error)
{
	return lk_write_lock_new(lock_out, client, name, size, &prefer_writers, error);
}

static int make_shared_alike(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
			     lk_error *error)
{
	return lk_read_lock_new(lock_out, client, name, size, NULL, error);
}

static int make_exclusive_alike(lk_lock **lock_out, lk_client *client, const void *name,
				size_t size, lk_error *error)
{
	return lk_write_lock_new(lock_out, client, name, size, NULL, error);
}

static int64_t poll_ms;          /* --poll; 0: the library's */
static const char *plain_notify; /* --notify */

static int make_plain(lk_lock **lock_out, lk_client *client, const void *name, size_t size,
		      lk_error *error)
{
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	options.poll_ms = poll_ms;
	options.notify = plain_notify;
	return lk_plain_lock_new(lock_out, client, name, size, &options, error);
}

int64_t *kind_poll_ms(void)
{
	return &poll_ms;
}

int kind_polls_in_vain(const struct lock_kind *kind, int several)
{
	return poll_ms && (kind->option != OPTION_PLAIN || several);
}

const struct lock_kind kind_default = {0, "", lk_lock_new};
const struct lock_kind kind_barrier = {0, "barrier", NULL};

static const struct lock_kind kinds[] = {
	{OPTION_FAIR, "fair", lk_fair_lock_new}, {OPTION_FENCE, "fence", make_fenced},
	{OPTION_SHARED, "shared", make_shared},  {OPTION_EXCLUSIVE, "exclusive", make_exclusive},
	{OPTION_PLAIN, "plain", make_plain},
};

const struct lock_kind *kind_without_preference(const struct lock_kind *kind)
{
	static const struct lock_kind alike[] = {
		{OPTION_SHARED, "shared", make_shared_alike},
		{OPTION_EXCLUSIVE, "exclusive", make_exclusive_alike},
	};
	for (size_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++)
		if (alike[i].option == kind->option)
			return &alike[i];
	return kind;
}

int kind_take(const struct lock_kind **kind, int option)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].option != option)
			continue;
		if (*kind != &kind_default && *kind != &kinds[i])
			return -trouble("--%s and --%s exclude each other", (*kind)->name,
					kinds[i].name);
		*kind = &kinds[i];
		return 1;
	}
	return 0;
}

static const struct lock_kind *kind_by_option(int option)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].option == option)
			return &kinds[i];
	return &kind_default;
}

void kind_notify(const char *notify)
{
	plain_notify = notify;
}

int kind_notifies(void)
{
	return plain_notify != NULL;
}

int kind_notifies_in_vain(const struct lock_kind *kind)
{
	return plain_notify && kind->option != OPTION_PLAIN;
}

const struct lock_kind *kind_of(const lk_lock_info *info)
{
	if (info->is_counter || is_barrier(info) ||
	    strncmp(info->type, "foreign", strlen("foreign")) == 0)
		return NULL;
	if (strcmp(info->type, "fair lock") == 0)
		return kind_by_option(OPTION_FAIR);
	if (strcmp(info->type, "plain lock") == 0)
		return kind_by_option(OPTION_PLAIN);
	if (strcmp(info->type, "read/write lock") != 0)
		return &kind_default;
	for (size_t i = 0; i < info->holder_count; i++)
		if (info->holders[i].role == LK_HOLDER_WRITER)
			return kind_by_option(OPTION_EXCLUSIVE);
	return kind_by_option(OPTION_SHARED);
}

/* ---- a name that something else has (LK_EWRONGTYPE) ---- */

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
