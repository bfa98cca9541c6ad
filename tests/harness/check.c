#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local lk_error err;
_Thread_local bool check_in_thread;

static _Atomic int thread_failures;

void check_fail(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (check_in_thread) {
		/* A storm of equal failures says no more than the first few. */
		if (atomic_fetch_add(&thread_failures, 1) < 20)
			fprintf(stderr, "%s:%d: in a thread: %s\n", file, line, text);
		return;
	}
	print_error("%s\n", text);
	_fail(file, line);
}

void check_skip(const char *why)
{
	print_message("%s\n", why);
	skip();
	abort(); /* skip() does not come back */
}

int check_take_failures(void)
{
	return atomic_exchange(&thread_failures, 0);
}

void check_clear_error(void)
{
	memset(&err, 0, sizeof(err));
}

int check_code(int got, int wanted, const char *call, const char *file, int line)
{
	if (got != wanted)
		check_fail(file, line, "%s: %d %s, not %d %s; \"%s\"", call, got,
			   lk_error_name(got), wanted, lk_error_name(wanted), err.message);
	else if (got < 0 && (err.code != got || !err.message[0]))
		check_fail(file, line, "%s: %s, but lk_error has %s and \"%s\"", call,
			   lk_error_name(got), lk_error_name(err.code), err.message);
	return got;
}
