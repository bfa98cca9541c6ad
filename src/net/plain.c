/* SPDX-License-Identifier: MIT */
#include "net/plain.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/door.h"

static ssize_t plain_read(struct lk__stream *stream, void *bytes, size_t size)
{
	ssize_t got = lk__socket_read(stream->fd, bytes, size);
	return got < 0 ? -errno : got;
}

static ssize_t plain_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	ssize_t sent = lk__socket_write(stream->fd, bytes, size);
	return sent < 0 ? -errno : sent;
}

static void plain_close(struct lk__stream *stream)
{
	lk__fd_close(stream->fd);
	free(stream);
}

static const struct lk__stream_ops plain_ops = {
	.read = plain_read,
	.write = plain_write,
	.close = plain_close,
};

struct lk__stream *lk__plain_new(int fd)
{
	struct lk__stream *stream = calloc(1, sizeof(*stream));
	if (stream)
		*stream = (struct lk__stream){.ops = &plain_ops, .fd = fd, .wants = POLLIN};
	return stream;
}
