/* SPDX-License-Identifier: MIT */
/*
 * Talks to the private server without the library: asks for its state, and sends the few commands
 * that start and stop it. Each exchange ends at a deadline of clock_now_ns().
 */
#ifndef CLI_SERVER_TALK_H
#define CLI_SERVER_TALK_H

#include <stdint.h>
#include <stddef.h>

#include "server.h"

/* Connects to a server of our own user, and asks whether it is ready. */
void talk_look(const struct server_socket *socket, int64_t deadline_ns,
	       struct server_view *view_out);

/* A connection to a server of our own user: a descriptor to close; or -1, with `view_out`'s state
 * and text set. Sets its pid wherever that is known. */
int talk_open(const struct server_socket *socket, int64_t deadline_ns,
	      struct server_view *view_out);

/* Sends an inline command and reads its reply, a line or a bulk string, cut to `size` and with a
 * NUL. Returns 0; or -1 without a reply in time, or when the server has gone. */
int talk_ask(int fd, const char *command, char *reply, size_t size, int64_t deadline_ns);

#endif
