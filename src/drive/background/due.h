/* SPDX-License-Identifier: MIT */
/* When a hold needs the watchdog's attention. All with the entry's mutex held. */
#ifndef LK__DRIVE_BACKGROUND_DUE_H
#define LK__DRIVE_BACKGROUND_DUE_H

#include "drive/entry/entry.h"

/* Notes when the entry's hold next needs attention. */
void lk__watch_hold(struct lk__entry *entry, int64_t now_ns);

/* How long before the end of the hold its owner is warned. */
int64_t lk__hold_margin_ns(const struct lk__hold *hold);

/* Whether it has been held for longer than its owner allows. */
bool lk__hold_is_too_long(const struct lk__hold *hold, int64_t now_ns);

/* Whether the watchdog renews it, and the lease that it asks for then. */
bool lk__hold_is_renewed(const struct lk__hold *hold, int64_t now_ns);
int64_t lk__renewal_lease_ms(const struct lk__hold *hold);

/* When to ask the server next, for more time or whether it still has it. */
int64_t lk__question_due_ns(const struct lk__hold *hold, int64_t now_ns);

#endif
