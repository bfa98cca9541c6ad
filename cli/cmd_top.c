/* SPDX-License-Identifier: MIT */
/* lockkeeper top: a live view of the locks of one server. ncurses draws it, loaded here alone: all
 * other commands start faster without it. What stands in Redis is escaped before. */
/* Functions alone, all of which the table has to name: what is a macro in one release of ncurses
 * is a function in the next, and nothing links it. Other macros are written out where they are
 * used. */
#define NCURSES_NOMACROS
#include <curses.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "breaking.h"
#include "clock.h"
#include "commands.h"
#include "escape.h"
#include "exit_code.h"
#include "lock_rows.h"
#include "message.h"
#include "session.h"
#include "signals.h"

struct top_view {
	enum row_order order;
	char filter[64]; /* only names and owners that contain it */
	size_t selected; /* among the rows that are shown */
	const char *node;
	char notice[256]; /* the line at the bottom; "" */
	int typing;       /* the filter is being typed */
};

/* The functions that we call. */
#define SCREEN_FUNCTIONS(FUNCTION)                                                                 \
	FUNCTION(cbreak)                                                                           \
	FUNCTION(curs_set)                                                                         \
	FUNCTION(endwin)                                                                           \
	FUNCTION(getmaxx)                                                                          \
	FUNCTION(getmaxy)                                                                          \
	FUNCTION(keypad)                                                                           \
	FUNCTION(newterm)                                                                          \
	FUNCTION(noecho)                                                                           \
	FUNCTION(waddnstr)                                                                         \
	FUNCTION(wattr_off)                                                                        \
	FUNCTION(wattr_on)                                                                         \
	FUNCTION(werase)                                                                           \
	FUNCTION(wgetch)                                                                           \
	FUNCTION(whline)                                                                           \
	FUNCTION(wmove)                                                                            \
	FUNCTION(wrefresh)                                                                         \
	FUNCTION(wtimeout)

struct screen_library {
#define SCREEN_MEMBER(name) __typeof__(name) *name;
	SCREEN_FUNCTIONS(SCREEN_MEMBER)
#undef SCREEN_MEMBER
	WINDOW **screen; /* what `stdscr` is */
};

/* The one that the header belongs to. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define LIBRARY "libncursesw.so." TEXT(NCURSES_VERSION_MAJOR)

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
#define ROW(name) {#name, offsetof(struct screen_library, name)},
	SCREEN_FUNCTIONS(ROW)
#undef ROW
		{"stdscr", offsetof(struct screen_library, screen)},
};

/* 0 with all of it, or an exit code (said). */
static int screen_library_load(struct screen_library *library_out)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return trouble("top: ncurses cannot be loaded: %s", dlerror());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name); /* libtinfo's, too */
		if (!symbol)
			return trouble("top: ncurses cannot be loaded: %s", dlerror());
		*(void **)((char *)library_out + symbols[i].offset) = symbol;
	}
	return 0;
}

#define NOTE_SIZE 300 /* of a note, with what stands before and behind it */
#define HEAD_LINES 3
#define LINE_SIZE 512
#define SECONDS_SIZE 24
#define HOLDER_COLUMN 107

static struct screen_library lib;

static const char *const orders[] = {
	[BY_NAME] = "name",       [BY_TTL] = "ttl",         [BY_WAITERS] = "waiters",
	[BY_CHANGES] = "changes", [BY_SINCE] = "time held",
};

static volatile sig_atomic_t ended_by;

static void signal_note(int number)
{
	ended_by = number;
}

/* ncurses would exit with 1, and a shell's loop around us would go on. */
static void signals_take(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction taken, action = {.sa_handler = signal_note, .sa_flags = SA_RESETHAND};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &taken) == 0 && taken.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

/* The signal that asks us to end, or 0; the next one ends the process at once. */
static int top_screen_signal(void)
{
	return ended_by;
}

/* 0, or an exit code (said). */
static int top_screen_begin(void)
{
	int code = screen_library_load(&lib);
	if (code)
		return code;
	setlocale(LC_CTYPE, "");
	if (!lib.newterm(NULL, stdout, stdin))
		return trouble("top: unknown terminal type (TERM)");
	signals_take();
	lib.cbreak();
	lib.noecho();
	lib.keypad(*lib.screen, TRUE);
	lib.curs_set(0);
	return 0;
}

static void top_screen_end(void)
{
	lib.endwin();
}

/* Waits up to `limit_ms` for a key: its code, or -1. */
static int top_screen_key(int limit_ms)
{
	lib.wtimeout(*lib.screen, limit_ms);
	int key = lib.wgetch(*lib.screen);
	return key == ERR ? -1 : key;
}

static int lines(void)
{
	return lib.getmaxy(*lib.screen);
}

static int columns(void)
{
	return lib.getmaxx(*lib.screen);
}

/* No more of the text than `width`, and than the line has room for. */
static void put(int y, int x, const char *text, int width)
{
	int room = columns() - x;
	if (room > 0 && lib.wmove(*lib.screen, y, x) != ERR)
		lib.waddnstr(*lib.screen, text, width < room ? width : room);
}

/* Not printw(): that of ncurses 6.4 crashes where the text is longer than the screen is large. */
__attribute__((format(printf, 3, 4))) static void put_format(int y, int x, const char *format, ...)
{
	char text[LINE_SIZE];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	put(y, x, text, LINE_SIZE);
}

static void attribute_on(attr_t attribute)
{
	lib.wattr_on(*lib.screen, attribute, NULL);
}

static void attribute_off(attr_t attribute)
{
	lib.wattr_off(*lib.screen, attribute, NULL);
}

/* The escaped bytes, to be freed; NULL when out of memory. */
static char *escaped(const char *bytes, size_t size)
{
	char *text = NULL;
	size_t text_size = 0;
	FILE *stream = open_memstream(&text, &text_size);
	if (!stream)
		return NULL;
	escape_print(stream, bytes, size);
	fclose(stream);
	return text;
}

static void put_escaped(int y, int x, int width, const char *bytes, size_t size)
{
	char *text = escaped(bytes, size);
	if (text && width > 0)
		put(y, x, text, width);
	free(text);
}

/* Seconds; "-" where there are none: a lock without an end, or nobody who waits. */
static void seconds_text(int64_t ms, char text_out[SECONDS_SIZE])
{
	if (ms < 0)
		snprintf(text_out, SECONDS_SIZE, "-");
	else
		snprintf(text_out, SECONDS_SIZE, "%" PRId64 ".%" PRId64, ms / 1000,
			 ms % 1000 / 100);
}

/* Writes how many of all permits are in use. */
static void holds_text(const struct lock_row *row, char *text_out, size_t size)
{
	int64_t used = (int64_t)row->holders;
	if (row->count >= 0 && strcmp(row->type, "permit semaphore") == 0)
		snprintf(text_out, size, "%" PRId64 "/%" PRId64, used, row->count + used);
	else if (row->count >= 0)
		snprintf(text_out, size, "%" PRId64, row->count);
	else
		snprintf(text_out, size, "%" PRId64, used);
}

static void row_draw(int y, const struct lock_row *row, int selected)
{
	char ttl[SECONDS_SIZE], least[SECONDS_SIZE], waited[SECONDS_SIZE], state[48];
	int64_t waited_ns = clock_now_ns() - row->waiting_ns;
	seconds_text(row->ttl_ms, ttl);
	seconds_text(row->ttl_least_ms, least);
	seconds_text(row->waiters > 0 ? waited_ns / NS_PER_MS : -1, waited);
	holds_text(row, state, sizeof(state));
	if (selected)
		attribute_on(A_REVERSE);
	if (lib.wmove(*lib.screen, y, 0) != ERR)
		lib.whline(*lib.screen, ' ', columns());
	put_escaped(y, 0, 27, row->name, row->name_size);
	put(y, 28, row->type, 17);
	put_format(y, 46, "%7s %9s %9s %8" PRId64 " %8s %6" PRIu64 " %7.1f", state, ttl, least,
		   row->waiters, waited, row->changes, row->rate);
	if (*row->who)
		put_escaped(y, HOLDER_COLUMN, columns() - HOLDER_COLUMN, row->who,
			    strlen(row->who));
	else
		put_escaped(y, HOLDER_COLUMN, columns() - HOLDER_COLUMN, row->owner,
			    strlen(row->owner));
	if (selected)
		attribute_off(A_REVERSE);
}

static int row_shown(const struct lock_row *row, const struct top_view *view)
{
	return !*view->filter ||
	       memmem(row->name, row->name_size, view->filter, strlen(view->filter)) ||
	       strstr(row->who, view->filter) || strstr(row->owner, view->filter);
}

static size_t rows_shown(const struct lock_rows *rows, const struct top_view *view)
{
	size_t count = 0;
	for (size_t i = 0; i < rows->count; i++)
		count += row_shown(&rows->rows[i], view) != 0;
	return count;
}

static void head_draw(const struct lock_rows *rows, const struct top_view *view, size_t shown)
{
	char filter[sizeof(view->filter) + 32] = "";
	if (*view->filter || view->typing)
		snprintf(filter, sizeof(filter), "  /%s%s (%zu)", view->filter,
			 view->typing ? "_" : "", shown);
	put_format(0, 0, "%.60s  %zu locks%s, by %s%s", view->node, rows->count,
		   rows->partial ? " and more" : "", orders[view->order], filter);
	put_format(1, 0, "q quit   s sort   / filter   b break   arrows select");
	attribute_on(A_BOLD);
	put_format(2, 0, "%-27s %-17s %7s %9s %9s %8s %8s %6s %7s %s", "NAME", "TYPE", "HOLDS",
		   "TTL_S", "LEAST_S", "WAITERS", "WAITED_S", "SEEN", "/S", "  HELD BY");
	attribute_off(A_BOLD);
}

/* The last line: what there is to say, or of the lock that is selected why it is held, for which
 * its own line may lack room, and who waits for it. */
static void foot_draw(const struct top_view *view, const struct lock_row *selected)
{
	char text[sizeof(view->notice) + NEXT_SIZE + NOTE_SIZE];
	if (*view->notice || !selected)
		snprintf(text, sizeof(text), "%s", view->notice);
	else
		snprintf(text, sizeof(text), "%s%.*s%s%s%s", *selected->note ? "note: " : "",
			 NOTE_SIZE - 16, selected->note,
			 *selected->note && *selected->next ? "; " : "",
			 *selected->next ? "waiting: " : "", selected->next);
	put_escaped(lines() - 1, 0, columns() - 1, text, strlen(text));
}

/* Draws all, brings `view->selected` within what is shown; the row that is selected, or NULL. */
static const struct lock_row *top_screen_draw(const struct lock_rows *rows, struct top_view *view)
{
	const struct lock_row *selected = NULL;
	size_t shown = rows_shown(rows, view), place = 0;
	size_t room = lines() > HEAD_LINES + 1 ? (size_t)(lines() - HEAD_LINES - 1) : 1;
	if (view->selected >= shown)
		view->selected = shown ? shown - 1 : 0;
	size_t first = view->selected >= room ? view->selected - room + 1 : 0;
	lib.werase(*lib.screen);
	head_draw(rows, view, shown);
	for (size_t i = 0; i < rows->count && place < first + room; i++) {
		if (!row_shown(&rows->rows[i], view))
			continue;
		if (place == view->selected)
			selected = &rows->rows[i];
		if (place >= first)
			row_draw(HEAD_LINES + (int)(place - first), &rows->rows[i],
				 place == view->selected);
		place++;
	}
	foot_draw(view, selected);
	lib.wrefresh(*lib.screen);
	return selected;
}

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
