/* SPDX-License-Identifier: MIT */
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper/error.h>
#include <lockkeeper/version.h>

/* ---- the table of errors, and the version ---- */

static const struct {
	int code;
	int classes;
	const char *name;
	const char *text;
} errors[] = {{0, 0, "LK_OK", "success"},
#define ROW(name, value, classes, text) {name, classes, #name, text},
	      LK_ERROR_MAP(ROW)
#undef ROW
};

/* Codes are 0, -1, -2, … without a gap, so that a code is an index. */
static size_t error_index(int code)
{
	size_t count = sizeof(errors) / sizeof(errors[0]);
	size_t index = code <= 0 ? (size_t)(-(long long)code) : count;
	return index < count ? index : count;
}

static int error_has_class(int code, int class)
{
	size_t index = error_index(code);
	return index < sizeof(errors) / sizeof(errors[0]) && (errors[index].classes & class) != 0;
}

const char *lk_error_name(int code)
{
	size_t index = error_index(code);
	return index < sizeof(errors) / sizeof(errors[0]) ? errors[index].name : "LK_E?";
}

const char *lk_error_text(int code)
{
	size_t index = error_index(code);
	return index < sizeof(errors) / sizeof(errors[0]) ? errors[index].text : "unknown error";
}

int lk_error_is_retryable(int code)
{
	return error_has_class(code, LK_CLASS_RETRY);
}

int lk_error_is_fatal(int code)
{
	return error_has_class(code, LK_CLASS_FATAL);
}

int lk_error_maybe_held(int code)
{
	return error_has_class(code, LK_CLASS_MAYBE);
}

const char *lk_version(void)
{
	return LK_VERSION;
}

/* ---- failures ---- */

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

int lk__errno_code(int system_errno, int otherwise)
{
	switch (system_errno) {
	case ENOMEM:
		return LK_ENOMEM;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
		return LK_ESYSTEM;
	default:
		return otherwise;
	}
}

const char *lk__system_text(int system_errno, char *text, size_t size)
{
#ifdef __GLIBC__ /* its own form returns the text, and may leave the buffer as it was */
	return strerror_r(system_errno, text, size);
#else
	return strerror_r(system_errno, text, size) == 0 ? text : "unknown error";
#endif
}

/* The system's reason stands behind the text. */
__attribute__((format(printf, 4, 0))) static void fail_explained(lk_error *error, int code,
								 int system_errno,
								 const char *format,
								 va_list arguments)
{
	fail_format(error, code, system_errno, format, arguments);
	size_t used = strlen(error->message);
	char text[128] = "";
	const char *reason = lk__system_text(system_errno, text, sizeof(text));
	snprintf(error->message + used, sizeof(error->message) - used, ": %s", reason);
}

int lk__fail_errno(lk_error *error, int code, int system_errno, const char *format, ...)
{
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		fail_explained(error, code, system_errno, format, arguments);
		va_end(arguments);
	}
	return code;
}

int lk__fail_system(lk_error *error, int system_errno, const char *format, ...)
{
	int code = lk__errno_code(system_errno, LK_ESYSTEM);
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		fail_explained(error, code, system_errno, format, arguments);
		va_end(arguments);
	}
	return code;
}
