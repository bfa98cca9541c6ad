/* SPDX-License-Identifier: MIT */
/*
 * The numbers of replies, and the one place that reads them. A number is believed when it is whole
 * and in its range: of "1.8E15" no 1 is left, which would be another owner's token as well.
 * After a failure the outputs are as before.
 */
#ifndef LK__RESP_NUMBER_H
#define LK__RESP_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

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
