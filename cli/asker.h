/* SPDX-License-Identifier: MIT */
/* Asking the holder of a lock to give it up, for `ask` and `run --replace`. */
#ifndef CLI_ASKER_H
#define CLI_ASKER_H

#include <lockkeeper.h>

enum asked {
	ASKED_FAILED,  /* `error` says why */
	ASKED_FREE,    /* nobody holds it */
	ASKED_UNHEARD, /* no holder listens, after a second look as well */
	ASKED_HEARD,
};

/* Asks once; a second time a moment later where nobody listens, for its connection may just be
 * made. `reason`: NULL says who asks. */
enum asked asker_ask(lk_lock *lock, const char *reason, lk_error *error);

/* Says that who holds it does not listen. */
void asker_say_unheard(lk_client *client, const char *name);

#endif
