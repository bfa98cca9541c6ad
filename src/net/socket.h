/* SPDX-License-Identifier: MIT */
/* Waiting for one descriptor. */
#ifndef LK__NET_SOCKET_H
#define LK__NET_SOCKET_H

#include <stdint.h>

/*
 * Waits until `fd` (-1: none) is ready for `events`. 0, or -ETIMEDOUT at `deadline_ns`
 * (CLOCK_BOOTTIME), or -ECANCELED when `cancel_fd` (-1: none) is readable, which goes first.
 */
int lk__socket_wait(int fd, short events, int64_t deadline_ns, int cancel_fd);

#endif
