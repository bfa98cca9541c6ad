/* SPDX-License-Identifier: MIT */
#include "server_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"

/* Why it cannot be used has been said: what can be done about it. */
static int refuse_folder(void)
{
	message("set LOCKKEEPER_STATE_DIR, or name a server in LOCKKEEPER_URL");
	return FOLDER_REFUSED;
}

static int refuse_owner(const char *path, uid_t owner)
{
	trouble("%s: belongs to user %u, not to this user", path, (unsigned)owner);
	return refuse_folder();
}

/*
 * Whoever owns a directory, or may write to it and finds no sticky bit, can put another folder in
 * the place of ours. The owner of / can do so anyhow; within a user namespace that is not user 0.
 * A directory that our own group may write to passes: many systems give each user a group.
 */
static int parent_check(const char *path, uid_t root)
{
	struct stat status;
	if (stat(path, &status)) {
		trouble_errno(errno, "%s", path);
		return FOLDER_REFUSED;
	}
	if (status.st_uid != root && status.st_uid != 0 && status.st_uid != geteuid())
		return refuse_owner(path, status.st_uid);
	mode_t writers = status.st_mode & (S_IWOTH | S_IWGRP);
	if (status.st_gid == getegid() || status.st_gid == 0)
		writers &= ~(mode_t)S_IWGRP;
	if (writers == 0 || (status.st_mode & S_ISVTX))
		return 0;
	trouble("%s: mode %03o lets other users replace the folder of the private server", path,
		(unsigned)status.st_mode & 0777);
	return FOLDER_REFUSED;
}

/* Checks each directory above `path`, which exists, with symbolic links followed. */
static int parents_check(const char *path)
{
	struct stat root;
	char above[PATH_MAX], real[PATH_MAX];
	snprintf(above, sizeof(above), "%s", path);
	char *leaf = strrchr(above, '/');
	leaf[leaf == above] = '\0';
	if (!realpath(above, real) || stat("/", &root)) {
		trouble_errno(errno, "%s", above);
		return FOLDER_REFUSED;
	}
	int result = parent_check("/", root.st_uid);
	for (char *end = real; result == 0 && end && end[1];) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		result = parent_check(real, root.st_uid);
		if (end)
			*end = '/';
	}
	return result;
}

static int folder_check(int folder, const char *path)
{
	struct stat status;
	if (fstat(folder, &status)) {
		trouble_errno(errno, "%s", path);
		return FOLDER_REFUSED;
	}
	if (status.st_uid != geteuid())
		return refuse_owner(path, status.st_uid);
	if (status.st_mode & 077) {
		trouble("%s: mode %03o allows access by other users; it must be 700", path,
			(unsigned)status.st_mode & 0777);
		return FOLDER_REFUSED;
	}
	return parents_check(path);
}

/* Why the folder could not be opened, with errno of open(2). */
static int refuse_open(const char *path)
{
	int reason = errno;
	struct stat status;
	if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
		trouble("%s: is a symbolic link; LOCKKEEPER_STATE_DIR must name the folder itself",
			path);
	else if (reason == ENOTDIR)
		trouble("%s: not a folder", path);
	else
		trouble_errno(reason, "%s", path);
	return refuse_folder();
}

int folder_open(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0 && errno == ENOENT)
		return FOLDER_NONE;
	if (folder < 0)
		return refuse_open(path);
	int result = folder_check(folder, path);
	if (result == 0)
		return folder;
	close(folder);
	return result;
}

static int refuse_make(const char *path)
{
	trouble_errno(errno, "cannot make the folder %s", path);
	return refuse_folder();
}

int folder_make(const char *path)
{
	char part[PATH_MAX];
	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = part; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = '\0';
		if (mkdir(part, 0700) && errno != EEXIST)
			return refuse_make(part);
	}
	if (mkdir(part, 0700) && errno != EEXIST)
		return refuse_make(part);
	int folder = folder_open(path);
	if (folder != FOLDER_NONE)
		return folder;
	errno = ENOENT; /* it was there a moment ago */
	return refuse_make(path);
}

int folder_file(int folder, const char *leaf, int flags)
{
	return openat(folder, leaf, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}
