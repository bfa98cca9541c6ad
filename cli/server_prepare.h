/* SPDX-License-Identifier: MIT */
/*
 * A new server is prepared before others see it.
 *
 * A file that was torn within a transaction still has its first half after a truncated load: the
 * commands that follow would be read as part of it, and a lock would come back without its ttl. So
 * the server writes its file anew. Locks without a ttl, from whatever source, are broken first:
 * nobody would ever free them.
 */
#ifndef CLI_SERVER_PREPARE_H
#define CLI_SERVER_PREPARE_H

#include "server.h"

/* Prepares the server at `socket`, with `had_data` also its data, and publishes it. 0, or
 * EXIT_TROUBLE (said). */
int server_prepare(int folder, const struct server_socket *socket, int had_data);

/* Calls `each` with every lock of the server at `url`. It returns 0, or an exit code that ends the
 * walk. 0, that code, or EXIT_TROUBLE (said). */
struct lk_client;
struct lk_lock_info;
int locks_walk(const char *url,
	       int (*each)(struct lk_client *client, const struct lk_lock_info *info, void *state),
	       void *state);

#endif
