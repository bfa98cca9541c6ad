/* SPDX-License-Identifier: MIT */
/* What the targets of a lock make of its calls, side by side (drive/entry/policy.h). */
#include "drive/background/compensation.h"
#include "drive/background/watch.h"
#include "drive/life/life.h"
#include "drive/lock/extend.h"
#include "drive/lock/head.h"
#include "drive/lock/release.h"
#include "drive/many/red.h"

static void one_nothing(struct lk__entry *entry)
{
	(void)entry;
}

static bool one_compensating(const struct lk__entry *entry)
{
	return atomic_load(&entry->compensating) > 0;
}

/* A server that has it no more is another's already: nothing of a promise is left to be kept. */
static void one_release_unasked(struct lk__entry *entry, uint64_t number, int64_t promised_ns)
{
	(void)promised_ns;
	lk__compensate_behind(entry, number);
}

/* The client's compensation is looked at as a whole. */
static bool one_compensated(const struct lk__entry *entry)
{
	(void)entry;
	return true;
}

const struct lk__policy lk__policies[LK__TARGETS] = {
	[LK__ONE_NODE] =
		{
			.free = one_nothing,
			.release_unasked = one_release_unasked,
			.compensating = one_compensating,
			.compensated = one_compensated,
			.renew = lk__watch_renew,
			.turn = one_nothing,
			.route = lk__head_route,
			.send = lk__head_send,
			.send_look = lk__head_send_look,
			.release = lk__release_one,
			.release_look = lk__release_one_look,
			.extend = lk__extend_one,
			.extend_look = lk__extend_one_look,
		},
	[LK__MAJORITY] =
		{
			.free = lk__red_free,
			.release_unasked = lk__red_release_unasked,
			.compensating = lk__red_compensating,
			.compensated = lk__red_compensated,
			.renew = lk__red_renew,
			.turn = lk__red_turn,
			.route = lk__red_route,
			.send = lk__red_send,
			.send_look = lk__red_send_look,
			.release = lk__red_release,
			.release_look = lk__red_release_look,
			.extend = lk__red_extend,
			.extend_look = lk__red_extend_look,
		},
};
