/* SPDX-License-Identifier: MIT */
/* lockkeeper ls: which locks there are, of which kind, and who holds them. */
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
	SEVERAL_ROW,
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

const struct option_row ls_options[] = {
	{OPTION_JSON, "json", NULL, "print JSON"},
	{OPTION_ALL, "all", NULL, "list what may be data, too"},
	SEVERAL_ROW,
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

/* The list that is asked for, and where. */
struct wanted {
	const char *pattern;
	int json, all;
};

static int ls_take(void *state, int id, const char *value)
{
	struct wanted *wanted = state;
	(void)value;
	*(id == OPTION_ALL ? &wanted->all : &wanted->json) = 1;
	return 0;
}

static int scan_begin(lk_scan **scan_out, lk_client *client, const struct wanted *wanted,
		      lk_error *error)
{
	int result = lk_scan_new(scan_out, client, wanted->pattern, error);
	if (result == 0 && wanted->all)
		lk_scan_all(*scan_out);
	return result;
}

/* One holder of one lock, or a counter: a line of the list. SCAN may show a lock twice, so they
 * are collected, sorted, and printed once. */
struct line {
	const char *type;
	char *name, *field, *client;
	const char *node; /* that says so; NULL where there is one only */
	size_t name_size, field_size, at;
	int64_t hold_count, ttl_ms;
};

struct list {
	const char *node; /* that is asked now, */
	size_t at;        /* and its place among them */
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
static char *client_text(lk_scan *scan, const lk_lock_info *info, const lk_holder *holder)
{
	char who[OWNER_TEXT_SIZE] = "-";
	if (holder)
		holder_text(scan, info, holder, who, sizeof(who));
	else if (info->looks_like)
		snprintf(who, sizeof(who), "looks like %s", info->looks_like);
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
		.client = client_text(scan, info, holder),
		.node = list->node,
		.at = list->at,
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

/* Only so many lines stay. */
static void list_cut(struct list *list, size_t count)
{
	while (list->count > count) {
		struct line *line = &list->lines[--list->count];
		free(line->name);
		free(line->field);
		free(line->client);
	}
}

static void list_free(struct list *list)
{
	list_cut(list, 0);
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
	if (order == 0)
		order = (a->at > b->at) - (a->at < b->at);
	return order ? order : bytes_compare(a->field, a->field_size, b->field, b->field_size);
}

static int list_read(struct list *list, lk_client *client, const struct wanted *wanted)
{
	lk_error error = {0};
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	size_t before = list->count;
	int failed = 0, result = scan_begin(&scan, client, wanted, &error);
	while (result == 0 && !failed && (result = lk_scan_next(scan, &info, &error)) == 1) {
		failed = list_append_all(list, scan, &info);
		result = 0;
	}
	lk_scan_free(scan);
	if (result == 0 && !failed)
		return 0;
	list_cut(list, before);
	return failed ? trouble("out of memory") : trouble_library(&error);
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
	if (line->node) {
		putchar('\t');
		escape_print(stdout, line->node, strlen(line->node));
	}
	putchar('\n');
}

static int list_print(const struct list *list)
{
	printf("NAME\tTYPE\tHOLDER\tHOLDS\tTTL_MS\tCLIENT%s\n", list->node ? "\tNODE" : "");
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || line_compare(&list->lines[i], &list->lines[i - 1]) != 0)
			line_print(&list->lines[i]);
	return output_finish();
}

/* Shows what the servers say that can be asked, if any can. */
static int list_show(const struct session *session, const struct wanted *wanted)
{
	struct list list = {.count = 0};
	size_t told = 0;
	int code = 0;
	for (; list.at < session->count; list.at++) {
		list.node = session_node(session, list.at);
		int failed = list_read(&list, session->clients[list.at], wanted);
		code = failed ? failed : code;
		told += failed == 0;
	}
	if (list.count > 0)
		qsort(list.lines, list.count, sizeof(*list.lines), line_compare);
	int unprinted = told ? list_print(&list) : 0;
	list_free(&list);
	return unprinted ? unprinted : code;
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

/* The array that is printed: each part with what stands before it. */
struct stream {
	const char *before;
	int failed; /* to print, or memory is out */
};

static void stream_add(struct stream *stream, json_t *value)
{
	stream->failed |= !value;
	if (value) {
		fputs(stream->before, stdout);
		stream->before = ",\n";
		stream->failed |= inspect_json_write(value);
	}
	json_decref(value);
}

/* Lock by lock as they are found: the names alone are kept. 0, or an exit code (said). */
static int stream_node(struct stream *stream, lk_client *client, const char *node,
		       const struct wanted *wanted)
{
	lk_error error = {0};
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	void *seen = NULL;
	int result = scan_begin(&scan, client, wanted, &error);
	while (result == 0 && !stream->failed &&
	       (result = lk_scan_next(scan, &info, &error)) == 1) {
		int is_new = name_add(&seen, &info);
		if (is_new)
			stream_add(stream, is_new == 1 ? inspect_json_at(scan, &info, node) : NULL);
		result = 0;
	}
	lk_scan_free(scan);
	tdestroy(seen, free);
	if (result == 0)
		return 0;
	if (node)
		stream_add(stream, silence_json(node, library_text(&error)));
	return trouble_library(&error);
}

/* Prints an array. Where the only server fails on the way, it stays without its end, so that no
 * reader takes it for the whole list; where one of several does, it says so. */
static int stream_json(const struct session *session, const struct wanted *wanted)
{
	struct stream stream = {.before = "[\n"};
	int code = 0;
	for (size_t i = 0; i < session->count && !stream.failed; i++) {
		int failed = stream_node(&stream, session->clients[i], session_node(session, i),
					 wanted);
		code = failed ? failed : code;
	}
	if (!stream.failed && (code == 0 || session->count > 1))
		puts(*stream.before == '[' ? "[]" : "\n]");
	int unprinted = output_finish();
	if (stream.failed && unprinted == 0)
		unprinted = trouble("cannot print the JSON");
	return unprinted ? unprinted : code;
}

int cmd_ls(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct wanted wanted = {.json = 0};
	int result = session_begin(&session, command, argc, argv, ls_take, &wanted, 0, 1);
	if (result)
		return -1 - result;
	int code = session_open(&session);
	wanted.pattern = session.argv[0];
	if (code == 0)
		code = (wanted.json ? stream_json : list_show)(&session, &wanted);
	if (code == 0)
		session_did(&session, "listed", wanted.pattern ? wanted.pattern : "all names");
	return session_end(&session, code);
}
