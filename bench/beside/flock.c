/* SPDX-License-Identifier: MIT */
/* A file of one host, flock(2). The URL is a folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common.h"
#include "turns.h"

#define NAMES_MAX 4096

struct session {
	const char *folder;
	int fds[NAMES_MAX];
	int count;
};

static void *flock_open(const char *url, const char *kind)
{
	struct session *session = calloc(1, sizeof(*session));
	(void)kind;
	if (!session)
		bench_die("out of memory");
	session->folder = url;
	return session;
}

/* The file is opened for each turn and stays in its folder, as util-linux's flock does. */
static enum turns_outcome flock_lock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", session->folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || session->count == NAMES_MAX || flock(fd, LOCK_EX)) {
		*text = strerror(errno);
		return TURNS_FAILED;
	}
	session->fds[session->count++] = fd;
	return TURNS_OK;
}

static enum turns_outcome flock_unlock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	(void)name;
	(void)text;
	close(session->fds[--session->count]);
	return TURNS_OK;
}

int main(int argc, char **argv)
{
	static const struct turns_lock lock = {flock_open, flock_lock, flock_unlock};
	return turns_main(argc, argv, &lock);
}
