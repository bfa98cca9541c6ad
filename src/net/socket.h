/* SPDX-License-Identifier: MIT */
/* Waiting for one descriptor. */
#ifndef LK__NET_SOCKET_H
#define LK__NET_SOCKET_H

#include <stdint.h>

/* What a step that never sleeps waits for: it is to be called again when `fd` (-1: none) is ready
 * for `events`, or at `until_ns` (CLOCK_BOOTTIME). Called before, it finds the same. */
struct lk__readiness {
	int fd;
	short events;
	int64_t until_ns;
};

/*
 * Sleeps until then. 0, or -ETIMEDOUT at `until_ns`, or -ECANCELED when `cancel_fd` (-1: none) is
 * readable, which goes first; another -errno when waiting itself fails.
 */
int lk__socket_wait(const struct lk__readiness *readiness, int cancel_fd);

#endif
