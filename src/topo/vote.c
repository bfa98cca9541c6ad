/* SPDX-License-Identifier: MIT */
#include "topo/vote.h"

#include <string.h>

/* Tells whether another of its addresses stands for it: one that answers, or else the first. */
static bool is_counted(const struct lk__scout *scout, size_t index)
{
	const struct lk__peer *peer = lk__scout_peer(scout, index);
	bool answers = lk__scout_has_answered(scout, peer);
	for (size_t i = 0; *peer->id && i < lk__scout_count(scout); i++) {
		const struct lk__peer *other = lk__scout_peer(scout, i);
		if (i == index || strcmp(other->id, peer->id) != 0)
			continue;
		bool other_answers = lk__scout_has_answered(scout, other);
		if (other_answers == answers ? i < index : other_answers)
			return true;
	}
	return false;
}

/* Its vote in this round; "": none. */
static const char *says(const struct lk__scout *scout, size_t index)
{
	const struct lk__peer *peer = lk__scout_peer(scout, index);
	return lk__scout_has_answered(scout, peer) && !is_counted(scout, index) ? peer->says : "";
}

size_t lk__vote_count(const struct lk__scout *scout, const char *saying)
{
	size_t same = 0;
	for (size_t i = 0; i < lk__scout_count(scout); i++)
		same += strcmp(says(scout, i), saying) == 0;
	return same;
}

struct lk__vote lk__vote_of(const struct lk__scout *scout)
{
	struct lk__vote vote = {.common = ""};
	for (size_t i = 0; i < lk__scout_count(scout); i++) {
		const char *saying = says(scout, i);
		vote.known += !is_counted(scout, i);
		if (!*saying)
			continue;
		vote.votes++;
		size_t same = lk__vote_count(scout, saying);
		if (same <= vote.most)
			continue;
		vote.common = saying;
		vote.most = same;
	}
	return vote;
}

bool lk__vote_decides(const struct lk__vote *vote, bool over)
{
	return 2 * vote->most > vote->known || (over && 2 * vote->most > vote->votes);
}
