#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void fail_format(lk_error *error, int code,
							      int system_errno, const char *format,
							      va_list arguments)
{
	error->code = code;
	error->system_errno = system_errno;
	vsnprintf(error->message, sizeof(error->message), format, arguments);
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
