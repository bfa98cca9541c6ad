/* SPDX-License-Identifier: MIT */
/*
 * The plain lock by the server's own commands, for servers that have them (Redis 8.4: DELEX,
 * Valkey 9: DELIFEQ, both, and Valkey 8.1: SET … IFEQ), and for users who may run no scripts.
 *
 *   acquire    SET key token:taking NX GET PXAT deadline   a past one leaves no key: it was late
 *              SET key token IFEQ token:taking PX lease    the lease, counted from here
 *              TIME; TYPE key
 *   exchange   the same, but SET key to:taking IFEQ from PXAT deadline first
 *   release    DELEX key IFEQ token | DELIFEQ key token | SET key token IFEQ token PXAT 1; PUBLISH
 *   keep       SET key nobody IFEQ token PX time; GET key; PUBLISH, where there are no scripts
 *   renew      PEXPIRE key lease GT; GET key
 *   force      SET key - XX GET PXAT 1; PUBLISH
 *
 * The lease is given once: a copy of a try that has been granted finds no ":taking" any more, so it
 * cannot shorten what was extended since. Nor can it run late, for that token ends at the deadline.
 *
 * The commands of a line go out together. Between two of them others may get in, and do no harm:
 * each step compares for itself. A renewal of a lock that is lost and has another holder prolongs
 * that one's lease, once: then the answer says that it is lost. (SET … IFEQ … PX would compare, but
 * it would also shorten a lease that was just extended, and it is refused when memory runs out.)
 *
 * What a server can do is asked on the lock's own key, by commands that change nothing, before the
 * first try after each connect: so what this user may not do here counts as well. Nothing is
 * guessed from a version.
 */
#ifndef LK__SYNC_PLAIN_NATIVE_H
#define LK__SYNC_PLAIN_NATIVE_H

#include "sync/recipe.h"

/* Whether it is not known yet what the server can do, or not since the last connect. */
bool lk__native_must_ask(const struct lk__target *target);
struct lk__request *lk__native_ask(const struct lk__target *target);

/* Whether these commands are to be used rather than scripts. */
bool lk__native_serves(const struct lk__target *target);
bool lk__native_has_scripts(const struct lk__target *target);

struct lk__request *lk__native_acquire(const struct lk__try *wanted);
struct lk__request *lk__native_release(const struct lk__target *target, const char *field);
struct lk__request *lk__native_keep(const struct lk__target *target, const char *field,
				    int64_t keep_ms);
struct lk__request *lk__native_exchange(const struct lk__try *wanted, const char *from);
struct lk__request *lk__native_force(const struct lk__target *target);
struct lk__request *lk__native_renew(const struct lk__renewal *renewals, size_t count);

/* Also the answer to lk__native_ask(). */
void lk__native_read_acquire(const struct lk__request *request, struct lk__answer *answer);
enum lk__released lk__native_read_release(const struct lk__request *request, int64_t *listeners);
enum lk__exchanged lk__native_read_exchange(const struct lk__request *request);
enum lk__released lk__native_read_keep(const struct lk__request *request, int64_t *listeners);
bool lk__native_read_force(const struct lk__request *request);

#endif
