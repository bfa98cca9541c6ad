/* SPDX-License-Identifier: MIT */
#include "conf/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

void lk__text_wipe(char *text)
{
	if (!text)
		return;
	explicit_bzero(text, strlen(text));
	free(text);
}

int lk__text_replace(char **text, const char *value)
{
	char *copy = strdup(value);
	if (!copy)
		return LK_ENOMEM;
	lk__text_wipe(*text);
	*text = copy;
	return 0;
}

const char *lk__text_number(const char *text, int64_t *number_out)
{
	if (!*text)
		return "is empty, not a number";
	if (text[strspn(text, "0123456789")] || (text[0] == '0' && text[1]))
		return "is not a plain decimal number";
	errno = 0;
	int64_t number = strtoll(text, NULL, 10);
	if (errno)
		return "is too large";
	*number_out = number;
	return NULL;
}

const char *lk__text_edge(const char *text)
{
	size_t size = strlen(text);
	if (size == 0)
		return NULL;
	char first = text[0], last = text[size - 1];
	if (first == '"' || first == '\'')
		return size > 1 && last == first ? "is in quotes" : "begins with a quote";
	if (last == '\n' || last == '\r')
		return "ends in a line break";
	if (first == ' ' || first == '\t' || first == '\n')
		return "begins with a blank";
	return last == ' ' || last == '\t' ? "ends in a blank" : NULL;
}
