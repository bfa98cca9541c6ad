/* SPDX-License-Identifier: MIT */
/*
 * The guard: a small process that stands between lockkeeper and the command, and ends the
 * command's processes before the lease does, whatever has become of lockkeeper.
 *
 *   shell ── front (on a terminal only) ── keeper ── guard ── command ── …
 *
 * - The keeper has the client. It renews, and writes the deadline of the lease into a page that
 *   it shares with the guard.
 * - The guard is the command's parent and the subreaper of all its descendants. It never talks to
 *   Redis. It alone sends signals to the command, by this clock (CLOCK_BOOTTIME):
 *
 *       deadline - slack - grace   SIGNAL to all descendants, then SIGCONT
 *       deadline - slack           SIGKILL, again and again until none is left
 *
 *   Both are read off the page, so nothing has to happen for it to act: a keeper that is stopped or
 *   hangs does not move the deadline. If the keeper dies the guard begins at once.
 * - What runs as another user cannot be signalled. While only such processes are left and the
 *   deadline is ahead, the guard waits for them and the keeper renews; then it says so and ends.
 * - If the guard dies, the kernel kills the command (PR_SET_PDEATHSIG), its orphans fall to the
 *   keeper, a subreaper too, and the keeper ends them. If the front dies, the keeper has the guard
 *   end the command, then releases the lock.
 * - If keeper and guard are killed together, only the kernel's PDEATHSIG is left, and that does not
 *   reach grandchildren.
 */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <lockkeeper/config.h>

#include "outer.h"

/* Room for an owner's wire field. */
#define GUARD_OWNER_SIZE 64

/* The page that keeper and guard share; all but the deadline is fixed before the other side
 * looks. */
struct guard_page {
	int64_t deadline_ns; /* of the lease, CLOCK_BOOTTIME; atomic */
	int64_t grace_ns;
	int64_t slack_ns;
	int end_signal;
	pid_t started;    /* the process that was started as lockkeeper */
	pid_t join_group; /* the job's process group, or 0: the command gets a group of its own */
	char *const *argv;
	const char *name;
	const char *run; /* LOCKKEEPER_RUN */
	char owner[GUARD_OWNER_SIZE];
	char outer[OUTER_TEXT_SIZE]; /* LOCKKEEPER_OUTER */
	uint64_t fence;              /* the grant's token; 0: the kind of lock has none */
	int elects;                  /* it is a leadership: the token is its term; */
	int meets;                   /* or a place inside a barrier: its generation */
	sigset_t mask;               /* the signal mask lockkeeper was started with */
	struct rlimit descriptors;   /* and the limit */
};

enum guard_order {
	GUARD_START,   /* fork the command, and execute it if it has a group of its own */
	GUARD_GO,      /* in the job's group: execute it */
	GUARD_FORWARD, /* value: a signal for the command's group */
	GUARD_END,     /* SIGNAL, GRACE, KILL, now */
	GUARD_KILL,    /* KILL, now: the lock is lost */
};

enum guard_report {
	GUARD_JOINED,  /* value: the command's process id; it is in the job's group, and waits */
	GUARD_STARTED, /* it runs */
	GUARD_FAILED,  /* value: errno of exec (or fork); nothing runs */
	GUARD_STOPPED, /* value: the signal that stopped the command */
	GUARD_ENDING,  /* the lease is about to end, SIGNAL was sent */
	GUARD_DENIED,  /* only processes of other users are left, which it cannot end */
	GUARD_LEFT,    /* the lock is over, and they run on; the guard has ended */
	GUARD_ENDED,   /* value: the command's wait status */
};

struct guard_message {
	int type;
	int value;
};

struct guard {
	pid_t pid;
	int fd; /* messages both ways; end of file: the other side is gone */
	struct guard_page *page;
};

/* Makes the shared page. 0, or EXIT_TROUBLE (said). */
int guard_prepare(struct guard *guard_out);

/* Forks the guard; before there is a client. The guard wipes its copy of `config`, for it lives as
 * long as the command and needs no secrets. 0, or EXIT_TROUBLE (said). */
int guard_start(struct guard *guard, lk_config *config);

/* Sends an order; the guard's end shows when reading. */
void guard_send(const struct guard *guard, enum guard_order order, int value);

/* Reads a report, without waiting: 1, 0 when there is none, -1 when the guard has ended. */
int guard_read(const struct guard *guard, struct guard_message *message_out);

/* Publishes the deadline of the lease. */
void guard_publish(const struct guard *guard, int64_t deadline_ns);

/* Lets a guard that has nothing to guard end, and reaps it. */
void guard_end(struct guard *guard);

#endif
