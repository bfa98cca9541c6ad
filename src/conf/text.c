/* SPDX-License-Identifier: MIT */
#include "conf/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lk__text_wipe(char *text)
{
	if (!text)
		return;
	explicit_bzero(text, strlen(text));
	free(text);
}

const char *lk__text_number(const char *text, int64_t *number_out)
{
	int64_t number = 0;
	if (!*text)
		return "is empty, not a number";
	if (text[0] == '0' && text[1])
		return "is not a plain decimal number";
	for (const char *at = text; *at; at++) {
		if (*at < '0' || *at > '9')
			return "is not a plain decimal number";
		int digit = *at - '0';
		if (number > (INT64_MAX - digit) / 10)
			return "is too large";
		number = number * 10 + digit;
	}
	*number_out = number;
	return NULL;
}

void lk__text_quote(char *quoted, int size, const char *text)
{
	int length = snprintf(quoted, (size_t)size, "%s", text);
	if (length >= size)
		memcpy(quoted + size - 4, "...", 4);
	for (char *at = quoted; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
}
