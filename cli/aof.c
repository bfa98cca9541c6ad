/* SPDX-License-Identifier: MIT */
#include "aof.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define NAME_ROOM 16 /* longer than the names that we look for */
#define DIGITS_MOST 10

/* CRC-64 of Jones, lowest bit first, as both servers write it. */
#define CRC_POLYNOMIAL UINT64_C(0x95ac9329ac4bc9b5)
#define CRC_SIZE 8
#define IMAGE_END 0xFF

/* The byte that will be read next, or EOF. */
static int next_byte(FILE *file)
{
	int byte = getc_unlocked(file);
	ungetc(byte, file);
	return byte;
}

static void crc_prepare(uint64_t table[256])
{
	for (unsigned byte = 0; byte < 256; byte++) {
		uint64_t value = byte;
		for (int bit = 0; bit < 8; bit++)
			value = value >> 1 ^ (value & 1 ? CRC_POLYNOMIAL : 0);
		table[byte] = value;
	}
}

/*
 * The image does not tell its size, and only who knows all types of data could walk over it. So we
 * look for its end: the byte IMAGE_END, and behind it the checksum of all so far.
 *
 * Where the data end with that byte, too, and the checksum with a zero, the end seems to be one
 * byte earlier as well: a checksum over data and checksum is 0, and a zero does not change it. Then
 * the right end is the one behind which the file ends, or commands begin. With rubbish there, none
 * is certain.
 */
static off_t image_end(FILE *file)
{
	uint64_t table[256], crc = 0, last = 0; /* the last CRC_SIZE bytes, as a number */
	struct {
		uint64_t crc;
		int ends;
	} past[CRC_SIZE] = {{0, 0}}; /* by position: of CRC_SIZE bytes ago */
	int byte, found = 0;
	crc_prepare(table);
	for (off_t at = 0; (byte = getc_unlocked(file)) != EOF; at++) {
		size_t slot = (size_t)at % CRC_SIZE;
		last = last >> 8 | (uint64_t)byte << 56;
		if (past[slot].ends && past[slot].crc == last) {
			int next = next_byte(file);
			found++;
			if (next == EOF || next == '*' || next == '#')
				return at + 1;
			if (next != 0 || !past[(slot + 1) % CRC_SIZE].ends)
				return found == 1 ? at + 1 : 0;
		}
		crc = table[(crc ^ (uint64_t)byte) & 0xFF] ^ crc >> 8;
		past[slot].crc = crc;
		past[slot].ends = byte == IMAGE_END;
	}
	return 0;
}

static int line_ends(FILE *file)
{
	int first = getc_unlocked(file);
	return first == '\r' && getc_unlocked(file) == '\n';
}

/* The number behind `mark`; -1: there is none. */
static long number_read(FILE *file, int mark)
{
	long value = 0;
	int byte, digits = 0;
	if (getc_unlocked(file) != mark)
		return -1;
	for (; (byte = getc_unlocked(file)) >= '0' && byte <= '9' && digits < DIGITS_MOST; digits++)
		value = 10 * value + byte - '0';
	ungetc(byte, file);
	return digits > 0 && line_ends(file) ? value : -1;
}

/* Reads an argument, and the start of it as text. 1 when it is whole. */
static int argument_read(FILE *file, char start[NAME_ROOM])
{
	long length = number_read(file, '$');
	memset(start, 0, NAME_ROOM);
	for (long at = 0; at < length; at++) {
		int byte = getc_unlocked(file);
		if (byte == EOF)
			return 0;
		if (at < NAME_ROOM - 1)
			start[at] = (char)byte;
	}
	return length >= 0 && line_ends(file);
}

/* A command's name in a block that the disk has filled with zeros is none. */
static int name_is_sound(const char *name)
{
	for (const char *at = name; *at; at++) {
		if (*at <= ' ' || *at > '~')
			return 0;
	}
	return *name != '\0';
}

/* Reads a command and its name. 1 when it is whole. */
static int command_read(FILE *file, char name[NAME_ROOM])
{
	char ignored[NAME_ROOM];
	long count = number_read(file, '*');
	if (count < 1 || !argument_read(file, name) || !name_is_sound(name))
		return 0;
	while (--count > 0) {
		if (!argument_read(file, ignored))
			return 0;
	}
	return 1;
}

/* Passes over the times that a server may write between commands: `#TS:…`. 1 when one is whole. */
static int time_read(FILE *file)
{
	int byte;
	while ((byte = getc_unlocked(file)) != EOF && byte != '\n') {
		if (byte == '\0')
			return 0;
	}
	return byte == '\n';
}

static int entry_read(FILE *file, char name[NAME_ROOM])
{
	name[0] = '\0';
	return next_byte(file) == '#' ? time_read(file) : command_read(file, name);
}

static off_t commands_end(FILE *file, off_t start)
{
	char name[NAME_ROOM];
	off_t whole = start;
	int inside = 0; /* a transaction */
	while (entry_read(file, name)) {
		if (strcasecmp(name, "MULTI") == 0)
			inside = 1;
		else if (strcasecmp(name, "EXEC") == 0)
			inside = 0;
		if (!inside)
			whole = ftello(file);
	}
	return whole;
}

int aof_measure(FILE *file, off_t *whole_out)
{
	char start[6] = "";
	size_t got = fread(start, 1, sizeof(start), file);
	int has_image = got == sizeof(start) &&
			(memcmp(start, "REDIS", 5) == 0 || memcmp(start, "VALKEY", 6) == 0);
	rewind(file);
	off_t whole = has_image ? image_end(file) : 0;
	if (!has_image || whole > 0)
		whole = commands_end(file, whole);
	if (ferror(file))
		return -1;
	*whole_out = whole;
	return 0;
}
