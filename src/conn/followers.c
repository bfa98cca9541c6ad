/* SPDX-License-Identifier: MIT */
#include "conn/node.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static bool is_recent(int64_t at_ns, int64_t now_ns)
{
	return at_ns > 0 && now_ns < lk__after_ms(at_ns, LK__FOLLOWER_MS);
}

/* The replica's own entry, or a new one in the place of one that need not acknowledge. NULL: all
 * must. */
static struct lk__follower *follower_of(struct lk__followers *followers,
					const struct lk__sighting *seen, int64_t now_ns)
{
	struct lk__follower *idle = NULL;
	char place[LK__FOLLOWER_PLACE_SIZE];
	snprintf(place, sizeof(place), "%.63s", seen->place);
	for (size_t i = 0; i < LK__ACKS_MAX; i++) {
		struct lk__follower *one = &followers->each[i];
		if (strcmp(one->place, place) == 0)
			return one;
		bool better = !idle || (*idle->place && !*one->place);
		if (better && !is_recent(one->alive_ns, now_ns))
			idle = one;
	}
	if (idle) {
		*idle = (struct lk__follower){.offset = seen->before};
		memcpy(idle->place, place, sizeof(idle->place));
	}
	return idle;
}

/* It has acknowledged something since it was last seen; if nobody watched it, during the WAIT. */
static bool has_moved(const struct lk__follower *one, const struct lk__sighting *seen)
{
	bool watched = one->alive_ns > 0 || one->silent;
	return seen->before < 0 || seen->behind > (watched ? one->offset : seen->before);
}

bool lk__followers_see(struct lk__followers *followers, const struct lk__sighting *seen,
		       int64_t now_ns)
{
	struct lk__follower *one = follower_of(followers, seen, now_ns);
	if (!one) {
		followers->crowded_ns = seen->known ? followers->crowded_ns : now_ns;
		return false;
	}
	if (!is_recent(one->alive_ns, now_ns))
		one->alive_ns = 0;
	bool speaks = seen->has || has_moved(one, seen);
	bool first = seen->returning && one->alive_ns == 0 && !one->silent;
	one->offset = seen->behind;
	one->silent = !speaks && (one->silent || seen->over);
	if (seen->known)
		one->alive_ns = 0;
	else if (speaks || first)
		one->alive_ns = now_ns;
	return !seen->known && !seen->has && !seen->over && !one->silent;
}

int lk__followers_due(const struct lk__followers *followers, int64_t now_ns)
{
	int due = 0;
	if (is_recent(followers->crowded_ns, now_ns))
		return LK__ACKS_MAX + 1;
	for (size_t i = 0; i < LK__ACKS_MAX; i++)
		due += is_recent(followers->each[i].alive_ns, now_ns);
	return due;
}
