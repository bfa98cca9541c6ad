/* SPDX-License-Identifier: MIT */
/* A process that something is done for while it lives, and no other that gets its number later. */
#ifndef CLI_PROCESS_HANDLE_H
#define CLI_PROCESS_HANDLE_H

#include <stdint.h>
#include <sys/types.h>

struct process_handle {
	pid_t pid;
	int fd; /* readable once it has ended (pidfd_open); -1: the kernel has none, and */
	uint64_t started; /* it is known by its start, in ticks since the boot */
};

/* Returns 0 or an errno; ESRCH means that no such process exists. */
int process_handle_open(struct process_handle *process_out, pid_t pid);
void process_handle_close(struct process_handle *process);

/* Tells whether it runs; a zombie does not. */
int process_handle_lives(const struct process_handle *process);

/* 0, or errno. Signal 0 is not sent: it finds out whether we may. */
int process_handle_signal(const struct process_handle *process, int number);

/* Tells whether the signal, if it is sent, changes nothing now: the process ignores it, or is the
 * first of its pid namespace and does not catch it. */
int process_handle_ignores(const struct process_handle *process, int number);

#endif
