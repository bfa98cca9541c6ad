/* SPDX-License-Identifier: MIT */
#include "escape.h"

static const struct {
	unsigned first, last, least;
	size_t length;
} forms[] = {
	{0x00, 0x7f, 0x0, 1},
	{0xc2, 0xdf, 0x80, 2},
	{0xe0, 0xef, 0x800, 3},
	{0xf0, 0xf4, 0x10000, 4},
};

static size_t form_decode(const unsigned char *bytes, size_t size, size_t form, unsigned *point_out)
{
	size_t length = forms[form].length;
	if (length > size)
		return 0;
	unsigned point = length == 1 ? bytes[0] : bytes[0] & (0xffU >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (bytes[i] & 0x3fU);
	}
	if (point < forms[form].least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*point_out = point;
	return length;
}

size_t utf8_length(const unsigned char *bytes, size_t size, unsigned *code_point_out)
{
	if (size == 0)
		return 0;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (bytes[0] >= forms[i].first && bytes[0] <= forms[i].last)
			return form_decode(bytes, size, i, code_point_out);
	}
	return 0;
}

int utf8_is_valid(const void *bytes, size_t size)
{
	const unsigned char *next = bytes;
	while (size > 0) {
		unsigned point;
		size_t length = utf8_length(next, size, &point);
		if (length == 0 || point == 0)
			return 0;
		next += length;
		size -= length;
	}
	return 1;
}

/* Code points that move the cursor, change the terminal's state, or reorder what is read. */
static int point_is_control(unsigned point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x200e ||
	       point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
	       (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
}

void escape_print(FILE *stream, const void *bytes, size_t size)
{
	const unsigned char *next = bytes;
	while (size > 0) {
		unsigned point = 0;
		size_t length = utf8_length(next, size, &point);
		if (length > 0 && !point_is_control(point)) {
			fwrite(next, 1, length, stream);
		} else {
			length = length ? length : 1;
			for (size_t i = 0; i < length; i++)
				fprintf(stream, "\\x%02x", next[i]);
		}
		next += length;
		size -= length;
	}
}
