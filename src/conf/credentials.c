/* SPDX-License-Identifier: MIT */
#include "conf/config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/door.h"

/* How long the line of a pipe or a terminal is waited for: a program may ask a person first. */
#define LINE_MS 60000
/* How long the one who writes to a pipe is waited for. */
#define WRITER_MS 3000

/* Does not wait for the writer of a pipe. */
static int open_file(const char *path, bool regular)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (!regular || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
		return fd;
	close(fd);
	return -ESPIPE;
}

/* Waits until there is something to read: 1, 0 at the end of it, or -errno. */
static int await_bytes(int fd, int64_t deadline_ns)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int64_t left_ms = (deadline_ns - lk__now_ns()) / LK__MS;
	int rc = left_ms > 0 ? lk__poll(&ready, 1, (int)left_ms) : 0;
	if (rc < 0)
		return errno == EINTR ? 1 : -errno;
	return rc == 0 ? -ETIMEDOUT : (ready.revents & POLLIN) != 0;
}

/*
 * Reads up to the first newline, the end of the file or a full buffer. Bytes read, or -errno. A
 * pipe that nobody has opened for writing yet reads as one at its end.
 */
static ssize_t read_line(int fd, char *line, size_t size)
{
	struct stat status;
	bool is_pipe = fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
	int64_t began_ns = lk__now_ns();
	size_t filled = 0;
	while (filled < size && !memchr(line, '\n', filled)) {
		ssize_t got = read(fd, line + filled, size - filled);
		bool is_early = got == 0 && is_pipe && filled == 0;
		int rc = 1;
		if (is_early || (got < 0 && errno == EAGAIN))
			rc = await_bytes(fd, began_ns + (is_early ? WRITER_MS : LINE_MS) * LK__MS);
		else if (got < 0 && errno != EINTR)
			return -errno;
		if (rc < 0)
			return rc;
		if (rc == 0 || (got == 0 && !is_early))
			break;
		filled += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)filled;
}

/* Cuts the line at its newline. NULL, or why it cannot be a password. */
static const char *check_line(char *line, size_t size)
{
	char *newline = memchr(line, '\n', size);
	size_t length = newline ? (size_t)(newline - line) : size;
	if (length > LK__PASSWORD_MAX)
		return "has a first line of more than 4096 bytes";
	if (length == 0)
		return "has an empty first line";
	if (line[length - 1] == '\r')
		return "has a first line that ends in CR LF, as Windows writes it; end it with LF";
	if (memchr(line, '\0', length))
		return "has a NUL in its first line";
	line[length] = '\0';
	return NULL;
}

int lk__password_read(const char *path, bool regular, char *line, const char **reason_out)
{
	int fd = open_file(path, regular);
	if (fd < 0)
		return fd;
	ssize_t size = read_line(fd, line, LK__PASSWORD_MAX + 1);
	close(fd);
	if (size < 0)
		return (int)size;
	*reason_out = check_line(line, (size_t)size);
	return 0;
}
