/* SPDX-License-Identifier: MIT */
/* A growing run of bytes: appended at the end, taken from the front. */
#ifndef LK__BASE_BUFFER_H
#define LK__BASE_BUFFER_H

#include <stddef.h>

struct lk__buffer {
	char *bytes;
	size_t start; /* first byte not yet taken */
	size_t end;   /* one past the last byte */
	size_t room;  /* allocated */
};

/* Appends so many bytes, which the caller writes; NULL, with the buffer unchanged, when out of
 * memory, or beyond 1 GiB. */
char *lk__buffer_extend(struct lk__buffer *buffer, size_t size);

/* Appends; 0, or LK_ENOMEM with the buffer unchanged. */
int lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size);

/* Drops `size` bytes from the front. */
void lk__buffer_take(struct lk__buffer *buffer, size_t size);

void lk__buffer_free(struct lk__buffer *buffer);

static inline size_t lk__buffer_size(const struct lk__buffer *buffer)
{
	return buffer->end - buffer->start;
}

static inline const char *lk__buffer_front(const struct lk__buffer *buffer)
{
	return buffer->bytes + buffer->start;
}

#endif
