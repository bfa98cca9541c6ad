/* SPDX-License-Identifier: MIT */
/*
 * Enough descriptors, from the start: a client that runs out of them while it waits could miss that
 * the lock is free. And none that somebody else has left open.
 */
#ifndef CLI_DESCRIPTORS_H
#define CLI_DESCRIPTORS_H

#include <stddef.h>
#include <sys/resource.h>

/* Raises our soft limit to the hard one; the command must get `*saved_out` back. */
void descriptors_raise(struct rlimit *saved_out);

/* Checks that clients of so many servers have what they need. 0, or EXIT_TROUBLE (said). */
int descriptors_check(size_t servers);

/* Closes all from `first` to `last`. Between fork() and exec(), too. */
void descriptors_close(unsigned first, unsigned last);

#endif
