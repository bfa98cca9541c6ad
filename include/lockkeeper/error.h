/* SPDX-License-Identifier: MIT */
/*
 * Errors: one table of codes, names and texts, and three questions about a code.
 *
 * The rules behind the classes: an outcome is done, not done, or unknown. Every code but
 * LK_EMAYBEHELD and LK_ENOTDURABLE says *not done*.
 *
 * LK_ENOTDURABLE: the master has done it, and a failover or a crash may undo it. A grant is given
 * back, as after LK_EMAYBEHELD; an extension does not count. A change of a count was made:
 * repeated, it is made twice. What another had is free; freed again, it may be a third one's.
 */
#ifndef LOCKKEEPER_ERROR_H
#define LOCKKEEPER_ERROR_H

#include <lockkeeper/export.h>

/* The classes say what a caller can do about a code. */
#define LK_CLASS_RETRY 1 /* may go away by itself: the same call can succeed later */
#define LK_CLASS_FATAL 2 /* repeating the call cannot help until something is changed */
#define LK_CLASS_MAYBE 4 /* the server may hold the lock for us until its lease is over */

/* X(name, value, classes, text) */
#define LK_ERROR_MAP(X)                                                                            \
	X(LK_EINVAL, -1, LK_CLASS_FATAL, "invalid argument")                                       \
	X(LK_ENOMEM, -2, LK_CLASS_RETRY, "out of memory")                                          \
	X(LK_ESYSTEM, -3, LK_CLASS_RETRY, "the system refused a resource")                         \
	X(LK_EBUSY, -4, LK_CLASS_RETRY, "held by another owner")                                   \
	X(LK_ETIMEDOUT, -5, LK_CLASS_RETRY, "wait limit reached, held by another owner")           \
	X(LK_ECANCELLED, -6, 0, "cancelled")                                                       \
	X(LK_ELOST, -7, LK_CLASS_FATAL, "the lock was lost")                                       \
	X(LK_ENOTOWNER, -8, LK_CLASS_FATAL, "not the owner")                                       \
	X(LK_EMAYBEHELD, -9, LK_CLASS_RETRY | LK_CLASS_MAYBE,                                      \
	  "outcome unknown: the lock may be held until its lease ends")                            \
	X(LK_EUNREACHABLE, -10, LK_CLASS_RETRY, "server unreachable")                              \
	X(LK_EAUTH, -11, LK_CLASS_FATAL, "authentication refused")                                 \
	X(LK_EDENIED, -12, LK_CLASS_FATAL, "permission denied")                                    \
	X(LK_ETLS, -13, LK_CLASS_FATAL, "TLS refused")                                             \
	X(LK_EPROTOCOL, -14, LK_CLASS_RETRY, "the peer does not speak the Redis protocol")         \
	X(LK_EUNAVAILABLE, -15, LK_CLASS_RETRY, "the server is temporarily unavailable")           \
	X(LK_EREFUSED, -16, LK_CLASS_RETRY, "the server refused the command")                      \
	X(LK_EWRONGTYPE, -17, LK_CLASS_FATAL, "the key holds something other than this lock")      \
	X(LK_ECLOSED, -18, LK_CLASS_FATAL, "the client is closed")                                 \
	X(LK_EFORKED, -19, LK_CLASS_FATAL, "the client belongs to the parent process")             \
	X(LK_EHELD, -20, LK_CLASS_FATAL, "the client still holds locks")                           \
	X(LK_ELIMIT, -21, LK_CLASS_RETRY, "a configured limit is reached")                         \
	X(LK_EINTERNAL, -22, LK_CLASS_FATAL, "internal error; please report it")                   \
	X(LK_EUPGRADE, -23, LK_CLASS_FATAL, "owner holds the read lock; release it first")         \
	X(LK_ENOQUORUM, -24, LK_CLASS_RETRY, "no quorum: too few nodes answered or may vote")      \
	X(LK_ESTALE, -25, LK_CLASS_FATAL, "a newer fence token has been seen")                     \
	X(LK_EPENDING, -26, LK_CLASS_RETRY, "requests were not taken yet")                         \
	X(LK_EBLOCKING, -27, LK_CLASS_FATAL, "a client without threads has no blocking calls")     \
	X(LK_EPROCESSING, -28, LK_CLASS_RETRY, "another thread is processing this client")         \
	X(LK_ENOTDURABLE, -29, LK_CLASS_RETRY | LK_CLASS_MAYBE,                                    \
	  "done at the master, but too few replicas or disks have it")                             \
	X(LK_EDRAINING, -30, LK_CLASS_FATAL, "the client is being drained and takes nothing new")

enum lk_error_code {
	LK_OK = 0
#define LK_ERROR_ENUM(name, value, classes, text) , name = (value)
	LK_ERROR_MAP(LK_ERROR_ENUM)
#undef LK_ERROR_ENUM
};

/* The details of a failure, in the caller's memory: nothing to free. Frozen layout. */
typedef struct lk_error {
	int code;          /* LK_E…, or 0 */
	int system_errno;  /* errno of the system call behind it, or 0 */
	char message[504]; /* one line: operation, lock, node, reason; never a password */
} lk_error;

LK_BEGIN_DECLS

/* The name of a code ("LK_EBUSY"); "LK_E?" for an unknown one. Static memory. Since 0.2. */
LK_API const char *lk_error_name(int code);

/* One line of English for a code. Static memory. Since 0.2. */
LK_API const char *lk_error_text(int code);

/* 1 when the same call may succeed later without any change, else 0. Since 0.2. */
LK_API int lk_error_is_retryable(int code);

/* 1 when only a change (of arguments, rights, configuration) can help, else 0. Since 0.2. */
LK_API int lk_error_is_fatal(int code);

/* 1 when the server may hold the lock for us although the call failed, else 0. Since 0.2. */
LK_API int lk_error_maybe_held(int code);

LK_END_DECLS

#endif
