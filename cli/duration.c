/* SPDX-License-Identifier: MIT */
#include "duration.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *suffix;
	int64_t ms;
} units[] = {
	{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/* More digits of a fraction than these only decide whether to round up. */
#define FRACTION_DIGITS 9

struct number {
	int64_t whole;
	int64_t fraction; /* in units of 10^-FRACTION_DIGITS, rounded up */
	int overflow;
};

static int is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

static const char *whole_read(const char *text, struct number *number)
{
	for (; is_digit(*text); text++) {
		if (__builtin_mul_overflow(number->whole, 10, &number->whole) ||
		    __builtin_add_overflow(number->whole, *text - '0', &number->whole))
			number->overflow = 1;
	}
	return text;
}

static const char *fraction_read(const char *text, struct number *number)
{
	int digits = 0, more = 0;
	for (; is_digit(*text); text++) {
		if (digits < FRACTION_DIGITS) {
			number->fraction = number->fraction * 10 + (*text - '0');
			digits++;
		} else {
			more |= *text != '0';
		}
	}
	for (; digits < FRACTION_DIGITS; digits++)
		number->fraction *= 10;
	number->fraction += more;
	return text;
}

static int64_t unit_find(const char *suffix)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(units[i].suffix, suffix) == 0)
			return units[i].ms;
	}
	return 0;
}

int duration_parse(const char *text, int64_t *ms_out)
{
	const int64_t scale = INT64_C(1000000000);
	struct number number = {0, 0, 0};
	const char *end = whole_read(text, &number);
	int any = end > text;
	if (*end == '.') {
		const char *fraction = end + 1;
		end = fraction_read(fraction, &number);
		any |= end > fraction;
	}
	int64_t unit = unit_find(end);
	if (!any || unit == 0)
		return -EINVAL;
	int64_t whole_ms, ms;
	/* At most 86,400,000 × 10^9 here: the product cannot overflow. */
	int64_t fraction_ms = (number.fraction * unit + scale - 1) / scale;
	if (number.overflow || __builtin_mul_overflow(number.whole, unit, &whole_ms) ||
	    __builtin_add_overflow(whole_ms, fraction_ms, &ms))
		return -ERANGE;
	*ms_out = ms;
	return 0;
}
