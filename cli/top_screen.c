/* SPDX-License-Identifier: MIT */
#include "top_screen.h"

#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "escape.h"
#include "message.h"
#include "screen_library.h"

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

int top_screen_signal(void)
{
	return ended_by;
}

int top_screen_begin(void)
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

void top_screen_end(void)
{
	lib.endwin();
}

int top_screen_key(int limit_ms)
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

const struct lock_row *top_screen_draw(const struct lock_rows *rows, struct top_view *view)
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
