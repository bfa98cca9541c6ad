/* SPDX-License-Identifier: MIT */
#include "sync/red/votes.h"

#include <assert.h>

#include <lockkeeper/error.h>

bool lk__vote_is_unsure(const struct lk__vote *vote)
{
	return vote->tried &&
	       (vote->type == LK__VOTE_NONE || vote->type == LK__VOTE_UNKNOWN || vote->copies);
}

bool lk__vote_may_stay(const struct lk__vote *vote)
{
	return (vote->granted && vote->cut_off) || lk__vote_is_unsure(vote);
}

bool lk__vote_wants_more(const struct lk__vote *vote)
{
	if (vote->granted || (vote->tried && vote->type == LK__VOTE_NONE))
		return false;
	return vote->type == LK__VOTE_NONE || vote->type == LK__VOTE_LATE ||
	       vote->type == LK__VOTE_NO_VOTE || vote->type == LK__VOTE_UNKNOWN ||
	       vote->code == LK_EUNREACHABLE;
}

void lk__votes_add(struct lk__votes *votes, const struct lk__vote *vote)
{
	assert(vote->type != LK__VOTE_GRANTED || (vote->tried && vote->granted));
	votes->nodes++;
	votes->open += vote->type == LK__VOTE_NONE;
	votes->granted += vote->type == LK__VOTE_GRANTED;
	votes->busy += vote->type == LK__VOTE_BUSY;
	votes->late += vote->type == LK__VOTE_LATE;
	votes->wrong += vote->code == LK_EWRONGTYPE;
	votes->lasting += vote->lasting;
	votes->may_have += vote->type == LK__VOTE_GRANTED || lk__vote_may_stay(vote);
	votes->awaited += vote->type == LK__VOTE_NONE && vote->tried && !vote->copies;
	if (vote->type == LK__VOTE_BUSY && vote->ttl_ms > votes->ttl_ms)
		votes->ttl_ms = vote->ttl_ms;
}

/* Tells whether there is no majority without one of them. */
static bool votes_stop_it(const struct lk__votes *votes, size_t some)
{
	return some > votes->nodes - votes->majority;
}

/* Tells whether others have it, where no majority has granted it. */
static bool votes_are_busy(const struct lk__votes *votes)
{
	return votes->busy > 0 && votes->busy + votes->granted + votes->late >= votes->majority &&
	       votes->may_have < votes->majority && !votes_stop_it(votes, votes->wrong);
}

/* As votes_are_busy(), if all who have not answered yet say so. */
static bool votes_may_be_busy(const struct lk__votes *votes)
{
	struct lk__votes all = *votes;
	all.busy += all.open;
	all.may_have -= all.awaited;
	return votes_are_busy(&all);
}

bool lk__votes_decided(const struct lk__votes *votes)
{
	assert(votes->majority > votes->nodes / 2 && votes->majority <= votes->nodes);
	if (votes->granted >= votes->majority)
		return true;
	if (votes->granted + votes->open >= votes->majority)
		return false;
	return votes_are_busy(votes) || !votes_may_be_busy(votes);
}

static struct lk__attempt_event votes_failed(const struct lk__votes *votes, int code)
{
	return (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
					  .code = code,
					  .retryable = !votes_stop_it(votes, votes->lasting)};
}

struct lk__attempt_event lk__votes_event(const struct lk__votes *votes, bool worth)
{
	size_t majority = votes->majority;
	assert(majority > votes->nodes / 2 && votes->granted <= votes->may_have);
	if (votes->granted >= majority && worth)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_GRANTED};
	if (votes->may_have >= majority)
		return votes_failed(votes, LK_EMAYBEHELD);
	if (votes_stop_it(votes, votes->wrong))
		return (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
						  .code = LK_EWRONGTYPE};
	if (votes_are_busy(votes))
		return (struct lk__attempt_event){.type = LK__ATTEMPT_BUSY,
						  .ttl_ms = votes->ttl_ms};
	if (votes->late > 0 && votes->granted + votes->late >= majority)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_LATE};
	return votes_failed(votes, LK_ENOQUORUM);
}
