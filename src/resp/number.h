/* SPDX-License-Identifier: MIT */
/*
 * The numbers of replies, and the one place that reads them. A number is believed when it is whole
 * and in its range: of "1.8E15" no 1 is left, which would be another owner's token as well.
 * After a failure the outputs are as before. And those of requests: a third of what a pair of calls
 * computed was printf().
 */
#ifndef LK__RESP_NUMBER_H
#define LK__RESP_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#define LK__NUMBER_SIZE 20 /* the most digits of a number, or a sign and one less */

/* Writes the number's digits, and returns how many. There is no NUL. */
size_t lk__number_write(char out[LK__NUMBER_SIZE], uint64_t number);

/* The decimal number that the text begins with, as servers write it: no blanks, no plus, no leading
 * zeros. What follows it; NULL when there is none, or none from `least` to `most`. */
const char *lk__number_take(const char *text, int64_t least, int64_t most, int64_t *number_out);

/* The text is such a number and nothing else. */
bool lk__number_read(const char *text, int64_t least, int64_t most, int64_t *number_out);

/* The reply is a string that is such a number and nothing else. */
bool lk__reply_number(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out);

/* The reply is an integer from `least` to `most`. */
bool lk__reply_integer(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out);

#endif
