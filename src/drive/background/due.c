/* SPDX-License-Identifier: MIT */
#include "drive/background/due.h"

#include <assert.h>

#include "base/clock.h"
#include "conf/config.h"
#include "drive/entry/watch_heap.h"

#define TOGETHER_NS (10 * LK__MS) /* questions that are due within this time leave in one batch */

int64_t lk__hold_margin_ns(const struct lk__hold *hold)
{
	int64_t margin_ms = lk__hold_extra(hold)->margin_ms;
	if (!margin_ms)
		margin_ms = lk__entry_lease_ms(hold->entry, hold) / 10;
	return margin_ms * LK__MS;
}

bool lk__hold_is_too_long(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t max_hold_ms = lk__hold_extra(hold)->max_hold_ms;
	return max_hold_ms && now_ns >= lk__after_ms(hold->granted_ns, max_hold_ms);
}

bool lk__hold_is_renewed(const struct lk__hold *hold, int64_t now_ns)
{
	bool wanted = hold->watched || hold->wanted_until_ns > hold->own_until_ns;
	bool too_long = lk__hold_is_too_long(hold, now_ns);
	bool open = atomic_load(&hold->entry->client->state) == LK__CLIENT_OPEN;
	return wanted && !too_long && !hold->abandoned && open;
}

int64_t lk__renewal_lease_ms(const struct lk__hold *hold)
{
	return hold->watched ? hold->entry->client->config->watchdog_ms : hold->lease_ms;
}

/* A third of the lease after it was last confirmed; at once when more is wanted. */
static int64_t renewal_due_ns(const struct lk__hold *hold, int64_t now_ns)
{
	const struct lk__entry *entry = hold->entry;
	int64_t lease_ns = lk__renewal_lease_ms(hold) * LK__MS;
	if (hold->wanted_until_ns > hold->own_until_ns)
		return now_ns;
	return entry->grant.valid_until_ns - lease_ns / 3 * 2;
}

/* When to look whether the server still has it: others can free it, and tell nobody who would tell
 * us. */
static int64_t look_due_ns(const struct lk__hold *hold)
{
	const struct lk__entry *entry = hold->entry;
	int64_t lease_ms = lk__entry_lease_ms(entry, hold);
	int64_t most_ms = entry->client->config->watchdog_ms;
	return entry->grant.seen_ns + (lease_ms < most_ms ? lease_ms : most_ms) * LK__MS / 3;
}

/* Counted from the client's start: several clients do not all ask at the same moments. */
static int64_t due_together_ns(const lk_client *client, int64_t due_ns)
{
	return due_ns - (due_ns - client->record.since_ns) % TOGETHER_NS;
}

int64_t lk__question_due_ns(const struct lk__hold *hold, int64_t now_ns)
{
	int64_t due_ns = look_due_ns(hold);
	if (lk__hold_is_renewed(hold, now_ns))
		due_ns = lk__earlier(due_ns, renewal_due_ns(hold, now_ns));
	return due_together_ns(hold->entry->client, due_ns);
}

void lk__watch_hold(struct lk__entry *entry, int64_t now_ns)
{
	const struct lk__hold *hold = entry->hold;
	assert(hold && !hold->lost);
	int64_t deadline_ns = lk__hold_deadline(hold);
	int64_t at_ns = hold->warned ? deadline_ns : deadline_ns - lk__hold_margin_ns(hold);
	if (lk__hold_is_renewed(hold, now_ns)) {
		int64_t prepare_ns = lk__node_prepare(entry->target.node, now_ns);
		at_ns = prepare_ns < at_ns ? prepare_ns : at_ns;
	}
	if (!entry->renewing) {
		int64_t ask_ns = lk__question_due_ns(hold, now_ns);
		at_ns = ask_ns < at_ns ? ask_ns : at_ns;
	}
	if (lk__entry_in_doubt(entry) && !entry->renewing)
		at_ns = now_ns;
	lk__watch_at(entry, at_ns > now_ns ? at_ns : now_ns + LK__MS);
}
