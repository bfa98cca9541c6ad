/*
 * Cancellation: a token that ends the blocking call it was given to.
 *
 * A call that is cancelled tells the truth: if the grant arrived first it returns 0 and the
 * caller has the lock; otherwise LK_ECANCELLED, and nothing of the wait stays in Redis.
 */
#ifndef LOCKKEEPER_CANCEL_H
#define LOCKKEEPER_CANCEL_H

#include <lockkeeper/error.h>

typedef struct lk_cancel lk_cancel;

LK_BEGIN_DECLS

/*
 * Makes a token, to be freed with lk_cancel_free(). It may be used for any number of calls, one at
 * a time (a second call at the same time fails with LK_EINVAL), of any clients. Errors: LK_EINVAL,
 * LK_ENOMEM, LK_ESYSTEM (no descriptor). Since 0.1.
 */
LK_API int lk_cancel_new(lk_cancel **cancel_out, lk_error *error);

/*
 * Ends the call that uses the token, and every later one until lk_cancel_reset(). Does not
 * block; any thread; may be called in a signal handler. Since 0.1.
 */
LK_API void lk_cancel_now(lk_cancel *cancel);

/* Makes the token usable again. Not while a call uses it. Does not block. Since 0.1. */
LK_API void lk_cancel_reset(lk_cancel *cancel);

/* 1 when lk_cancel_now() was called since the last reset, else 0. Since 0.1. */
LK_API int lk_cancel_is_set(const lk_cancel *cancel);

/* Frees the token; no call may be using it. NULL is fine. Returns NULL. Since 0.1. */
LK_API lk_cancel *lk_cancel_free(lk_cancel *cancel);

LK_END_DECLS

#endif
