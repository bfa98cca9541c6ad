/* SPDX-License-Identifier: MIT */
/*
 * A line to a server or sentinel that is asked about a deployment: commands out, values in.
 *
 * One thread uses it. Only opening blocks.
 */
#ifndef LK__TOPO_LINK_H
#define LK__TOPO_LINK_H

#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

#include "base/buffer.h"

struct lk_config;
struct lk__reader;
struct lk__stream;

#define LK__LINK_OWED_MAX 8 /* answers that may be outstanding */

struct lk__link {
	struct lk__stream *stream; /* NULL: down */
	struct lk__reader *reader;
	struct lk__buffer out;
	const char *owed[LK__LINK_OWED_MAX]; /* what was asked and not answered, oldest first */
	size_t owed_count;
};

/* Connects to where `config` points. 0, or the code of lk__stream_open(). */
int lk__link_open(struct lk__link *link, const struct lk_config *config, int64_t deadline_ns,
		  int cancel_fd, lk_error *error);
void lk__link_close(struct lk__link *link);

/* Says a command, whose answer will come under the name `what`. 0, or LK_ENOMEM. */
int lk__link_say(struct lk__link *link, const char *what, size_t argc, const char **argv);

/* What to poll for. */
short lk__link_events(const struct lk__link *link);

/*
 * Writes and reads what there is: 1 and a value to be freed, with what was asked (NULL: nothing
 * was); 0 when nothing more is there; else a code, why the link is of no use, with a reason.
 */
int lk__link_next(struct lk__link *link, redisReply **reply_out, const char **what_out,
		  char *reason_out, size_t reason_size);

#endif
