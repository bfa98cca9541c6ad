/* SPDX-License-Identifier: MIT */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTED_MAX 65536 /* higher numbers are not noted; only pages that are used take memory */
#define NO_INODE UINT32_MAX

/*
 * By descriptor: the process that opened it, in the upper half, and in the lower one what it is. A
 * socket has an inode that no other has. The others (eventfd, timerfd, epoll) share one, so the
 * process marks each by making itself its owner (F_SETOWN): the kernel would tell the owner of
 * input, which nobody asks for, and of nothing else. A socket is not marked: the kernel tells its
 * owner of urgent data.
 */
static _Atomic uint64_t noted[NOTED_MAX];
static _Atomic int noted_end; /* behind the highest */

static uint32_t inode_of(int fd)
{
	struct stat status;
	return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? (uint32_t)status.st_ino
								   : NO_INODE;
}

int lk__fd_note(int fd)
{
	int saved = errno, end = atomic_load(&noted_end);
	if (fd < 0 || fd >= NOTED_MAX)
		return fd;
	pid_t pid = getpid();
	uint32_t inode = inode_of(fd);
	if (inode != NO_INODE || fcntl(fd, F_SETOWN, pid) == 0)
		atomic_store(&noted[fd], (uint64_t)pid << 32 | inode);
	while (end <= fd && !atomic_compare_exchange_weak(&noted_end, &end, fd + 1))
		continue;
	errno = saved;
	return fd;
}

void lk__fd_forget(int fd)
{
	if (fd >= 0 && fd < NOTED_MAX)
		atomic_store(&noted[fd], 0);
}

static bool is_still(int fd, uint64_t note)
{
	pid_t pid = (pid_t)(note >> 32);
	uint32_t inode = (uint32_t)note;
	return inode_of(fd) == inode && (inode != NO_INODE || fcntl(fd, F_GETOWN) == pid);
}

void lk__fds_drop_inherited(void)
{
	int saved = errno, end = atomic_load(&noted_end);
	pid_t pid = getpid();
	for (int fd = 0; fd < end; fd++) {
		uint64_t note = atomic_load(&noted[fd]);
		if (note == 0 || (pid_t)(note >> 32) == pid)
			continue;
		atomic_store(&noted[fd], 0);
		if (is_still(fd, note))
			close(fd);
	}
	errno = saved;
}
