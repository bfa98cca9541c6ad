/* SPDX-License-Identifier: MIT */
/* Public calls begin and end here: the client may be used, the caller is known, the arguments are
 * good; no thread cancellation. */
#ifndef LK__API_CHECK_H
#define LK__API_CHECK_H

#include <pthread.h>

#include <lockkeeper/queue.h>

#include "lock/async.h"

/* A call that may wait for a server. 0, with the calling thread and its cancel state to be given to
 * lk__leave(); or a code: LK_EBLOCKING for a threadless client. */
int lk__enter(lk_client *client, const char *operation, struct lk__thread **thread_out,
	      int *saved_out, lk_error *error);

/* Enters a call that never waits. */
int lk__enter_nowait(lk_client *client, const char *operation, struct lk__thread **thread_out,
		     int *saved_out, lk_error *error);

/* 0, or LK_EFORKED in another process than the client's. */
int lk__check_forked(const lk_client *client, const char *operation, lk_error *error);

/* As lk__client_check(), or LK_EBLOCKING for a threadless client. */
int lk__check_blocking(const lk_client *client, const char *operation, lk_error *error);

/* 0, or why the program does not drive this client, which may be NULL. */
int lk__check_threadless(const lk_client *client, const char *operation, lk_error *error);

static inline void lk__leave(int saved)
{
	pthread_setcancelstate(saved, NULL);
}

/* Frees the names whose locks are counted apart. */
void lk__declared_free(lk_client *client);

/* A request that is being started. */
struct lk__start {
	lk_queue *queue;
	const lk_request *request; /* ours: whole, and with what its operation uses alone */
	void *handle;              /* the one that it has */
	const char *operation;     /* "LK_OP_…", for messages */
	uint64_t *id_out;          /* of the completion */
	lk_error *error;
};

/* The start of the operations of each handle: 0, or why none has begun. */
int lk__start_client(const struct lk__start *start);
int lk__start_close(const struct lk__start *start); /* of a client, as is the next */
int lk__start_drain(const struct lk__start *start);
int lk__start_lock(const struct lk__start *start);
int lk__start_semaphore(const struct lk__start *start);
int lk__start_permit_semaphore(const struct lk__start *start);
int lk__start_latch(const struct lk__start *start);
int lk__start_barrier(const struct lk__start *start);
int lk__start_watch(const struct lk__start *start);

/* Makes its completion, with an id; its owner, whose name is copied, may be NULL. 0, LK_ELIMIT or
 * LK_ENOMEM. */
int lk__start_reserve(const struct lk__start *start, struct lk__completion **completion_out,
		      const struct lk__owner *owner);

/* Frees it: nothing comes of it. */
void lk__start_unreserve(struct lk__completion *completion);

/* Starts it, whose arguments are good. */
int lk__start_go(const struct lk__start *start, struct lk__entry *entry,
		 const struct lk__owner *owner, struct lk__async_want *want);

enum lk__argument {
#define ARGUMENT(id, name, least, most, what) LK__##id,
#include "api/arguments.def"
#undef ARGUMENT
};

/* An argument, and what was given for it. */
struct lk__given {
	enum lk__argument argument;
	int64_t number;
};

/* LK__CHECK(operation, error, {LK__WAIT, wait_ms}, …): 0, or LK_EINVAL that names the first that is
 * out of its range: "OPERATION: wait_ms is -7, not 0 … 5". */
int lk__check_given(const char *operation, const struct lk__given *given, size_t count,
		    lk_error *error);
#define LK__CHECK(operation, error, ...)                                                           \
	lk__check_given(                                                                           \
		operation, (const struct lk__given[]){__VA_ARGS__},                                \
		sizeof((const struct lk__given[]){__VA_ARGS__}) / sizeof(struct lk__given), error)

/* Checks a number whose range depends on the call. */
int lk__check_range(const char *operation, const char *what, int64_t number, int64_t least,
		    int64_t most, lk_error *error);

/* Checks name and client for `operation`: 0 or a code. LK_STRLEN becomes the string's length. */
int lk__name_check(lk_client *client, const void *name, size_t *name_size, const char *operation,
		   lk_error *error);

/* The key of a lock, with the prefix, and a NUL behind it; to be freed. NULL: out of memory. */
char *lk__key_new(const lk_client *client, const void *name, size_t name_size, size_t *size_out);

/* Checks a name, and that keys derived from it, as with the prefix `derives`, are in its slot. */
int lk__name_check_slot(lk_client *client, const void *name, size_t *name_size, const char *derives,
			const char *operation, lk_error *error);

/* Checks a text that others are shown, as a note is; NULL is none. */
int lk__check_note(const char *operation, const char *what, const char *note, lk_error *error);

/*
 * Copies an options struct of the caller's size into ours: what it lacks is zero, what we do not
 * know must be zero. NULL: all zero. LK_EINVAL for a size that makes no sense.
 */
int lk__copy_options(void *options_out, size_t own_size, const void *options, const char *operation,
		     lk_error *error);

#endif
