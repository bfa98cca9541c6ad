/*
 * Grants that may exist and that nobody wants: released at once, and again after the acquire's
 * deadline on the server, when no copy of it can run any more. The loop's work.
 */
#ifndef LK__DRIVE_TAKE_BACK_H
#define LK__DRIVE_TAKE_BACK_H

#include "drive/client.h"

/* Notes one; `until_ns`: when no copy of its acquire can run any more. Entry's mutex held. */
void lk__take_back(struct lk__entry *entry, uint64_t number, int64_t until_ns);

/*
 * The same for a number whose acquire is over: its release goes out at once, behind what is in
 * flight on the connection of the tries. If it is refused, or gets no answer, the loop repeats it.
 */
void lk__take_back_behind(struct lk__entry *entry, uint64_t number);

/* The loop's turn. Returns when the next is due; LK__NEVER for none. */
int64_t lk__take_back_turn(lk_client *client);

void lk__take_back_free(lk_client *client);

#endif
