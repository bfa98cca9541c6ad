/* SPDX-License-Identifier: MIT */
#include "resp/number.h"

#include <string.h>

size_t lk__number_write(char out[LK__NUMBER_SIZE], uint64_t number)
{
	char digits[LK__NUMBER_SIZE];
	size_t count = 0;
	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	for (size_t i = 0; i < count; i++)
		out[i] = digits[count - 1 - i];
	return count;
}

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

const char *lk__number_take(const char *text, int64_t least, int64_t most, int64_t *number_out)
{
	bool negative = *text == '-';
	const char *at = text + negative;
	int64_t number = 0; /* not positive: there is one negative number more */
	if (!is_digit(*at) || (*at == '0' && (negative || is_digit(at[1]))))
		return NULL;
	for (; is_digit(*at); at++) {
		int digit = *at - '0';
		if (number < (INT64_MIN + digit) / 10)
			return NULL;
		number = number * 10 - digit;
	}
	if (!negative && number == INT64_MIN)
		return NULL;
	number = negative ? number : -number;
	if (number < least || number > most)
		return NULL;
	*number_out = number;
	return at;
}

bool lk__number_read(const char *text, int64_t least, int64_t most, int64_t *number_out)
{
	int64_t number;
	const char *end = lk__number_take(text, least, most, &number);
	if (!end || *end)
		return false;
	*number_out = number;
	return true;
}

bool lk__reply_number(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out)
{
	return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == (size_t)reply->len &&
	       lk__number_read(reply->str, least, most, number_out);
}

bool lk__reply_integer(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out)
{
	if (reply->type != REDIS_REPLY_INTEGER || reply->integer < least || reply->integer > most)
		return false;
	*number_out = reply->integer;
	return true;
}
