/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "base/door.h"
#include "base/fail.h"

struct line {
	int level;
	char text[LK__LOG_LINE_MAX];
};

/* The thread has a reference, the client one, and a call that ends it: any may be the last. */
struct lk__log_queue {
	lk_log_callback callback;
	void *context;
	bool threadless;
	_Atomic int refs;
	struct lk__park filled;  /* where the thread sleeps */
	struct lk__park emptied; /* where the client waits for it to end */
	_Atomic bool ended;
	pthread_mutex_t mutex; /* of what follows; a leaf */
	bool stopped;          /* nobody writes any more */
	uint64_t dropped;
	size_t first, count;
	struct line line[LK__LOG_LINES_MAX];
};

static void queue_unref(struct lk__log_queue *queue)
{
	if (atomic_fetch_sub(&queue->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

/* ---- writing ---- */

static void queue_put(struct lk__log_queue *queue, int level, const char *text, size_t size)
{
	pthread_mutex_lock(&queue->mutex);
	if (queue->count == LK__LOG_LINES_MAX || queue->dropped) {
		queue->dropped++; /* so do later ones, until it is told: they stand behind it */
	} else if (!queue->stopped) {
		size_t at = (queue->first + queue->count++) % LK__LOG_LINES_MAX;
		queue->line[at].level = level;
		memcpy(queue->line[at].text, text, size + 1);
	}
	pthread_mutex_unlock(&queue->mutex);
	lk__park_wake(&queue->filled);
}

void lk__log(const struct lk__log *log, int level, const char *format, ...)
{
	if (!log->callback || level > log->level)
		return;
	char line[LK__LOG_LINE_MAX];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	for (char *at = line; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
	if (log->queue)
		queue_put(log->queue, level, line, strlen(line));
	else
		log->callback(log->context, level, line);
}

/* ---- delivering ---- */

/* Takes the oldest line, or the number of those that were dropped behind it. */
static bool queue_take(struct lk__log_queue *queue, struct line *line_out)
{
	pthread_mutex_lock(&queue->mutex);
	bool any = queue->count > 0;
	if (any) {
		*line_out = queue->line[queue->first];
		queue->first = (queue->first + 1) % LK__LOG_LINES_MAX;
		queue->count--;
	} else if (queue->dropped) {
		any = true;
		line_out->level = LK_LOG_WARNING;
		snprintf(line_out->text, sizeof(line_out->text),
			 "%llu log lines dropped: they came faster than the log callback took them",
			 (unsigned long long)queue->dropped);
		queue->dropped = 0;
	}
	pthread_mutex_unlock(&queue->mutex);
	return any;
}

static void queue_deliver(struct lk__log_queue *queue)
{
	struct line line;
	while (queue_take(queue, &line))
		queue->callback(queue->context, line.level, line.text);
}

static bool queue_is_over(struct lk__log_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	bool over = queue->stopped && queue->count == 0 && !queue->dropped;
	pthread_mutex_unlock(&queue->mutex);
	return over;
}

static void *log_main(void *argument)
{
	struct lk__log_queue *queue = argument;
	while (!queue_is_over(queue)) {
		queue_deliver(queue);
		if (!queue_is_over(queue))
			lk__park_wait(&queue->filled, LK__NEVER);
	}
	atomic_store(&queue->ended, true);
	lk__park_wake(&queue->emptied);
	queue_unref(queue);
	return NULL;
}

void lk__log_deliver(const struct lk__log *log)
{
	if (log->queue)
		queue_deliver(log->queue);
}

/* A thread of the program calls this, for a client without threads: no SIGPIPE of ours may stay. */
static void write_quietly(int fd, const char *bytes, size_t size)
{
	sigset_t pipe, before, pending;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	if (write(fd, bytes, size) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&pipe, NULL, &(struct timespec){0, 0});
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void lk__log_to_fd(void *context, int level, const char *line)
{
	static const char syslog[] = {
		[LK_LOG_ERROR] = '3',
		[LK_LOG_WARNING] = '4',
		[LK_LOG_INFO] = '6',
		[LK_LOG_DEBUG] = '7',
	};
	char text[LK__LOG_LINE_MAX + 8];
	int size = snprintf(text, sizeof(text), "<%c>%s\n", syslog[level], line);
	write_quietly((int)(intptr_t)context, text, (size_t)size);
}

/* ---- beginning and end ---- */

int lk__log_start(struct lk__log *log, bool threadless, lk_error *error)
{
	if (!log->callback)
		return 0;
	struct lk__log_queue *queue = malloc(sizeof(*queue)); /* its lines are no memory yet */
	if (!queue)
		return lk__fail(error, LK_ENOMEM, "no memory for log lines");
	memset(queue, 0, offsetof(struct lk__log_queue, line));
	queue->callback = log->callback;
	queue->context = log->context;
	atomic_store(&queue->refs, threadless ? 1 : 2);
	queue->threadless = threadless;
	pthread_mutex_init(&queue->mutex, NULL);
	int failed = threadless ? 0 : lk__thread_start(NULL, log_main, queue);
	if (failed) {
		atomic_store(&queue->refs, 1);
		queue_unref(queue);
		return lk__fail_system(error, failed, "no thread for log lines");
	}
	log->queue = queue;
	return 0;
}

void lk__log_ref(const struct lk__log *log)
{
	if (log->queue)
		atomic_fetch_add(&log->queue->refs, 1);
}

void lk__log_end(struct lk__log *log, int64_t until_ns)
{
	struct lk__log_queue *queue = log->queue;
	if (!queue)
		return;
	pthread_mutex_lock(&queue->mutex);
	queue->stopped = true;
	pthread_mutex_unlock(&queue->mutex);
	lk__park_wake(&queue->filled);
	if (queue->threadless && until_ns > 0)
		queue_deliver(queue);
	while (!queue->threadless && !atomic_load(&queue->ended) && lk__now_ns() < until_ns)
		lk__park_wait(&queue->emptied, until_ns);
	log->queue = NULL;
	queue_unref(queue);
}
