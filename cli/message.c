/* SPDX-License-Identifier: MIT */
#include "message.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockkeeper.h>
#include <lockkeeper/config.h>

#include "clock.h"
#include "escape.h"
#include "exit_code.h"

/* ---- the library's log: with -vv ---- */

#define NS_PER_US 1000

static int64_t began_ns;

/* On any thread: a message is one write. */
static void log_take(void *context, int level, const char *line)
{
	int64_t since_us = (clock_now_ns() - began_ns) / NS_PER_US;
	(void)context;
	message_at(level, "%" PRId64 ".%06" PRId64 " %s", since_us / 1000000, since_us % 1000000,
		   line);
}

void log_begin(lk_config *config, int verbose)
{
	if (verbose < 2)
		return;
	began_ns = clock_now_ns();
	lk_config_set_log(config, LK_LOG_DEBUG, log_take, NULL);
}

/* ---- the library's reports, in the words of somebody who types commands ---- */

static void text_remove(char *from, size_t size)
{
	memmove(from, from + size, strlen(from + size) + 1);
}

static void prefix_remove(char *text, const char *prefix)
{
	if (strncmp(text, prefix, strlen(prefix)) == 0)
		text_remove(text, strlen(prefix));
}

/* "lk_event_wait: …" loses its first word, "lk_lock_release "job": …" becomes "release …". */
void error_text_plain(char *text)
{
	if (strncmp(text, "lk_", 3) != 0)
		return;
	size_t size = strcspn(text, " :");
	if (text[size] == ':') {
		text_remove(text, size + 1 + (text[size + 1] == ' '));
		return;
	}
	prefix_remove(text, "lk_");
	prefix_remove(text, "lock_");
	for (char *at = text; *at && *at != ' '; at++)
		if (*at == '_')
			*at = ' ';
}

/* ---- lines ---- */

/* Longer messages are cut: a name may have 64 KiB. */
#define MESSAGE_SIZE 1400

static int as_json;                /* --log-format */
static int limit_ms = -1;          /* for which a line waits for its reader; -1: for ever */
static _Atomic unsigned long lost; /* lines that nobody read in time */

void message_limit(int most_ms)
{
	limit_ms = most_ms;
}

/* A pipe that poll() calls writable takes a line as a whole. */
static int stderr_is_ready(void)
{
	struct pollfd wanted = {STDERR_FILENO, POLLOUT, 0};
	return limit_ms < 0 || poll(&wanted, 1, limit_ms) != 0;
}

static void line_write(const char *line, size_t size)
{
	char note[64];
	unsigned long missing = atomic_exchange(&lost, 0);
	if (!stderr_is_ready()) {
		atomic_fetch_add(&lost, missing + 1);
		return;
	}
	if (missing > 0) {
		snprintf(note, sizeof(note), "lockkeeper: %lu lines lost: nobody read them\n",
			 missing);
		if (write(STDERR_FILENO, note, strlen(note)) < 0 || !stderr_is_ready())
			atomic_fetch_add(&lost, missing);
	}
	/* A longer line goes part by part, and each waits for its reader. */
	for (size_t part; size > 0; line += part, size -= part) {
		part = size < PIPE_BUF ? size : PIPE_BUF;
		if (!stderr_is_ready() || write(STDERR_FILENO, line, part) < 0) {
			atomic_fetch_add(&lost, 1);
			return;
		}
	}
}

void message_line(const char *line)
{
	line_write(line, strlen(line));
}

int message_format_set(const char *name)
{
	as_json = strcmp(name, "json") == 0;
	if (as_json || strcmp(name, "text") == 0)
		return 0;
	return trouble("option --log-format: '%s' is not text or json", name);
}

/* "2026-11-28T10:03:11.123Z" */
static void time_text(char text_out[32])
{
	struct timespec now;
	struct tm utc;
	clock_gettime(CLOCK_REALTIME, &now);
	size_t size = strftime(text_out, 24, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
	snprintf(text_out + size, 32 - size, ".%03ldZ", now.tv_nsec / 1000000);
}

json_t *message_json(int level, const char *text)
{
	static const char *const levels[] = {
		[LK_LOG_ERROR] = "error",
		[LK_LOG_WARNING] = "warning",
		[LK_LOG_INFO] = "info",
		[LK_LOG_DEBUG] = "debug",
	};
	char time[32];
	const char *trace = getenv("TRACEPARENT");
	time_text(time);
	json_t *object = json_pack("{s:s, s:s, s:i, s:s}", "time", time, "level", levels[level],
				   "pid", (int)getpid(), "message", text);
	if (object && trace && utf8_is_valid(trace, strlen(trace)))
		json_object_set_new(object, "traceparent", json_string(trace));
	return object;
}

/* To be freed; NULL when out of memory. */
static char *json_text(int level, const char *text)
{
	json_t *object = message_json(level, text);
	char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	return line;
}

/* The escaped text, and a reason that may be NULL; to be freed, NULL when out of memory. */
static char *escaped_text(const char *text, const char *reason)
{
	char *escaped = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&escaped, &size);
	if (!stream)
		return NULL;
	escape_print(stream, text, strlen(text));
	if (reason) {
		fputs(": ", stream);
		escape_print(stream, reason, strlen(reason));
	}
	if (fclose(stream) == 0)
		return escaped;
	free(escaped);
	return NULL;
}

/* One write(2) a line, so that the lines of several processes do not mix. */
static void message_write(int level, const char *text, const char *reason)
{
	char *line = NULL, *escaped = escaped_text(text, reason);
	char *json = escaped && as_json ? json_text(level, escaped) : NULL;
	int size = escaped ? asprintf(&line, "%s%s\n",
				      json ? "" : "lockkeeper: ", json ? json : escaped)
			   : -1;
	if (size >= 0) {
		line_write(line, (size_t)size);
		free(line);
	}
	free(json);
	free(escaped);
}

__attribute__((format(printf, 3, 0))) static void message_format(int level, const char *reason,
								 const char *format,
								 va_list arguments)
{
	char text[MESSAGE_SIZE];
	vsnprintf(text, sizeof(text), format, arguments);
	message_write(level, text, reason);
}

void message(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(LK_LOG_INFO, NULL, format, arguments);
	va_end(arguments);
}

void message_at(int level, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(level, NULL, format, arguments);
	va_end(arguments);
}

int trouble(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(LK_LOG_ERROR, NULL, format, arguments);
	va_end(arguments);
	return EXIT_TROUBLE;
}

int trouble_errno(int system_errno, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(LK_LOG_ERROR, strerror(system_errno), format, arguments);
	va_end(arguments);
	return EXIT_TROUBLE;
}

const char *library_text(const lk_error *error)
{
	static char text[sizeof(error->message)];
	snprintf(text, sizeof(text), "%s",
		 error->message[0] ? error->message : lk_error_text(error->code));
	error_text_plain(text);
	return text;
}

int trouble_library(const lk_error *error)
{
	message_at(LK_LOG_ERROR, "%s", library_text(error));
	if (error->code == LK_EAUTH && getenv("LOCKKEEPER_NAME"))
		message("an outer lockkeeper run takes passwords out of the environment: name a "
			"file in LOCKKEEPER_PASSWORD_FILE");
	else if (error->code == LK_EAUTH && strstr(error->message, "NOAUTH"))
		message("set LOCKKEEPER_PASSWORD, or name a file in LOCKKEEPER_PASSWORD_FILE");
	else if (error->code == LK_EDENIED)
		message("lockkeeper doctor says which rights are missing");
	switch (error->code) {
	case LK_ELOST:
	case LK_ENOTOWNER:
	case LK_ESTALE:
		return EXIT_LOST;
	case LK_EBUSY:
	case LK_ETIMEDOUT:
		return EXIT_NOT_ACQUIRED;
	default:
		return EXIT_TROUBLE;
	}
}

int output_finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return trouble_errno(errno, "cannot write to stdout");
}
