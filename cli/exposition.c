/* SPDX-License-Identifier: MIT */
#include "exposition.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "escape.h"

#define OPEN "application/openmetrics-text"
#define OPEN_VERSION "1.0.0"
#define UNIT "_seconds"
#define RANGE_SIZE 128 /* a longer one names neither */

void exposition_family(FILE *stream, const char *family, const char *type, const char *help)
{
	size_t size = strlen(family), end = strlen(UNIT);
	fprintf(stream, "# TYPE %s %s\n", family, type);
	if (size > end && strcmp(family + size - end, UNIT) == 0)
		fprintf(stream, "# UNIT %s %s\n", family, &UNIT[1]);
	fprintf(stream, "# HELP %s %s\n", family, help);
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

void exposition_end(FILE *stream)
{
	fputs("# EOF\n", stream);
}

/* ---- what a reader asks for ---- */

/* Between 0 and 1000, of "0.25"; in integers: no locale changes them. */
static int weight_parse(const char *text)
{
	int weight = *text == '1' ? 1000 : 0;
	if (strncmp(text, "0.", 2) == 0)
		for (int i = 2, unit = 100; unit > 0 && isdigit((unsigned char)text[i]); unit /= 10)
			weight += (text[i++] - '0') * unit;
	return weight;
}

/* The next word before a semicolon, without blanks around it; NULL: there is none. */
static char *word_next(char **rest)
{
	char *word = strsep(rest, ";");
	if (!word)
		return NULL;
	word += strspn(word, " \t");
	for (size_t size = strlen(word); size > 0 && strchr(" \t", word[size - 1]);)
		word[--size] = '\0';
	return word;
}

/* One range: how much it wants each of the formats. */
static void range_read(const char *range, size_t size, int *open, int *plain)
{
	char text[RANGE_SIZE], *rest = text, *word;
	const char *version = "";
	int weight = 1000, *wants = NULL;
	if (size >= sizeof(text))
		return;
	memcpy(text, range, size);
	text[size] = '\0';
	const char *type = word_next(&rest);
	while ((word = word_next(&rest))) {
		if (strncasecmp(word, "q=", 2) == 0)
			weight = weight_parse(word + 2);
		else if (strncasecmp(word, "version=", 8) == 0)
			version = word + 8;
	}
	if (strcasecmp(type, OPEN) == 0 && (!*version || strcmp(version, OPEN_VERSION) == 0))
		wants = open;
	else if (strcasecmp(type, "text/plain") == 0 || strcmp(type, "text/*") == 0 ||
		 strcmp(type, "*/*") == 0)
		wants = plain;
	if (wants && weight > *wants)
		*wants = weight;
}

const char *exposition_type(const char *accept)
{
	int open = 0, plain = 0;
	while (*accept) {
		size_t size = strcspn(accept, ",");
		range_read(accept, size, &open, &plain);
		accept += size + (accept[size] == ',');
	}
	return open > 0 && open >= plain ? OPEN "; version=" OPEN_VERSION "; charset=utf-8"
					 : "text/plain; version=0.0.4; charset=utf-8";
}
