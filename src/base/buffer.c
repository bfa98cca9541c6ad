/* SPDX-License-Identifier: MIT */
#include "base/containers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/error.h>

#define ROOM_LEAST 512
#define ROOM_KEPT (1 << 20) /* an empty buffer gives back what is larger */
#define SIZE_MOST (1 << 30)

static void move_to_front(struct lk__buffer *buffer)
{
	size_t size = lk__buffer_size(buffer);
	if (buffer->start > 0 && size > 0)
		memmove(buffer->bytes, buffer->bytes + buffer->start, size);
	buffer->start = 0;
	buffer->end = size;
}

/* Makes room for `size` more bytes behind the end. */
static int reserve(struct lk__buffer *buffer, size_t size)
{
	size_t used = lk__buffer_size(buffer);
	if (size > SIZE_MOST - used)
		return LK_ENOMEM;
	/* Moving costs no more than what was taken, so bytes are moved once on the average. */
	if (used + size <= buffer->room && buffer->start >= used) {
		move_to_front(buffer);
		return 0;
	}
	size_t room = buffer->room ? buffer->room : ROOM_LEAST;
	while (room < used + size || room < buffer->room * 2)
		room *= 2;
	char *bytes = realloc(buffer->bytes, room);
	if (!bytes)
		return LK_ENOMEM;
	buffer->bytes = bytes;
	buffer->room = room;
	move_to_front(buffer);
	return 0;
}

char *lk__buffer_extend(struct lk__buffer *buffer, size_t size)
{
	if (size > buffer->room - buffer->end && reserve(buffer, size) != 0)
		return NULL;
	assert(size <= buffer->room - buffer->end);
	buffer->end += size;
	return buffer->bytes + buffer->end - size;
}

int lk__buffer_append(struct lk__buffer *buffer, const void *bytes, size_t size)
{
	if (size == 0)
		return 0;
	char *place = lk__buffer_extend(buffer, size);
	if (!place)
		return LK_ENOMEM;
	memcpy(place, bytes, size);
	return 0;
}

void lk__buffer_take(struct lk__buffer *buffer, size_t size)
{
	size_t have = lk__buffer_size(buffer);
	buffer->start += size < have ? size : have;
	if (buffer->start < buffer->end)
		return;
	buffer->start = buffer->end = 0;
	if (buffer->room > ROOM_KEPT)
		lk__buffer_free(buffer);
}

void lk__buffer_free(struct lk__buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct lk__buffer){0};
}
