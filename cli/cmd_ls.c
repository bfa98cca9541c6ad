/* SPDX-License-Identifier: MIT */
/* lockkeeper ls and show: which locks there are, of which kind, who holds them and who waits. */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "escape.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "message.h"
#include "owner.h"
#include "session.h"

const struct option_row json_options[] = {
	{OPTION_JSON, "json", NULL, "print JSON"},
	{0, NULL, NULL, NULL},
};

/* One holder of one lock, or a counter: a line of the list. SCAN may show a lock twice, so they
 * are collected, sorted, and printed once. */
struct line {
	const char *type;
	char *name, *field, *client;
	size_t name_size, field_size;
	int64_t hold_count, ttl_ms;
};

struct list {
	struct line *lines;
	size_t count, room;
};

static void *bytes_copy(const void *bytes, size_t size)
{
	char *copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, bytes, size);
		copy[size] = '\0';
	}
	return copy;
}

/* Who the holder is, "-" where nobody tells. To be freed; NULL when out of memory. */
static char *client_text(lk_scan *scan, const lk_holder *holder)
{
	char who[OWNER_TEXT_SIZE] = "-";
	if (holder)
		owner_text(scan, holder->field, holder->field_size, who, sizeof(who));
	return strdup(who);
}

/* `holder` is NULL for the line of a counter: what is free, or left of it. */
static int list_append(struct list *list, lk_scan *scan, const lk_lock_info *info,
		       const lk_holder *holder)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 64;
		struct line *lines = realloc(list->lines, room * sizeof(*lines));
		if (!lines)
			return -1;
		list->lines = lines;
		list->room = room;
	}
	struct line *line = &list->lines[list->count++];
	*line = (struct line){
		.type = info->type,
		.name = bytes_copy(info->name, info->name_size),
		.field = holder ? bytes_copy(holder->field, holder->field_size) : bytes_copy("", 0),
		.client = client_text(scan, holder),
		.name_size = info->name_size,
		.field_size = holder ? holder->field_size : 0,
		.hold_count = holder ? holder->hold_count : info->count,
		.ttl_ms = holder ? holder->ttl_ms : info->ttl_ms,
	};
	return line->name && line->field && line->client ? 0 : -1;
}

static int list_append_all(struct list *list, lk_scan *scan, const lk_lock_info *info)
{
	if (info->is_counter && list_append(list, scan, info, NULL))
		return -1;
	for (size_t i = 0; i < info->holder_count; i++)
		if (list_append(list, scan, info, &info->holders[i]))
			return -1;
	return 0;
}

static void list_free(struct list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->lines[i].name);
		free(list->lines[i].field);
		free(list->lines[i].client);
	}
	free(list->lines);
}

static int bytes_compare(const char *left, size_t left_size, const char *right, size_t right_size)
{
	int order = memcmp(left, right, left_size < right_size ? left_size : right_size);
	return order ? order : (left_size > right_size) - (left_size < right_size);
}

static int line_compare(const void *left, const void *right)
{
	const struct line *a = left, *b = right;
	int order = bytes_compare(a->name, a->name_size, b->name, b->name_size);
	return order ? order : bytes_compare(a->field, a->field_size, b->field, b->field_size);
}

static int list_read(struct list *list, lk_client *client, const char *pattern)
{
	lk_error error = {0};
	lk_lock_info info;
	lk_scan *scan = NULL;
	int failed = 0, result = lk_scan_new(&scan, client, pattern, &error);
	while (result == 0 && !failed && (result = lk_scan_next(scan, &info, &error)) == 1) {
		failed = list_append_all(list, scan, &info);
		result = 0;
	}
	lk_scan_free(scan);
	if (result < 0)
		return trouble_library(&error);
	return failed ? trouble("out of memory") : 0;
}

static void line_print(const struct line *line)
{
	escape_print(stdout, line->name, line->name_size);
	printf("\t%s\t", line->type);
	if (line->field_size)
		escape_print(stdout, line->field, line->field_size);
	else
		putchar('-');
	printf("\t%" PRId64 "\t%" PRId64 "\t", line->hold_count, line->ttl_ms);
	escape_print(stdout, line->client, strlen(line->client));
	putchar('\n');
}

static int list_print(const struct list *list)
{
	puts("NAME\tTYPE\tHOLDER\tHOLDS\tTTL_MS\tCLIENT");
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || line_compare(&list->lines[i], &list->lines[i - 1]) != 0)
			line_print(&list->lines[i]);
	return output_finish();
}

static int list_show(lk_client *client, const char *pattern)
{
	struct list list = {NULL, 0, 0};
	int code = list_read(&list, client, pattern);
	if (code == 0) {
		if (list.count > 0)
			qsort(list.lines, list.count, sizeof(*list.lines), line_compare);
		code = list_print(&list);
	}
	list_free(&list);
	return code;
}

/* A name that was printed. */
struct name {
	size_t size;
	char bytes[];
};

static int name_compare(const void *left, const void *right)
{
	const struct name *a = left, *b = right;
	return bytes_compare(a->bytes, a->size, b->bytes, b->size);
}

/* 1 when the name is new, 0 when it was seen, -1 when out of memory. `*seen` is of tsearch(3). */
static int name_add(void **seen, const lk_lock_info *info)
{
	struct name *name = malloc(sizeof(*name) + info->name_size);
	if (!name)
		return -1;
	name->size = info->name_size;
	memcpy(name->bytes, info->name, info->name_size);
	struct name **found = tsearch(name, seen, name_compare);
	int is_new = found ? *found == name : -1;
	if (is_new != 1)
		free(name);
	return is_new;
}

/* Prints an array, lock by lock as they are found: the names alone are kept. What fails on the way
 * stays without its end, so that no reader takes it for the whole list. */
static int stream_json(lk_client *client, const char *pattern)
{
	lk_error error = {0};
	lk_lock_info info;
	lk_scan *scan = NULL;
	void *seen = NULL;
	const char *before = "[\n";
	int failed = 0, result = lk_scan_new(&scan, client, pattern, &error);
	while (result == 0 && !failed && (result = lk_scan_next(scan, &info, &error)) == 1) {
		int is_new = name_add(&seen, &info);
		json_t *lock = is_new == 1 ? inspect_json(scan, &info) : NULL;
		failed = is_new < 0 || (is_new && !lock);
		if (lock) {
			fputs(before, stdout);
			before = ",\n";
			failed = inspect_json_write(lock);
		}
		json_decref(lock);
		result = 0;
	}
	lk_scan_free(scan);
	tdestroy(seen, free);
	if (result == 0 && !failed)
		puts(*before == '[' ? "[]" : "\n]");
	int code = result < 0 ? trouble_library(&error) : output_finish();
	return code || !failed ? code : trouble("cannot print the JSON");
}

int cmd_ls(const struct command *command, int argc, char **argv)
{
	struct session session;
	int json = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &json, 0, 1);
	if (result)
		return -1 - result;
	int code = session_open(&session);
	if (code == 0)
		code = json ? stream_json(session.client, session.argv[0])
			    : list_show(session.client, session.argv[0]);
	return session_end(&session, code);
}

static void holder_print(lk_scan *scan, const lk_holder *holder)
{
	static const char *const roles[] = {
		[LK_HOLDER_OWNER] = "holder",
		[LK_HOLDER_READER] = "reader",
		[LK_HOLDER_WRITER] = "writer",
		[LK_HOLDER_PERMIT] = "permit",
	};
	printf("%s: ", roles[holder->role]);
	char who[OWNER_TEXT_SIZE];
	escape_print(stdout, holder->field, holder->field_size);
	owner_text(scan, holder->field, holder->field_size, who, sizeof(who));
	fputs("\nclient: ", stdout);
	escape_print(stdout, who, strlen(who));
	if (holder->role != LK_HOLDER_PERMIT)
		printf("\nholds: %" PRId64, holder->hold_count);
	if (holder->role == LK_HOLDER_READER || holder->role == LK_HOLDER_PERMIT)
		printf("\nends in ms: %" PRId64, holder->ttl_ms);
	putchar('\n');
}

static int info_print(lk_scan *scan, const lk_lock_info *info)
{
	fputs("name: ", stdout);
	escape_print(stdout, info->name, info->name_size);
	printf("\ntype: %s\n", info->type);
	if (info->is_counter)
		printf("count: %" PRId64 "\n", info->count);
	else
		printf("state: %s\n", info->holder_count ? "locked" : "free");
	for (size_t i = 0; i < info->holder_count; i++)
		holder_print(scan, &info->holders[i]);
	if (info->fence)
		printf("newest token: %" PRIu64 "\n", info->fence);
	if (info->holder_count || info->is_counter)
		printf("ttl_ms: %" PRId64 "\n", info->ttl_ms);
	for (size_t i = 0; i < info->waiter_count; i++) {
		printf("waiter %zu: ", i + 1);
		char who[OWNER_TEXT_SIZE];
		escape_print(stdout, info->waiters[i].field, info->waiters[i].field_size);
		owner_text(scan, info->waiters[i].field, info->waiters[i].field_size, who,
			   sizeof(who));
		fputs(", ", stdout);
		escape_print(stdout, who, strlen(who));
		putchar('\n');
	}
	printf("waiting clients: %" PRId64 "\n", info->waiting_clients);
	return output_finish();
}

int cmd_show(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_error error = {0};
	lk_lock_info info = {0};
	lk_scan *scan = NULL;
	int json = 0;
	int result = session_begin(&session, command, argc, argv, take_flag, &json, 1, 1);
	if (result)
		return -1 - result;
	const char *name = session.argv[0];
	int code = *name ? session_open(&session) : trouble("NAME is empty");
	if (code == 0 && (lk_scan_new(&scan, session.client, NULL, &error) ||
			  lk_scan_show(scan, name, strlen(name), &info, &error)))
		code = trouble_library(&error);
	else if (code == 0)
		code = json ? inspect_json_print(inspect_json(scan, &info))
			    : info_print(scan, &info);
	if (code == 0 && scan && info.holder_count == 0 && !info.is_counter)
		code = EXIT_FREE;
	lk_scan_free(scan);
	return session_end(&session, code);
}
