/* SPDX-License-Identifier: MIT */
#include "base/random.h"

#include <lockkeeper/error.h>

#include "base/door.h"

int lk__random_uuid(char uuid[LK__UUID_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[16];
	if (lk__random_bytes(bytes, sizeof(bytes)) != 0)
		return LK_ESYSTEM;
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* RFC 4122 variant */
	char *at = uuid;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[bytes[i] >> 4];
		*at++ = digits[bytes[i] & 15];
	}
	*at = '\0';
	return 0;
}
