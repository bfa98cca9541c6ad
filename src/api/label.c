/* SPDX-License-Identifier: MIT */
#include "api/label.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

char *lk__label_new(const void *bytes, size_t size)
{
	const char *at = bytes;
	char *label = malloc(size * strlen(REPLACEMENT) + 1), *end = label;
	while (label && size > 0) {
		size_t length = lk__utf8_size(at, size);
		bool fits = length > 0 && *at;
		const char *from = fits ? at : REPLACEMENT;
		size_t count = fits ? length : strlen(REPLACEMENT);
		memcpy(end, from, count);
		end += count;
		length = length ? length : 1;
		at += length;
		size -= length;
	}
	if (label)
		*end = '\0';
	return label;
}
