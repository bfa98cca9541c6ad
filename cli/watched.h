/* SPDX-License-Identifier: MIT */
/* A process that something is done for while it lives, and no other that gets its number later. */
#ifndef CLI_WATCHED_H
#define CLI_WATCHED_H

#include <stdint.h>
#include <sys/types.h>

struct watched {
	pid_t pid;
	int fd; /* readable once it has ended (pidfd_open); -1: the kernel has none, and */
	uint64_t started; /* it is known by its start, in ticks since the boot */
};

/* Returns 0 or an errno; ESRCH means that no such process exists. */
int watched_open(struct watched *watched_out, pid_t pid);
void watched_close(struct watched *watched);

/* Whether it runs; a zombie does not. */
int watched_lives(const struct watched *watched);

/* 0, or errno. Signal 0 is not sent: it finds out whether we may. */
int watched_signal(const struct watched *watched, int number);

/* Whether the signal, if it is sent, changes nothing now: the process ignores it, or is the first
 * of its pid namespace and does not catch it. */
int watched_ignores(const struct watched *watched, int number);

#endif
