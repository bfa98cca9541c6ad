/* SPDX-License-Identifier: MIT */
/*
 * Lines for a program's log callback; without a callback, silence.
 *
 * A line is written where something happens, often under mutexes, and by the thread that renews
 * leases. The callback is the program's: it may wait for a mutex of its own, or for a full pipe.
 * So a line only goes into the client's queue, which has a fixed size, and a thread of the log
 * alone calls the callback, with no mutex held. The lines of a client without threads leave in
 * lk_client_process(). Where lines come faster than the callback takes them, the newest are
 * dropped, and their number is told.
 */
#ifndef LK__BASE_LOG_H
#define LK__BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/config.h>

#define LK__LOG_LINE_MAX 1024  /* longer lines are cut */
#define LK__LOG_LINES_MAX 1024 /* that wait for the callback */

struct lk__log_queue;

struct lk__log {
	int level; /* the highest that is wanted; 0 without a callback */
	lk_log_callback callback;
	void *context;
	struct lk__log_queue *queue; /* NULL, before there is a client: the callback is called */
};

/* Debug lines are wanted: one branch, before anything is made into text. */
static inline bool lk__log_debugs(const struct lk__log *log)
{
	return __builtin_expect(log->level >= LK_LOG_DEBUG, 0);
}

/* Writes one line; control bytes become '?', for texts come from peers too. Never waits. */
__attribute__((format(printf, 3, 4))) void lk__log(const struct lk__log *log, int level,
						   const char *format, ...);

/* A callback that writes each line with one write, "<4>text" with syslog's number of the level, to
 * the descriptor `context`. It raises no SIGPIPE; what cannot be written is dropped. */
void lk__log_to_fd(void *context, int level, const char *line);

/* Gives the log of a new client its queue, and its thread unless `threadless`. 0, LK_ENOMEM or
 * LK_ESYSTEM. Without a callback there is nothing to do. */
int lk__log_start(struct lk__log *log, bool threadless, lk_error *error);

/* The callback gets the lines that wait, in this thread, which holds no mutex: of a client without
 * threads. */
void lk__log_deliver(const struct lk__log *log);

/* Another reference of its queue, to be given to lk__log_end(). */
void lk__log_ref(const struct lk__log *log);

/* The last line was written: waits until the callback has had all, until `until_ns` at most (0: not
 * at all), and gives the reference up. A callback that hangs is left behind: its thread frees what
 * is left when it returns. */
void lk__log_end(struct lk__log *log, int64_t until_ns);

#endif
