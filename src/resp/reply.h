/* SPDX-License-Identifier: MIT */
/*
 * Bytes in, values out: hiredis' reply reader behind limits of our own.
 *
 * hiredis allocates an array as large as its header claims, before a single element is there;
 * here elements, depth and bytes are capped before anything is allocated. After an error the
 * stream cannot be trusted any more: close the connection.
 */
#ifndef LK__RESP_REPLY_H
#define LK__RESP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

#define LK__REPLY_ELEMENTS_MAX 65536  /* in all arrays of one value together */
#define LK__REPLY_BYTES_MAX (4 << 20) /* of one value, or of values not yet taken */
#define LK__REPLY_LINE_MAX 65536      /* of a status, an error or a number */
#define LK__REPLY_DEPTH_MAX 7         /* arrays in arrays */

struct lk__reader;

/* NULL when out of memory. */
struct lk__reader *lk__reader_new(void);
void lk__reader_free(struct lk__reader *reader);

/* Appends bytes. 0, LK_ENOMEM, or LK_EPROTOCOL when the cap on buffered bytes is exceeded. */
int lk__reader_feed(struct lk__reader *reader, const void *bytes, size_t size);

/*
 * Takes the next whole value: 1 and a reply to be freed with freeReplyObject(), 0 when more bytes
 * are needed, or LK_EPROTOCOL / LK_ENOMEM; lk__reader_error() then says why.
 */
int lk__reader_next(struct lk__reader *reader, redisReply **reply_out);
const char *lk__reader_error(const struct lk__reader *reader);

/* Tells whether a byte has come. */
bool lk__reader_begun(const struct lk__reader *reader);

/* The string at that place of an array, or "". */
const char *lk__element_text(const redisReply *array, size_t index);

/* The value of a field in a list of fields and values, as HELLO and sentinels answer; NULL: it has
 * none. And its text, or "". */
const redisReply *lk__field_value(const redisReply *list, const char *field);
const char *lk__field_text(const redisReply *list, const char *field);

/* The value behind "name:" at the beginning of a line of INFO's text, with what follows it; NULL:
 * there is none. */
const char *lk__info_find(const char *info, const char *name);

/*
 * ---- numbers ----
 *
 * The numbers of replies, and the one place that reads them. A number is believed when it is whole
 * and in its range: of "1.8E15" no 1 is left, which would be another owner's token as well.
 * After a failure the outputs are as before. And those of requests: a third of what a pair of calls
 * computed was printf().
 */

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
