/* SPDX-License-Identifier: MIT */
/*
 * Names and messages made safe for a terminal: control bytes, bidirectional controls and bytes
 * that are not UTF-8 are written as \xNN.
 */
#ifndef CLI_ESCAPE_H
#define CLI_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

/*
 * The length of the UTF-8 sequence at `bytes` (1 to 4), with its code point, or 0 when what stands
 * there is not UTF-8 (overlong forms and surrogates are not).
 */
size_t utf8_length(const unsigned char *bytes, size_t size, unsigned *code_point_out);

/* 1 when all bytes are UTF-8 without a NUL, else 0. */
int utf8_is_valid(const void *bytes, size_t size);

/* Writes the escaped bytes to `stream`. */
void escape_print(FILE *stream, const void *bytes, size_t size);

#endif
