/* SPDX-License-Identifier: MIT */
/*
 * Cancellation: a token that ends the blocking call it was given to.
 *
 * A cancelled call tells the truth. If the grant arrived first, the call returns 0 and the caller
 * holds the lock. Otherwise it fails with LK_ECANCELLED, and nothing of the wait stays in Redis. A
 * try that has no answer by then is given back as soon as it has one; until then the lock may be
 * kept from others.
 */
#ifndef LOCKKEEPER_CANCEL_H
#define LOCKKEEPER_CANCEL_H

#include <lockkeeper/error.h>

typedef struct lk_cancel lk_cancel;

/* See lk_cancel_on_interrupt(). */
typedef int (*lk_interrupt_callback)(void *context);

LK_BEGIN_DECLS

/*
 * Makes a token. Any number of calls on any clients may use it, one at a time: a second call at the
 * same time fails with LK_EINVAL. Does not block. Free it with lk_cancel_free(). Errors: LK_EINVAL,
 * LK_ENOMEM, LK_ESYSTEM (no descriptor). Since 0.2.
 */
LK_API int lk_cancel_new(lk_cancel **cancel_out, lk_error *error);

/*
 * Ends the call that uses the token, and every later call with it until lk_cancel_reset(). Does not
 * block. Any thread may call it, and so may a signal handler. Since 0.2.
 */
LK_API void lk_cancel_now(lk_cancel *cancel);

/* Makes the token usable again. No call may be using it. Does not block. Since 0.2. */
LK_API void lk_cancel_reset(lk_cancel *cancel);

/* Returns 1 when lk_cancel_now() was called since the last reset, else 0. Since 0.2. */
LK_API int lk_cancel_is_set(const lk_cancel *cancel);

/*
 * Has `callback` asked whenever a signal handler interrupts the sleep of a call that uses the token
 * (EINTR); if it does not return 0, the call ends as after lk_cancel_now(). So a language whose own
 * signal handlers run later, outside of the call, gets its turn at once. It runs on the calling
 * thread, and no mutex of the library is held. It must return soon, and must not call the library,
 * throw, or end its thread: others may wait for what this thread reads. NULL, the default: the call
 * goes on sleeping. No call may be using the token. Does not block.
 *
 * It needs a handler without SA_RESTART. A signal that comes after the program has last looked, and
 * before the call sleeps, interrupts nothing, as with every blocking system call. Since 0.2.
 */
LK_API void lk_cancel_on_interrupt(lk_cancel *cancel, lk_interrupt_callback callback,
				   void *context);

/* Frees the token; no call may be using it. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_cancel *lk_cancel_free(lk_cancel *cancel);

LK_END_DECLS

#endif
