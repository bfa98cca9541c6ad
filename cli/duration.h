/* SPDX-License-Identifier: MIT */
/* Durations as timeout(1) reads them, made strict. */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include <stdint.h>

/*
 * Reads the whole text as a number of seconds, with or without a fraction, or with a unit: ms, s,
 * m, h or d. What is smaller than a millisecond is rounded up. Writes ms and returns 0, or returns
 * -EINVAL (not a duration: sign, space, exponent, hexadecimal, rest) or -ERANGE (over int64_t).
 */
int duration_parse(const char *text, int64_t *ms_out);

#endif
