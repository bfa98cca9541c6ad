/* SPDX-License-Identifier: MIT */
/* lockkeeper show: one lock, its kind, who holds it and who waits. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "kind.h"
#include "message.h"
#include "owner.h"
#include "session.h"
#include "views.h"

/* `since_ms`: 0: not known, or no time of a holder's own. */
static void holder_print(lk_scan *scan, const lk_holder *holder, int64_t since_ms)
{
	static const char *const roles[] = {
		[LK_HOLDER_OWNER] = "holder",  [LK_HOLDER_READER] = "reader",
		[LK_HOLDER_WRITER] = "writer", [LK_HOLDER_PERMIT] = "permit",
		[LK_HOLDER_WAITS] = "waits",   [LK_HOLDER_INSIDE] = "inside",
	};
	printf("%s: ", roles[holder->role]);
	char who[OWNER_TEXT_SIZE];
	escape_print(stdout, holder->field, holder->field_size);
	owner_text(scan, holder->field, holder->field_size, who, sizeof(who));
	fputs("\nclient: ", stdout);
	escape_print(stdout, who, strlen(who));
	if (holder->role < LK_HOLDER_PERMIT)
		printf("\nholds: %" PRId64, holder->hold_count);
	if (since_ms) {
		char since[OWNER_TIME_SIZE];
		owner_time_text(since_ms, since);
		printf("\nsince: %s", since);
	}
	if (holder->role == LK_HOLDER_READER || holder->role >= LK_HOLDER_PERMIT)
		printf("\nends in ms: %" PRId64, holder->ttl_ms);
	putchar('\n');
}

/* As `sem show`; of so many permits that not all are read, the least that it can be. */
static void permits_print(const lk_lock_info *info)
{
	int64_t used = (int64_t)info->holder_count;
	const char *least = used >= LK_INSPECT_MAX ? "at least " : "";
	if (strcmp(info->type, "permit semaphore") == 0)
		printf("permits: %s%" PRId64 ", %" PRId64 " free, %s%" PRId64 " in use\n", least,
		       info->count + used, info->count, least, used);
}

static void state_print(const lk_lock_info *info)
{
	size_t inside = 0;
	if (info->is_counter) {
		printf("count: %" PRId64 "\n", info->count);
		return;
	}
	if (!is_barrier(info)) {
		printf("state: %s\n", info->holder_count ? "locked" : "free");
		return;
	}
	for (size_t i = 0; i < info->holder_count; i++)
		inside += info->holders[i].role == LK_HOLDER_INSIDE;
	printf("state: %zu waiting, %zu inside\n", info->holder_count - inside, inside);
	if (info->parties)
		printf("parties: %" PRId64 "\n", info->parties);
}

static void info_print(lk_scan *scan, const lk_lock_info *info)
{
	fputs("name: ", stdout);
	escape_print(stdout, info->name, info->name_size);
	printf("\ntype: %s\n", info->type);
	if (info->looks_like) {
		fputs("looks like ", stdout);
		escape_print(stdout, info->looks_like, strlen(info->looks_like));
		putchar('\n');
	}
	if (info->may_be_data)
		puts("it may be data, and no lock");
	state_print(info);
	permits_print(info);
	for (size_t i = 0; i < info->holder_count; i++)
		holder_print(scan, &info->holders[i], info->since_ms ? info->since_ms[i] : 0);
	if (info->fence)
		printf("newest %s: %" PRIu64 "\n", is_barrier(info) ? "generation" : "token",
		       info->fence);
	if (!is_barrier(info) && (info->holder_count || info->is_counter))
		printf("ttl_ms: %" PRId64 "\n", info->ttl_ms);
	for (size_t i = 0; i < info->waiter_count; i++) {
		printf(is_barrier(info) ? "has left %zu: " : "waiter %zu: ", i + 1);
		char who[OWNER_TEXT_SIZE];
		escape_print(stdout, info->waiters[i].field, info->waiters[i].field_size);
		owner_text(scan, info->waiters[i].field, info->waiters[i].field_size, who,
			   sizeof(who));
		fputs(", ", stdout);
		escape_print(stdout, who, strlen(who));
		putchar('\n');
	}
	printf("waiting clients: %" PRId64 "\n", info->waiting_clients);
}

/* A part for each server that can be asked, headed by its name if there are several. */
static int views_print(const struct views *views, const struct session *session)
{
	const char *before = "";
	for (size_t i = 0; i < views->count; i++) {
		const struct view *view = &views->of[i];
		const char *node = session_node(session, i);
		if (view->code)
			continue;
		fputs(before, stdout);
		before = "\n";
		if (node) {
			fputs("node: ", stdout);
			escape_print(stdout, node, strlen(node));
			putchar('\n');
		}
		info_print(view->scan, &view->info);
	}
	return output_finish();
}

/* An object; of several servers an array. */
static int views_print_json(const struct views *views, const struct session *session)
{
	int failed = 0;
	if (views->count == 1 && views->of[0].code)
		return 0;
	if (views->count == 1)
		return inspect_json_print(inspect_json(views->of[0].scan, &views->of[0].info));
	json_t *array = json_array();
	for (size_t i = 0; i < views->count; i++) {
		const struct view *view = &views->of[i];
		const char *node = session_node(session, i);
		failed |= json_array_append_new(
			array, view->code ? silence_json(node, library_text(&view->error))
					  : inspect_json_at(view->scan, &view->info, node));
	}
	if (!failed)
		return inspect_json_print(array);
	json_decref(array);
	return trouble("out of memory");
}

int cmd_show(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct views views = {.count = 0};
	int json = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &json, 1, 1);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = *name ? session_open(&session) : trouble("NAME is empty");
	if (code == 0) {
		views_ask(&views, &session, name);
		views_say(&views);
		if (views.silent < views.count)
			session_did(&session, "looked at", name);
		code = (json ? views_print_json : views_print)(&views, &session);
		code = code ? code : views_tell(&views, name);
	}
	views_free(&views);
	return session_end(&session, code);
}
