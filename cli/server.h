/* SPDX-License-Identifier: MIT */
/*
 * The private server: a redis-server on a unix socket, one per user and host, for use without any
 * set-up. It is started when it is first needed and left running, in a session of its own.
 *
 *   ~/.local/state/lockkeeper/HOST/      0700, or LOCKKEEPER_STATE_DIR; the home directory is that
 *     lock users alive                   of the user's entry, so that cron and a terminal agree
 *     start.sock redis.sock redis.log
 *     appendonlydir/                     the locks outlive a restart of the server
 *     damaged-TIME-FILE                  what a power failure left of them (server_data.h)
 *
 * Starts and stops hold a flock(2) on `lock`, so that racing starts make one server. Who uses the
 * server shares one on `users`, so that no stop comes between finding it and using it. The server
 * holds a lock on `alive` as long as it lives, even if its starter has been killed since: two
 * servers must never write the same data.
 *
 * A new server listens on `start.sock`, where nobody but its starter looks. Once the starter has
 * seen that it is in order, it renames the socket to `redis.sock`. The folder, the way to it and
 * the user of the server are checked before any answer is believed.
 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <limits.h>
#include <sys/types.h>
#include <sys/un.h>

struct server_socket {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char url[4 * sizeof(((struct sockaddr_un *)0)->sun_path)]; /* unix://…, %XX where needed */
};

struct server_place {
	char folder[PATH_MAX];
	struct server_socket published;
	struct server_socket starting;
};

enum server_state {
	SERVER_ABSENT,  /* nobody listens */
	SERVER_READY,   /* it answers */
	SERVER_LOADS,   /* it still reads its data */
	SERVER_REFUSES, /* it answers with an error: `text` */
	SERVER_HANGS,   /* it listens and does not answer in time */
	SERVER_TROUBLE, /* it is another user's, or we cannot connect: `text` */
};

struct server_view {
	enum server_state state;
	const struct server_socket *socket; /* where it was seen */
	pid_t pid;                          /* 0: unknown, for instance in another pid namespace */
	char text[200];
};

/* A command's share of the folder while it uses, starts or stops the server; -1: nothing. */
struct server_guard {
	int folder; /* checked */
	int users;  /* shared by those who use the server; a stop excludes them */
	int lock;   /* of starts and stops */
};

/* Finds the place; creates nothing. 0, or EXIT_TROUBLE (said). */
int server_locate(struct server_place *place_out);

/* Makes sure that the server answers, starting it if need be, and that nobody stops it while this
 * process lives, except by force. 0, or EXIT_TROUBLE (said). */
int server_ensure(const struct server_place *place);

/* Ensures it with the lock held, until it is given up. */
int server_ensure_locked(const struct server_place *place, const struct server_guard *guard);

/* Looks for the server at both sockets, for at most a few seconds. */
void server_find(const struct server_place *place, int folder, struct server_view *view_out);

/* Says what is wrong with a server that is not ready. EXIT_TROUBLE. */
int server_complain(const struct server_view *view);

/* Ends the server seen in `view`; with `force`, even if it does not answer. With the lock
 * held. 0, or EXIT_TROUBLE (said). */
int server_end(const struct server_guard *guard, const struct server_view *view, int force);

/* Checks the folder, making it if need be, and joins the users of the server. 0, or EXIT_TROUBLE
 * (said); server_leave() in any case. */
int server_enter(const struct server_place *place, struct server_guard *guard_out);

/* Enters for a stop: waits a moment until nobody uses the server, and keeps others out. Still -1 in
 * `users` then means that somebody uses it. */
int server_enter_alone(const struct server_place *place, struct server_guard *guard_out);

/* Takes the lock of starts and stops, after entering. 0, or EXIT_TROUBLE (said). */
int server_lock(struct server_guard *guard);

void server_leave(const struct server_guard *guard);

#endif
