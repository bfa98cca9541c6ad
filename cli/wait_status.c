/* SPDX-License-Identifier: MIT */
#include "wait_status.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "escape.h"
#include "kind.h"
#include "message.h"
#include "outer.h"
#include "owner.h"

#define PATIENCE_MS 2000  /* on a terminal, before the first word */
#define REFRESH_MS 1000   /* of the line on a terminal */
#define AGAIN_MIN_MS 2000 /* elsewhere, between two lines; doubled each time */
#define AGAIN_MAX_MS 60000
#define TEXT_SIZE 1300
#define COLUMNS_DEFAULT 80

/* ---- what is said ---- */

static void text_add(char *text, const char *more)
{
	size_t used = strlen(text);
	snprintf(text + used, TEXT_SIZE - used, "%s", more);
}

/* Explains waiters; those of a read/write lock are writers: why a reader does not get in beside
 * readers. */
static void explain_waiters(const lk_lock_info *info, char *text)
{
	char part[96];
	size_t count = info->waiter_count;
	if (count == 0)
		return;
	if (strcmp(info->type, "read/write lock") == 0)
		snprintf(part, sizeof(part), "; %zu writer%s, and readers stand back for %s", count,
			 count == 1 ? " waits" : "s wait", count == 1 ? "it" : "them");
	else
		snprintf(part, sizeof(part), "; %zu in its wait queue", count);
	text_add(text, part);
}

/* Who holds it, and how many stand in its queue. */
static void explain_holder(lk_scan *scan, const lk_lock_info *info, char *text)
{
	char who[OWNER_TEXT_SIZE], part[OWNER_TEXT_SIZE + 64];
	const lk_holder *holder = &info->holders[0];
	holder_text(scan, info, holder, who, sizeof(who));
	int kept = owner_is_kept(holder->field, holder->field_size);
	snprintf(part, sizeof(part), "%s%s", kept ? "" : "held by ", who);
	text_add(text, part);
	if (info->holder_count > 1) {
		snprintf(part, sizeof(part), " and %zu more", info->holder_count - 1);
		text_add(text, part);
	}
	if (holder->ttl_ms >= 0) { /* not the key's: a counter may outlive its permits */
		snprintf(part, sizeof(part), "; %s in %" PRId64 " s%s",
			 kept ? "free" : "its lease ends", (holder->ttl_ms + 999) / 1000,
			 kept ? "" : " unless renewed");
		text_add(text, part);
	}
	if (info->ttl_ms == -1 && !info->is_counter)
		text_add(text, "; it has no time to live");
	explain_waiters(info, text);
}

/* A number is what a latch or a semaphore waits for. For a lock it is a foreign key: a counter, as
 * of a rate limiter, which stays when it is at 0. */
static void explain_count(const struct wait_status *waiting, const lk_lock_info *info, char *text)
{
	char part[96];
	snprintf(part, sizeof(part), "its count is %" PRId64, info->count);
	text_add(text, part);
	if (!waiting->lock)
		return;
	text_add(text, ": it is a counter or a semaphore, not a lock, and free only when the key "
		       "is gone");
	snprintf(part, sizeof(part), ", in %" PRId64 " s unless changed",
		 (info->ttl_ms + 999) / 1000);
	text_add(text, info->ttl_ms >= 0 ? part : "; it has no time to live");
}

static void explain_barrier(const struct wait_status *waiting, const lk_lock_info *info, char *text)
{
	char part[128];
	size_t inside = 0;
	for (size_t i = 0; i < info->holder_count; i++)
		inside += info->holders[i].role == LK_HOLDER_INSIDE;
	snprintf(part, sizeof(part), "%zu of %" PRId64 " wait here, and %zu are inside",
		 info->holder_count - inside, info->parties, inside);
	text_add(text, waiting->lock ? "it is a barrier, not a lock: take another name" : part);
}

/* Finds, of several locks, the one that is in the way, if it is not the first, by its name; else 0,
 * or the error. */
static int state_find(const struct wait_status *waiting, lk_scan *scan, lk_lock_info *info,
		      char *text, lk_error *error)
{
	char part[256];
	const char *name = waiting->name;
	int result = lk_scan_show(scan, name, strlen(name), info, error);
	for (size_t i = 0; i < waiting->also_count; i++) {
		if (result < 0 || info->holder_count > 0 || info->is_counter)
			break;
		name = waiting->also[i];
		result = lk_scan_show(scan, name, strlen(name), info, error);
	}
	if (result >= 0 && name != waiting->name && info->holder_count > 0) {
		snprintf(part, sizeof(part), "%.200s: ", name);
		text_add(text, part);
	}
	return result;
}

/* Explains what the server shows: 1, or 0 where that does not say who is in the way. */
static int explain_state(const struct wait_status *waiting, lk_scan *scan, char *text)
{
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_error error = {0};
	if (state_find(waiting, scan, &info, text, &error) < 0) {
		error_text_plain(error.message);
		text_add(text, error.message);
		return 0;
	}
	if (is_barrier(&info)) {
		explain_barrier(waiting, &info, text);
		return 1;
	}
	if (info.holder_count > 0) {
		explain_holder(scan, &info, text);
		return 1;
	}
	if (info.is_counter) {
		explain_count(waiting, &info, text);
		return 1;
	}
	text_add(text, "nobody holds it at this moment");
	return 0;
}

/* Why no server says busy. The line has said already what is waited for. */
static void explain_reason(const struct wait_status *waiting, const char *reason, char *text)
{
	char known[TEXT_SIZE];
	int size = snprintf(known, sizeof(known), "acquire \"%.200s\": ", waiting->name);
	if (strncmp(reason, known, (size_t)size) == 0)
		reason += size;
	text_add(text, *reason ? reason : "no answer yet");
}

/* 1 with what there is to say; 0 when nobody waits (any more). */
static int explain(struct wait_status *waiting, lk_scan *scan, char text_out[TEXT_SIZE])
{
	lk_wait_info wait = {.struct_size = sizeof(wait), .code = LK_EBUSY};
	if (waiting->lock && lk_lock_wait_info(waiting->lock, &wait, NULL) != 1)
		return 0;
	waiting->head_size = snprintf(text_out, TEXT_SIZE, "waiting for %.200s: ", waiting->name);
	if (wait.code == LK_EBUSY)
		explain_state(waiting, scan, text_out);
	else
		explain_reason(waiting, wait.reason, text_out);
	return 1;
}

/* ---- where it is said ---- */

static size_t terminal_columns(void)
{
	struct winsize size;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
		return size.ws_col;
	return COLUMNS_DEFAULT;
}

/* The terminal belongs to another job: its line must stay as it is. */
static int in_background(const struct wait_status *waiting)
{
	pid_t foreground = tcgetpgrp(STDERR_FILENO);
	return foreground > 0 && foreground != waiting->group;
}

/* As much of a line of UTF-8 as fits: no character takes more columns than bytes. */
static size_t line_fit(const char *line, size_t size, size_t columns)
{
	size_t fit = size < columns ? size : columns;
	while (fit > 0 && fit < size && (line[fit] & 0xc0) == 0x80)
		fit--;
	return fit;
}

/* Takes one part of a line that is too long for the terminal; the next one is shown next time. */
static void line_take_turn(struct wait_status *waiting, char *text)
{
	static const char between[] = "; ";
	char *part = text + waiting->head_size;
	const char *at = part, *end;
	if (strlen(text) < terminal_columns())
		return;
	for (unsigned i = 0; i < waiting->turn && at; i++) {
		at = strstr(at, between);
		at = at ? at + strlen(between) : NULL;
	}
	waiting->turn = at ? waiting->turn + 1 : 1;
	at = at ? at : part;
	end = strstr(at, between);
	size_t size = end ? (size_t)(end - at) : strlen(at);
	memmove(part, at, size);
	part[size] = '\0';
}

/* Writes a line over the last one, no longer than the terminal is wide; NULL clears it. */
static void line_rewrite(const struct wait_status *waiting, const char *text)
{
	char *line = NULL;
	size_t size = 0;
	if (in_background(waiting))
		return;
	FILE *stream = open_memstream(&line, &size);
	if (!stream)
		return;
	if (text)
		escape_print(stream, text, strlen(text));
	fclose(stream);
	if (!line)
		return;
	dprintf(STDERR_FILENO, "\r\033[K%.*s", (int)line_fit(line, size, terminal_columns() - 1),
		line);
	free(line);
}

/* With the mutex. */
static void say(struct wait_status *waiting, char *text)
{
	if (waiting->in_place) {
		line_take_turn(waiting, text);
		line_rewrite(waiting, text);
	} else {
		message("%s", text);
	}
	waiting->shown = 1;
}

/* Once, with -v: why a release may be noticed late. With the mutex, if the thread runs. */
static void say_if_deaf(struct wait_status *waiting)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	if (!waiting->verbose || waiting->deaf || lk_client_stats(waiting->client, &stats, NULL) ||
	    stats.unheard == 0)
		return;
	waiting->deaf = 1;
	if (waiting->in_place && waiting->shown)
		line_rewrite(waiting, NULL);
	message("%.200s: SUBSCRIBE is refused, so no message tells of a release: a wait looks "
		"again from time to time (lockkeeper doctor says more)",
		waiting->name);
}

/* ---- a wait for oneself ---- */

/* Which of the names an outer run holds; NULL: none. */
static const char *nested_find(const struct wait_status *waiting)
{
	if (outer_holds(waiting->client, waiting->name))
		return waiting->name;
	for (size_t i = 0; i < waiting->also_count; i++)
		if (outer_holds(waiting->client, waiting->also[i]))
			return waiting->also[i];
	return NULL;
}

/* With the mutex, if the thread runs. */
static void nested_say(struct wait_status *waiting, const char *name)
{
	waiting->nested = 1;
	if (waiting->in_place && waiting->shown)
		line_rewrite(waiting, NULL);
	message("an outer lockkeeper run holds %.200s (LOCKKEEPER_OUTER): this one cannot get it "
		"until the outer one ends",
		name);
}

void wait_status_nested(struct wait_status *waiting)
{
	const char *name = waiting->nested || !outer_exist() ? NULL : nested_find(waiting);
	if (name)
		nested_say(waiting, name);
}

/* ---- the thread ---- */

/* Sleeps with the mutex given up; 1 when the wait is over. */
static int pause_ms(struct wait_status *waiting, int64_t ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(ms / 1000);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	int rc = 0;
	while (!waiting->over && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&waiting->end, &waiting->mutex, &until);
	return waiting->over;
}

static void *wait_status_main(void *argument)
{
	struct wait_status *waiting = argument;
	char text[TEXT_SIZE];
	lk_scan *scan = NULL;
	int early = waiting->verbose || outer_exist();
	int64_t next_ms = early ? REFRESH_MS / 4 : PATIENCE_MS, again_ms = AGAIN_MIN_MS;
	pthread_mutex_lock(&waiting->mutex);
	while (!pause_ms(waiting, next_ms)) {
		pthread_mutex_unlock(&waiting->mutex);
		/* Anew each time: an owner may have told since who it is. */
		const char *name = waiting->nested || !outer_exist() ? NULL : nested_find(waiting);
		int told = waiting->explains &&
			   lk_scan_new(&scan, waiting->client, NULL, NULL) == 0 &&
			   explain(waiting, scan, text);
		scan = lk_scan_free(scan);
		pthread_mutex_lock(&waiting->mutex);
		if (name && !waiting->over)
			nested_say(waiting, name);
		if (told && !waiting->over) {
			say_if_deaf(waiting);
			say(waiting, text);
		}
		next_ms = waiting->in_place ? REFRESH_MS : again_ms;
		again_ms = again_ms * 2 < AGAIN_MAX_MS ? again_ms * 2 : AGAIN_MAX_MS;
	}
	pthread_mutex_unlock(&waiting->mutex);
	return NULL;
}

static int thread_start(struct wait_status *waiting)
{
	sigset_t all, mask;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	int rc = pthread_create(&waiting->thread, NULL, wait_status_main, waiting);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return rc;
}

int wait_status_take(struct wait_status_wish *wish, int id)
{
	if (id == 'v')
		wish->verbose++;
	else if (id == 'q')
		wish->quiet = 1;
	else
		return 0;
	return 1;
}

void wait_status_begin(struct wait_status *waiting, lk_client *client, lk_lock *lock,
		       const char *name, const struct wait_status_wish *wish)
{
	pthread_condattr_t monotonic;
	*waiting = (struct wait_status){.lock = lock,
					.client = client,
					.name = name,
					.also = wish->also,
					.also_count = wish->also_count,
					.group = wish->group ? wish->group : getpgrp(),
					.verbose = wish->verbose,
					.quiet = wish->quiet && !wish->verbose,
					.in_place = isatty(STDERR_FILENO)};
	waiting->explains = !wish->quiet && (wish->verbose || waiting->in_place);
	if (wish->once || (!waiting->explains && !outer_exist()))
		return;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&waiting->mutex, NULL);
	pthread_cond_init(&waiting->end, &monotonic);
	pthread_condattr_destroy(&monotonic);
	waiting->started = thread_start(waiting) == 0;
}

void wait_status_end(struct wait_status *waiting)
{
	if (!waiting->started)
		return;
	pthread_mutex_lock(&waiting->mutex);
	if (!waiting->over && waiting->shown && waiting->in_place)
		line_rewrite(waiting, NULL);
	waiting->over = 1;
	pthread_cond_signal(&waiting->end);
	pthread_mutex_unlock(&waiting->mutex);
}

void wait_status_conclude(struct wait_status *waiting)
{
	char text[TEXT_SIZE];
	lk_scan *scan = NULL;
	say_if_deaf(waiting);
	if (waiting->quiet || (waiting->shown && !waiting->in_place) ||
	    lk_scan_new(&scan, waiting->client, NULL, NULL))
		return;
	snprintf(text, sizeof(text), "%.200s: ", waiting->name);
	if (explain_state(waiting, scan, text) || waiting->verbose)
		message("%s", text);
	lk_scan_free(scan);
}

void wait_status_holder(const struct wait_status *waiting, char *text_out, size_t size)
{
	char text[TEXT_SIZE] = "";
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan;
	*text_out = '\0';
	if (lk_scan_new(&scan, waiting->client, NULL, NULL))
		return;
	if (state_find(waiting, scan, &info, text, NULL) >= 0 && info.holder_count > 0)
		holder_text(scan, &info, &info.holders[0], text_out, size);
	lk_scan_free(scan);
}

void wait_status_join(struct wait_status *waiting)
{
	if (!waiting->started)
		return;
	wait_status_end(waiting);
	pthread_join(waiting->thread, NULL);
	pthread_mutex_destroy(&waiting->mutex);
	pthread_cond_destroy(&waiting->end);
	waiting->started = 0;
}
