/* SPDX-License-Identifier: MIT */
/* lockkeeper top: a live view of the locks of one server. */
#include <curses.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "breaking.h"
#include "clock.h"
#include "commands.h"
#include "exit_code.h"
#include "message.h"
#include "session.h"
#include "signals.h"
#include "top_screen.h"

#define ROWS_MOST 2000
#define LOOK_LIMIT_MS 1000
#define DELAY_DEFAULT_MS 2000
#define DELAY_MIN_MS 100
#define DELAY_MAX_MS 3600000

const struct option_row top_options[] = {
	{'d', "delay", "DELAY", "time between two looks (default 2)"},
	{0, NULL, NULL, NULL},
};

struct top {
	lk_client *client;
	const char *pattern;
	int64_t delay_ms;
	struct lock_rows rows;
	struct top_view view;
	const struct lock_row *selected;
	int over;
};

static int top_take(void *context, int id, const char *value)
{
	struct top *top = context;
	(void)id;
	return option_duration("-d", value, DELAY_MIN_MS, DELAY_MAX_MS, &top->delay_ms);
}

static void top_notice(struct top *top, const char *what, const char *name)
{
	snprintf(top->view.notice, sizeof(top->view.notice), "%s%.150s", what, name);
}

/* Reads the locks; a failure stays on the screen, and the next look may succeed. */
static void top_look(struct top *top)
{
	lk_error error = {0};
	const struct look look = {top->pattern, ROWS_MOST, ROWS_MOST, LOOK_LIMIT_MS};
	if (lock_rows_read(&top->rows, top->client, &look, &error) < 0)
		top_notice(top, "", library_text(&error));
	lock_rows_sort(&top->rows, top->view.order);
}

/* Asks, and breaks what is selected; what it is was looked at anew, for a moment has passed. */
static void top_break(struct top *top)
{
	char name[sizeof(top->view.notice)];
	lk_error error = {0};
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	if (!top->selected)
		return;
	const struct lock_row *row = top->selected;
	snprintf(name, sizeof(name), "%.150s", row->name);
	top_notice(top, "Its holder continues until it notices. Break it? [y/N] ", name);
	top_screen_draw(&top->rows, &top->view);
	if (top_screen_key(-1) != 'y') {
		top_notice(top, "not broken: ", name);
		return;
	}
	int result = lk_scan_new(&scan, top->client, NULL, &error);
	if (result == 0)
		result = lk_scan_show(scan, row->name, row->name_size, &info, &error);
	if (result == 0)
		result = lock_break(top->client, row->name, row->name_size, &info, &error);
	lk_scan_free(scan);
	if (result < 0)
		top_notice(top, "", library_text(&error));
	else
		top_notice(top, result ? "broken: " : "was not locked: ", name);
}

static void filter_key(struct top_view *view, int key)
{
	size_t size = strlen(view->filter);
	if (key == '\n' || key == KEY_ENTER || key == 27) {
		view->typing = 0;
	} else if (key == KEY_BACKSPACE || key == 127 || key == 8) {
		if (size > 0)
			view->filter[size - 1] = '\0';
	} else if (key >= ' ' && key < 127 && size + 1 < sizeof(view->filter)) {
		view->filter[size] = (char)key;
		view->filter[size + 1] = '\0';
	}
}

static void top_key(struct top *top, int key)
{
	struct top_view *view = &top->view;
	if (view->typing) {
		filter_key(view, key);
		return;
	}
	view->notice[0] = '\0';
	switch (key) {
	case 'q':
		top->over = 1;
		break;
	case 's':
		view->order = (view->order + 1) % ROW_ORDERS;
		lock_rows_sort(&top->rows, view->order);
		break;
	case '/':
		view->typing = 1;
		view->filter[0] = '\0';
		break;
	case 'b':
		top_break(top);
		break;
	case 'k':
	case KEY_UP:
		view->selected -= view->selected > 0;
		break;
	case 'j':
	case KEY_DOWN:
		view->selected++;
		break;
	default:
		break;
	}
}

static void top_run(struct top *top)
{
	int64_t next_ns = 0;
	while (!top->over && !top_screen_signal()) {
		int64_t now_ns = clock_now_ns();
		if (now_ns >= next_ns) {
			top_look(top);
			next_ns = clock_now_ns() + top->delay_ms * NS_PER_MS;
		}
		top->selected = top_screen_draw(&top->rows, &top->view);
		int64_t left_ms = (next_ns - clock_now_ns()) / NS_PER_MS + 1;
		int key = top_screen_key(left_ms > 0 ? (int)left_ms : 0);
		if (key >= 0)
			top_key(top, key);
	}
}

int cmd_top(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_error error = {0};
	struct top top = {.delay_ms = DELAY_DEFAULT_MS, .view = {.order = BY_NAME}};
	int result = session_begin(&session, command, argc, argv, top_take, &top, 0, 1);
	if (result)
		return -1 - result;
	int code = 0;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		code = trouble("top needs a terminal; `lockkeeper ls` prints a list");
	if (code == 0)
		code = session_open(&session);
	if (code == 0 && lk_client_ping(session.client, &error))
		code = trouble_library(&error);
	if (code == 0)
		code = top_screen_begin();
	if (code == 0) {
		top.client = session.client;
		top.pattern = session.argv[0];
		top.view.node = lk_client_node(session.client);
		top_run(&top);
		top_screen_end();
	}
	lock_rows_free(&top.rows);
	code = session_end(&session, code);
	if (top_screen_signal())
		signal_die(top_screen_signal());
	return code;
}
