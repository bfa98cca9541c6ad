/* SPDX-License-Identifier: MIT */
#include "exposition.h"

#include <inttypes.h>

#include "escape.h"

void exposition_family(FILE *stream, const char *family, const char *type, const char *help)
{
	fprintf(stream, "# HELP %s %s\n# TYPE %s %s\n", family, help, family, type);
}

void exposition_label(FILE *stream, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	size_t length;
	unsigned code_point;
	for (; size > 0; at += length, size -= length) {
		length = utf8_length(at, size, &code_point);
		if (length == 0 || *at == '\0') {
			fputs("\xef\xbf\xbd", stream);
			length = 1;
		} else if (*at == '\n') {
			fputs("\\n", stream);
		} else {
			if (*at == '"' || *at == '\\')
				putc('\\', stream);
			fwrite(at, length, 1, stream);
		}
	}
}

void exposition_thousandths(FILE *stream, int64_t value)
{
	fprintf(stream, "%" PRId64 ".%03" PRId64 "\n", value / 1000, value % 1000);
}
