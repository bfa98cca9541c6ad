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
#include "base/fail.h"

/* ---- a file ---- */

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

/* ---- renewed ---- */

/* `option`: the file's, for messages. */
static int renew_from_file(const struct lk_config *config, const char *option, const char *path,
			   char **password)
{
	char line[LK__PASSWORD_MAX + 2];
	const char *reason = NULL;
	int rc = lk__password_read(path, true, line, &reason);
	if (rc < 0 || reason)
		lk__log(&config->log, LK_LOG_WARNING,
			"%s: it %s; the password with which the option was set stands", option,
			reason ? reason : "cannot be read again");
	rc = rc < 0 || reason ? 0 : lk__text_replace(password, line);
	explicit_bzero(line, sizeof(line));
	return rc;
}

static int renew_from_program(struct lk_config *config, const char *place, lk_error *error)
{
	lk_credentials *given = calloc(1, sizeof(*given));
	if (!given)
		return LK_ENOMEM;
	int rc = 0;
	if (config->credentials(config->credentials_context, place, given) != 0)
		rc = lk__fail(error, LK_EUNREACHABLE,
			      "%s: the program has no credentials for it at present", place);
	given->username[sizeof(given->username) - 1] = '\0';
	given->password[sizeof(given->password) - 1] = '\0';
	if (rc == 0)
		rc = lk__text_replace(&config->username, given->username);
	if (rc == 0)
		rc = lk__text_replace(&config->password, given->password);
	explicit_bzero(given, sizeof(*given));
	free(given);
	return rc;
}

bool lk__credentials_change(const struct lk_config *config)
{
	return config->credentials || *config->password_file || *config->sentinel_password_file;
}

bool lk__certificates_change(const struct lk_config *config)
{
	return *config->tls_ca_file || *config->tls_ca_dir || *config->tls_cert_file;
}

int lk__key_password_renew(struct lk_config *config, const char *place, lk_error *error)
{
	const char *path = config->tls_key_password_file;
	int rc = *path ? renew_from_file(config, "tls_key_password_file", path,
					 &config->tls_key_password)
		       : 0;
	return rc < 0 ? lk__fail(error, rc, "%s: no memory for the password of a key", place) : 0;
}

int lk__credentials_renew(struct lk_config *config, const char *place, lk_error *error)
{
	int rc = 0;
	if (config->credentials)
		rc = renew_from_program(config, place, error);
	else if (*config->password_file)
		rc = renew_from_file(config, "password_file", config->password_file,
				     &config->password);
	return rc == LK_ENOMEM ? lk__fail(error, rc, "%s: no memory for credentials", place) : rc;
}
