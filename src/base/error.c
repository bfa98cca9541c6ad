/* SPDX-License-Identifier: MIT */
/* The table of errors, and the version. */
#include <lockkeeper/error.h>
#include <lockkeeper/version.h>

#include <stddef.h>

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
