/* SPDX-License-Identifier: MIT */
/*
 * A connection to a server or sentinel that is asked about a deployment: commands out, values in.
 *
 * One thread uses it, and nothing blocks.
 */
#ifndef LK__TOPO_LINK_H
#define LK__TOPO_LINK_H

#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

#include "base/containers.h"
#include "conn/request.h"
#include "net/stream.h"

struct lk_config;
struct lk__opening;
struct lk__reader;
struct lk__stream;

#define LK__LINK_OWED_MAX 8 /* answers that may be outstanding */

struct lk__link {
	struct lk_config *config;    /* where it leads; NULL: down */
	struct lk__opening *opening; /* until it is up */
	struct lk__readiness opens;  /* what that waits for */
	struct lk__stream *stream;   /* then */
	struct lk__reader *reader;
	struct lk__buffer out;
	const char *owed[LK__LINK_OWED_MAX]; /* what was asked and not answered, oldest first */
	size_t owed_count;
};

/* Begins to connect to where `config` points, which it takes over. LK_ENOMEM. */
int lk__link_open(struct lk__link *link, struct lk_config *config, int64_t deadline_ns,
		  lk_error *error);

/* As far as it goes without waiting. 1: it is up; 0: not yet; or the code of lk__opening_step(),
 * and it is down. */
int lk__link_step(struct lk__link *link, lk_error *error);
void lk__link_close(struct lk__link *link);

/* Says a command of these words, up to a NULL (LK__SAY), whose answer will come under the name
 * `what`. 0, or LK_ENOMEM. */
int lk__link_say(struct lk__link *link, const char *what, const char *const *words);

/* Says AUTH, if where it leads has a password. 0, or LK_ENOMEM. */
int lk__link_auth(struct lk__link *link);

/* The event that it waits for; its descriptor is -1 where there is none. */
struct lk__readiness lk__link_waits(const struct lk__link *link);

/*
 * Writes and reads what there is: 1 and a value to be freed, with what was asked (NULL: nothing
 * was); 0 when nothing more is there; else a code, why the link is of no use, with a reason.
 */
int lk__link_next(struct lk__link *link, redisReply **reply_out, const char **what_out,
		  char *reason_out, size_t reason_size);

#endif
