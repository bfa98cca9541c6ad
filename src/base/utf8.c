/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdbool.h>

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
