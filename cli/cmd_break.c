/* SPDX-License-Identifier: MIT */
/* lockkeeper break: frees a lock whoever holds it, after a question. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "breaking.h"
#include "clock.h"
#include "commands.h"
#include "escape.h"
#include "exit_code.h"
#include "kind.h"
#include "message.h"
#include "session.h"
#include "views.h"

#define FOREIGN_LOCK "foreign lock"

const struct option_row break_options[] = {
	{OPTION_YES, "yes", NULL, "do not ask; required without a terminal"},
	{OPTION_NOTIFY, "notify", "WHOM",
	 "(plain) wake this library's waiters too, though its lock was ours"},
	SEVERAL_ROW,
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

static int break_take(void *yes, int id, const char *value)
{
	if (id != OPTION_NOTIFY)
		return take_flag(yes, id, value);
	kind_notify(value);
	return 0;
}

/* Prints what would be deleted of a key that is not, or may not be, a lock of ours. */
static void deletion_print(const char *name, const lk_lock_info *info)
{
	if (!info->may_be_data && strcmp(info->type, FOREIGN_LOCK) != 0)
		return;
	fputs("It deletes the key ", stderr);
	escape_print(stderr, name, strlen(name));
	fprintf(stderr, ", %s",
		strcmp(info->type, FOREIGN_LOCK) == 0 ? "or the one field of it that is a lock"
						      : "a string");
	if (info->ttl_ms < 0)
		fputs(" without a time to live", stderr);
	if (info->may_be_data)
		fputs(", which may be data", stderr);
	if (info->looks_like) {
		fputs("; it looks like ", stderr);
		escape_print(stderr, info->looks_like, strlen(info->looks_like));
	}
	fputs(".\n", stderr);
}

/* Prints it for each of the servers that have it. */
static void deletions_print(const struct session *session, const struct views *views)
{
	for (size_t i = 0; i < views->count; i++)
		if (views->of[i].code == 0 && views->of[i].info.holder_count > 0)
			deletion_print(session->argv[0], &views->of[i].info);
}

static void question_print(const struct session *session, const struct views *views)
{
	const char *before = is_barrier(&views->of[0].info) ? " is a barrier, with "
							    : " is held by ";
	escape_print(stderr, session->argv[0], strlen(session->argv[0]));
	for (size_t at = 0; at < views->count; at++) {
		const lk_lock_info *info = &views->of[at].info;
		const char *node = session_node(session, at);
		for (size_t i = 0; i < info->holder_count; i++) {
			fputs(before, stderr);
			before = ", ";
			escape_print(stderr, info->holders[i].field, info->holders[i].field_size);
			fputs(node ? " at " : "", stderr);
			escape_print(stderr, node ? node : "", node ? strlen(node) : 0);
		}
	}
	fputs(is_barrier(&views->of[0].info)
		      ? ". Those inside continue until they notice. Break it? [y/N] "
		      : ". Its holder continues until it notices. Break it? [y/N] ",
	      stderr);
}

/* 0 when the user agrees (or there is nothing to break), else an exit code. */
static int ask(const struct session *session, const struct views *views)
{
	char answer[16] = "";
	if (!isatty(STDIN_FILENO))
		return trouble("break: stdin is not a terminal, so it cannot ask; use --yes");
	views_say(views);
	if (views->held == 0)
		return 0;
	question_print(session, views);
	if (!fgets(answer, sizeof(answer), stdin))
		fputc('\n', stderr);
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0 ? 0
									  : trouble("not broken");
}

/* Tells whether there is anything: a name that was free when it was looked at has no kind to
 * break. */
static int is_there(const lk_lock_info *info)
{
	return info->holder_count > 0 || info->waiter_count > 0 || info->is_counter;
}

/* Tells whether it is freed by what it is found to be, and not as a kind of lock: a string of
 * another library as that library does, unless --notify says otherwise. */
static int is_freed_as_found(const lk_lock_info *info)
{
	const struct lock_kind *kind = kind_of(info);
	return is_barrier(info) || strcmp(info->type, FOREIGN_LOCK) == 0 ||
	       (kind && kind->option == OPTION_PLAIN && info->looks_like && !kind_notifies());
}

static int found_break(lk_client *client, const char *name, size_t name_size, lk_error *error)
{
	lk_scan *scan = NULL;
	int result = lk_scan_new(&scan, client, NULL, error);
	if (result == 0)
		result = lk_scan_force_release(scan, name, name_size, error);
	lk_scan_free(scan);
	return result;
}

int lock_break(lk_client *client, const char *name, size_t name_size, const lk_lock_info *info,
	       lk_error *error)
{
	lk_lock *lock = NULL;
	const struct lock_kind *kind = kind_of(info);
	if (!is_there(info))
		return 0;
	if (is_freed_as_found(info)) {
		int freed = found_break(client, name, name_size, error);
		if (!kind || freed != LK_EINVAL) /* else it is another kind by now */
			return freed;
	}
	if (!kind) {
		error->code = LK_EINVAL;
		snprintf(error->message, sizeof(error->message),
			 "break: %.200s is a %s, which nobody holds as a whole", name, info->type);
		return LK_EINVAL;
	}
	int result = kind->make(&lock, client, name, name_size, error);
	if (result == 0)
		result = lk_lock_force_release(lock, error);
	lk_lock_free(lock);
	return result;
}

static int break_and_say(const struct session *session, const lk_lock_info *info)
{
	lk_error error = {0};
	const char *name = session->argv[0];
	int result = lock_break(session->client, name, strlen(name), info, &error);
	if (result < 0) {
		int code = trouble_library(&error);
		if (result == LK_EINVAL && info->is_counter)
			other_kind_say(session->client, name, &kind_default);
		return code;
	}
	if (result == 0)
		message(is_barrier(info) ? "nobody stood at %s" : "%s was not locked", name);
	else
		session_did(session, "broke", name);
	return 0;
}

/* ---- a quorum ---- */

/* The only kind that the servers show, of those that a quorum has: hashes or strings. 0, or
 * EXIT_TROUBLE (said). */
static int kind_settle(const struct session *session, const struct views *views, int *plain_out)
{
	const struct lock_kind *common = NULL;
	const char *name = session->argv[0];
	for (size_t i = 0; i < views->count; i++) {
		const lk_lock_info *info = &views->of[i].info;
		const char *node = session_node(session, i);
		if (views->of[i].code || (info->holder_count == 0 && !info->is_counter))
			continue;
		const struct lock_kind *kind = kind_of(info);
		if (!kind || (kind->option && kind->option != OPTION_PLAIN))
			return trouble("break: %s is a %s at %s, which is on no quorum: name its "
				       "server with --url",
				       name, info->type, node);
		if (common && kind != common)
			return trouble("break: %s is a %s at %s, and of another kind elsewhere: "
				       "name each server with --url",
				       name, info->type, node);
		common = kind;
	}
	*plain_out = common && common->option == OPTION_PLAIN;
	return 0;
}

/* Tells whether who had it there has it still. */
static int is_same(const struct view *before, const struct view *after)
{
	const lk_holder *was = before->info.holders, *is = after->info.holders;
	return after->info.holder_count > 0 && was->field_size == is->field_size &&
	       memcmp(was->field, is->field, was->field_size) == 0;
}

/* Looks again at the servers that had it, and says where it is free now. 0, or EXIT_TROUBLE
 * (said): it may not be everywhere. */
static int tell_where(const struct session *session, const struct views *before)
{
	const char *name = session->argv[0];
	struct views after;
	int code = 0;
	views_ask(&after, session, name);
	views_say(&after);
	for (size_t i = 0; i < after.count; i++) {
		const char *node = session_node(session, i);
		if (after.of[i].code)
			code = trouble("%s may still be held at %s", name, node);
		else if (before->of[i].code || before->of[i].info.holder_count == 0)
			continue;
		else if (is_same(&before->of[i], &after.of[i]))
			code = trouble("%s is still held at %s", name, node);
		else
			message("%s was freed at %s", name, node);
	}
	views_free(&after);
	return code;
}

/* Tells whether all servers answer, and none has it. */
static int is_nowhere(const struct views *views)
{
	int there = views->silent > 0;
	for (size_t i = 0; i < views->count; i++)
		there |= views->of[i].code == 0 && is_there(&views->of[i].info);
	return !there;
}

/* As a red lock, whoever holds it, on all servers that answer. */
static int break_quorum(const struct session *session, const struct views *views)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	lk_error error = {0};
	lk_lock *lock = NULL;
	const char *name = session->argv[0];
	int code = kind_settle(session, views, &options.plain);
	if (code)
		return code;
	if (is_nowhere(views)) {
		message("%s was not locked", name);
		return 0;
	}
	int result = lk_red_lock_new(&lock, session->clients, session->count, name, strlen(name),
				     &options, &error);
	if (result == 0)
		result = lk_lock_force_release(lock, &error);
	lk_lock_free(lock);
	if (result < 0)
		code = trouble_library(&error);
	else if (result == 0)
		message("%s was not locked", name);
	else
		session_did(session, "broke", name);
	int left = tell_where(session, views);
	return code ? code : left;
}

/* Reads --notify: what is wrong with it is told even where nothing is to be freed. 0, or an exit
 * code (said). */
static int notify_read(const struct session *session)
{
	const struct lock_kind *plain = &kind_default;
	const char *name = session->argv[0];
	lk_lock *lock = NULL;
	lk_error error = {0};
	kind_take(&plain, OPTION_PLAIN);
	int result = plain->make(&lock, session->client, name, strlen(name), &error);
	lk_lock_free(lock);
	return result < 0 ? trouble_library(&error) : 0;
}

/* 0, or an exit code (said). */
static int notify_check(const struct session *session, const struct views *views)
{
	const lk_lock_info *info = &views->of[0].info;
	if (!kind_notifies())
		return 0;
	if (views->count > 1)
		return trouble("break: --notify is for one server");
	if (!is_there(info))
		return notify_read(session);
	const struct lock_kind *kind = kind_of(info);
	return kind && kind->option == OPTION_PLAIN
		       ? 0
		       : trouble("break: --notify is for plain locks, and %s is a %s",
				 session->argv[0], info->type);
}

int cmd_break(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct views views = {.count = 0};
	int yes = 0;
	int result = session_begin(&session, command, argc, argv, break_take, &yes, 1, 1);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = *name ? session_open(&session) : trouble("NAME is empty");
	if (code == 0)
		views_ask(&views, &session, name);
	if (code == 0 && views.count == 1)
		code = views_say(&views);
	if (code == 0)
		code = notify_check(&session, &views);
	if (code == 0)
		deletions_print(&session, &views);
	if (code == 0 && !yes)
		code = ask(&session, &views);
	session.opened_ns = clock_now_ns(); /* who was asked has taken their time */
	if (code == 0)
		code = views.count > 1 ? break_quorum(&session, &views)
				       : break_and_say(&session, &views.of[0].info);
	views_free(&views);
	return session_end(&session, code);
}
