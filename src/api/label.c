/* SPDX-License-Identifier: MIT */
#include "api/label.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

size_t lk__utf8_size(const char *bytes, size_t size)
{
	const unsigned char *at = (const unsigned char *)bytes;
	size_t needed = *at < 0x80                  ? 1
			: *at >= 0xc2 && *at < 0xe0 ? 2
			: *at >= 0xe0 && *at < 0xf0 ? 3
			: *at >= 0xf0 && *at < 0xf5 ? 4
						    : 0;
	if (needed > size)
		return 0;
	for (size_t i = 1; i < needed; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	bool overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
	bool none = (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf4 && at[1] >= 0x90);
	return overlong || none ? 0 : needed;
}

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
