#include "resp.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say_number(struct lk__buffer *out, char sign, int64_t number)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "%c%" PRId64 "\r\n", sign, number);
	lk__buffer_append(out, text, (size_t)size);
}

void sim_say_integer(struct lk__buffer *out, int64_t number)
{
	say_number(out, ':', number);
}

void sim_say_bulk(struct lk__buffer *out, struct sim_word word)
{
	say_number(out, '$', (int64_t)word.size);
	lk__buffer_append(out, word.bytes, word.size);
	lk__buffer_append(out, "\r\n", 2);
}

void sim_say_nil(struct lk__buffer *out)
{
	say_number(out, '$', -1);
}

void sim_say_array(struct lk__buffer *out, size_t count)
{
	say_number(out, '*', (int64_t)count);
}

void sim_say_nil_array(struct lk__buffer *out)
{
	say_number(out, '*', -1);
}

void sim_say_status(struct lk__buffer *out, const char *text)
{
	lk__buffer_append(out, "+", 1);
	lk__buffer_append(out, text, strlen(text));
	lk__buffer_append(out, "\r\n", 2);
}

void sim_say_error(struct lk__buffer *out, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	lk__buffer_append(out, "-", 1);
	lk__buffer_append(out, text, strlen(text));
	lk__buffer_append(out, "\r\n", 2);
}

void sim_say_score(struct lk__buffer *out, double score)
{
	char text[64];
	if (isinf(score))
		snprintf(text, sizeof(text), "%s", score > 0 ? "inf" : "-inf");
	else if (score == trunc(score) && fabs(score) < 1e17)
		snprintf(text, sizeof(text), "%.0f", score == 0 ? 0.0 : score);
	else
		snprintf(text, sizeof(text), "%.17g", score);
	sim_say_bulk(out, sim_word(text));
}
