/* SPDX-License-Identifier: MIT */
#include "message.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error_text.h"
#include "escape.h"
#include "exit_code.h"

/* Longer messages are cut: a name may have 64 KiB. */
#define MESSAGE_SIZE 1024

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
	if (write(STDERR_FILENO, line, size) < 0)
		atomic_fetch_add(&lost, 1);
}

/* One write(2) a line, so that the lines of several processes do not mix. */
static void message_write(const char *text, const char *reason)
{
	char *line = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&line, &size);
	if (!stream)
		return;
	fputs("lockkeeper: ", stream);
	escape_print(stream, text, strlen(text));
	if (reason) {
		fputs(": ", stream);
		escape_print(stream, reason, strlen(reason));
	}
	fputc('\n', stream);
	if (fclose(stream) == 0 && line)
		line_write(line, size);
	free(line);
}

__attribute__((format(printf, 2, 0))) static void message_format(const char *reason,
								 const char *format,
								 va_list arguments)
{
	char text[MESSAGE_SIZE];
	vsnprintf(text, sizeof(text), format, arguments);
	message_write(text, reason);
}

void message(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(NULL, format, arguments);
	va_end(arguments);
}

int trouble(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(NULL, format, arguments);
	va_end(arguments);
	return EXIT_TROUBLE;
}

int trouble_errno(int system_errno, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	message_format(strerror(system_errno), format, arguments);
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
	message("%s", library_text(error));
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
