/*
 * A redis-server of the suite's own, on a unix socket and a free port of the loopback.
 *
 * It dies with the process that started it. It saves nothing. Failing to start ends the process.
 */
#ifndef HARNESS_SERVER_H
#define HARNESS_SERVER_H

#include <sys/types.h>

#define SERVER_ARGUMENTS_MAX 24

struct server {
	pid_t pid; /* 0: not running */
	int port;
	int bus_port; /* of a cluster's node */
	char folder[64];
	char socket[96];
	char url_unix[112];
	char url_tcp[64];
	const char *const *arguments; /* of redis-server, beyond ours; ended by NULL; may be NULL */
};

/* Starts it and waits until it answers. `arguments` must live as long as the server. */
void server_start(struct server *server, const char *const *arguments);

/* Kills it, and removes its folder. */
void server_stop(struct server *server);

/* Kills it; all that it knew is gone, unless it was told to save. */
void server_kill(struct server *server);

/* Starts a killed one again, at the same places. */
void server_start_again(struct server *server);

/* SIGSTOP, once it has taken effect; SIGCONT. */
void server_pause(struct server *server);
void server_resume(struct server *server);

#endif
