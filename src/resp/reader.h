/* SPDX-License-Identifier: MIT */
/*
 * Bytes in, values out: hiredis' reply reader behind limits of our own.
 *
 * hiredis allocates an array as large as its header claims, before a single element is there;
 * here elements, depth and bytes are capped before anything is allocated. After an error the
 * stream cannot be trusted any more: close the connection.
 */
#ifndef LK__RESP_READER_H
#define LK__RESP_READER_H

#include <stdbool.h>
#include <stddef.h>

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

/* Whether a byte has come. */
bool lk__reader_begun(const struct lk__reader *reader);

/* The string at that place of an array, or "". */
const char *lk__element_text(const redisReply *array, size_t index);

#endif
