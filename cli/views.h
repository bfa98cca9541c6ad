/* SPDX-License-Identifier: MIT */
/* The view that each server of a command has of one lock. */
#ifndef CLI_VIEWS_H
#define CLI_VIEWS_H

#include <lockkeeper.h>

#include "session.h"

struct view {
	lk_scan *scan;
	lk_lock_info info; /* valid until views_free(), */
	int code;          /* if this is 0; else the server cannot be asked: of the library */
	lk_error error;    /* why */
};

struct views {
	size_t count;
	size_t held, silent; /* so many have it, or a counter of the name; cannot be asked */
	struct view of[LK_RED_NODES_MAX];
};

/* Asks all servers, one after another. */
void views_ask(struct views *views_out, const struct session *session, const char *name);

/* Says which cannot be asked. 0: there is none; else an exit code. */
int views_say(const struct views *views);

/* The answer that they give together: 0, a majority has it; EXIT_FREE, none can have it; else an
 * exit code: the answers do not tell (said, but for the only server). */
int views_tell(const struct views *views, const char *name);

void views_free(struct views *views);

#endif
