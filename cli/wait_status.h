/* SPDX-License-Identifier: MIT */
/*
 * A wait that explains itself: while a command waits for a lock or a latch, a thread beside it says
 * on stderr who holds the lock, since when, and who waits; or what stands in the way of an answer.
 *
 * On a terminal it is one line, rewritten in place, from the second second on, while the job is in
 * the foreground; what is too long for it is shown part by part. Elsewhere it is a line now and
 * then, and only if it was asked for (-v). It only looks: the wait never waits for it.
 */
#ifndef CLI_WAIT_STATUS_H
#define CLI_WAIT_STATUS_H

#include <pthread.h>
#include <sys/types.h>

#include <lockkeeper.h>

/* The options of a command that waits; `what` it waits for, in their help. */
#define WAIT_STATUS_ROWS(what)                                                                     \
	{'v', "verbose", NULL, "report the server, and now and then what " what " waits for"},     \
	{                                                                                          \
		'q', "quiet", NULL, "say neither what " what " waits for nor who has it"           \
	}

/* The option of a command that does not wait. */
#define VERBOSE_ROW                                                                                \
	{                                                                                          \
		'v', "verbose", NULL, "report the server, and what came of it"                     \
	}

struct wait_status_wish {
	int verbose; /* report from time to time, without a terminal too; 2: log.h */
	int quiet;   /* say nothing, on a terminal too */
	int once;    /* the command does not wait: only wait_status_conclude() may speak */
	pid_t group; /* the job's process group; 0: the caller's */
	const char *const *also; /* locks that are waited for besides */
	size_t also_count;
};

struct wait_status {
	lk_lock *lock;
	lk_client *client;
	const char *name;
	const char *const *also;
	size_t also_count;
	pid_t group;
	int verbose, quiet;
	int started, in_place, shown;
	int explains;  /* who holds it; else only that an outer run does (outer.h) */
	int nested;    /* that has been said */
	int deaf;      /* that it hears of no release has been said */
	int head_size; /* of what is said: up to the name */
	unsigned turn; /* which part of a line that is too long comes next */
	pthread_t thread;
	pthread_mutex_t mutex; /* nothing is said once it is over */
	pthread_cond_t end;
	int over;
};

/* Takes -v or -q: 1, or 0 for any other option. */
int wait_status_take(struct wait_status_wish *wish, int id);

/* Begins to explain; what cannot be started is done without. `lock` is NULL where the wait is not
 * for a lock of the library. */
void wait_status_begin(struct wait_status *waiting, lk_client *client, lk_lock *lock,
		       const char *name, const struct wait_status_wish *wish);

/* The wait is over: nothing more is said, and the line on the terminal is gone. Does not block. */
void wait_status_end(struct wait_status *waiting);

/* The wait has ended without the lock: says who has it, or what the key is that ours cannot share,
 * unless that stands there already, or -q was given. */
void wait_status_conclude(struct wait_status *waiting);

/* The wait has ended without the lock: who has it, as far as the server tells; else "". */
void wait_status_holder(const struct wait_status *waiting, char *text_out, size_t size);

/* The wait has ended without the lock: says that an outer run has it, if one has, and that was not
 * said during the wait. */
void wait_status_nested(struct wait_status *waiting);

/* Joins the thread, which may have a question under way: for when the client is closed. */
void wait_status_join(struct wait_status *waiting);

#endif
