/* SPDX-License-Identifier: MIT */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* "… on URL: URL: reason": its caller does not know that the reason names the server. */
static void fail_name_once(char *text)
{
	for (char *on = strstr(text, " on "); on; on = strstr(on + 1, " on ")) {
		char *url = on + 4, *end = strstr(url, ": ");
		size_t size = end ? (size_t)(end - url) + 2 : 0;
		if (size > 2 && strncmp(url, url + size, size) == 0)
			memmove(url, url + size, strlen(url + size) + 1);
	}
}

__attribute__((format(printf, 4, 0))) static void fail_format(lk_error *error, int code,
							      int system_errno, const char *format,
							      va_list arguments)
{
	error->code = code;
	error->system_errno = system_errno;
	vsnprintf(error->message, sizeof(error->message), format, arguments);
	fail_name_once(error->message);
}

int lk__fail(lk_error *error, int code, const char *format, ...)
{
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		fail_format(error, code, 0, format, arguments);
		va_end(arguments);
	}
	return code;
}

int lk__fail_errno(lk_error *error, int code, int system_errno, const char *format, ...)
{
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		fail_format(error, code, system_errno, format, arguments);
		va_end(arguments);
		size_t used = strlen(error->message);
		char text[128] = "";
		/* glibc's strerror_r may return static text instead of filling the buffer. */
		const char *reason = strerror_r(system_errno, text, sizeof(text));
		snprintf(error->message + used, sizeof(error->message) - used, ": %s", reason);
	}
	return code;
}
