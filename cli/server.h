/*
 * The private server: a redis-server on a unix socket, one a user and host, for use without any
 * set-up. It is started when it is first needed and left running, in a session of its own.
 *
 *   ~/.local/state/lockkeeper/HOST/      0700, or LOCKKEEPER_STATE_DIR; the home directory is that
 *     lock  alive                        of the user's entry, so that cron and a terminal agree
 *     redis.conf redis.sock redis.log
 *     appendonlydir/                     the locks outlive a restart of the server
 *
 * Starts and stops hold a flock(2) on `lock`, so that racing starts make one server. The server
 * holds a lock on `alive` for as long as it lives, whoever started it and has been killed since:
 * two servers must never write the same data.
 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <limits.h>
#include <sys/types.h>
#include <sys/un.h>

struct server_place {
	char folder[PATH_MAX];
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char url[4 * PATH_MAX]; /* unix://…, with %XX where need be */
};

/* Finds the place; creates nothing. 0, or EXIT_TROUBLE (said). */
int server_locate(struct server_place *place_out);

/* Makes sure that the server answers, starting it if need be. 0, or EXIT_TROUBLE (said). */
int server_ensure(const struct server_place *place);

/* The process id of the server that answers, or 0 when none does. */
pid_t server_find(const struct server_place *place);

/* Ends the server `pid` and waits for its end. 0, or EXIT_TROUBLE (said). */
int server_end(const struct server_place *place, pid_t pid);

/* Takes the lock file; returns a descriptor to close, or -1 (said). */
int server_guard(const struct server_place *place);

#endif
