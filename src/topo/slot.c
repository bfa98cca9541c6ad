/* SPDX-License-Identifier: MIT */
#include "topo/slot.h"

#include <string.h>

/* CRC16 with the polynomial 0x1021 (XMODEM), four bits at a time. */
static uint16_t crc16(const unsigned char *bytes, size_t size)
{
	static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
					   0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
					   0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
	uint16_t crc = 0;
	for (size_t i = 0; i < size; i++) {
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] >> 4)];
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] & 15)];
	}
	return crc;
}

uint16_t lk__slot_of(const void *key, size_t size)
{
	const char *begin = key, *end = begin + size;
	const char *open = size ? memchr(begin, '{', size) : NULL;
	const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
	if (close && close > open + 1) {
		begin = open + 1;
		end = close;
	}
	return crc16((const unsigned char *)begin, (size_t)(end - begin)) % LK__SLOTS;
}
