/* SPDX-License-Identifier: MIT */
/* Error replies: what a server's refusal means. One table. */
#ifndef LK__CONN_CLASSIFY_H
#define LK__CONN_CLASSIFY_H

#include <stdbool.h>

/*
 * The code for an error reply's text. LK_EMAYBEHELD for one that is not known: the command may
 * have run. NOSCRIPT is LK_EUNAVAILABLE: nothing ran.
 */
int lk__classify(const char *text);

/* Whether it is an error of a command, or from inside a script, that is not known: the server will
 * give it again. One with a word of its own in place of ERR tells of a state, which may pass. */
bool lk__classify_lasting(const char *text);

/* Whether a refusal that is told at once (LK_EREFUSED) is ridden out by who waits with a limit: the
 * replicas that are missing come back. */
bool lk__classify_passes(const char *text);

/* Whether a server refused because it is a replica. */
bool lk__classify_replica(const char *text);

/* Whether a server has not the script that was called by its SHA-1: nothing ran. */
bool lk__classify_unscripted(const char *text);

/* Whether a server of a cluster says that another has the key: nothing ran. */
bool lk__classify_redirect(const char *text);

/* Whether a server has some keys of a script, and another the rest, while their slot moves: nothing
 * ran. */
bool lk__classify_parted(const char *text);

/* What such an answer says about the server that gave it, or "". */
const char *lk__classify_hint(const char *text);

/* The size of its words, without the place in a script at their end: " script: <hash>, on …". */
int lk__classify_size(const char *text);

#endif
