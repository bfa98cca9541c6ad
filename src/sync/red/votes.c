/* SPDX-License-Identifier: MIT */
#include "sync/red/votes.h"

#include <assert.h>

#include <lockkeeper/error.h>

struct lk__vote_means lk__vote_means(const struct lk__vote *vote)
{
	bool silent = vote->tried && vote->type == LK__VOTE_NONE;
	bool unsure = silent || (vote->tried && (vote->type == LK__VOTE_UNKNOWN || vote->copies));
	bool again = vote->type == LK__VOTE_NONE || vote->type == LK__VOTE_LATE ||
		     vote->type == LK__VOTE_NO_VOTE || vote->type == LK__VOTE_UNKNOWN ||
		     vote->code == LK_EUNREACHABLE;
	return (struct lk__vote_means){.unsure = unsure,
				       .may_stay = (vote->granted && vote->cut_off) || unsure,
				       .wants_more = again && !vote->granted && !silent};
}

struct votes {
	size_t nodes, majority;
	size_t open; /* no answer yet */
	size_t granted, busy, late;
	size_t wrong;    /* there is something else under the name */
	size_t lasting;  /* would answer the next try in the same way */
	size_t may_have; /* granted it, or may have it for all we know, until that has gone back */
	size_t awaited;  /* of those: only for want of an answer, which may clear it up */
	int64_t ttl_ms;  /* the longest of those who are busy */
};

static void votes_add(struct votes *votes, const struct lk__vote *vote)
{
	assert(vote->type != LK__VOTE_GRANTED || (vote->tried && vote->granted));
	votes->nodes++;
	votes->open += vote->type == LK__VOTE_NONE;
	votes->granted += vote->type == LK__VOTE_GRANTED;
	votes->busy += vote->type == LK__VOTE_BUSY;
	votes->late += vote->type == LK__VOTE_LATE;
	votes->wrong += vote->code == LK_EWRONGTYPE;
	votes->lasting += vote->lasting;
	votes->may_have += vote->type == LK__VOTE_GRANTED || lk__vote_means(vote).may_stay;
	votes->awaited += vote->type == LK__VOTE_NONE && vote->tried && !vote->copies;
	if (vote->type == LK__VOTE_BUSY && vote->ttl_ms > votes->ttl_ms)
		votes->ttl_ms = vote->ttl_ms;
}

/* Tells whether there is no majority without one of them. */
static bool votes_stop_it(const struct votes *votes, size_t some)
{
	return some > votes->nodes - votes->majority;
}

/* Tells whether others have it, where no majority has granted it. */
static bool votes_are_busy(const struct votes *votes)
{
	return votes->busy > 0 && votes->busy + votes->granted + votes->late >= votes->majority &&
	       votes->may_have < votes->majority && !votes_stop_it(votes, votes->wrong);
}

/* As votes_are_busy(), if all who have not answered yet say so. */
static bool votes_may_be_busy(const struct votes *votes)
{
	struct votes all = *votes;
	all.busy += all.open;
	all.may_have -= all.awaited;
	return votes_are_busy(&all);
}

static bool votes_decide(const struct votes *votes)
{
	if (votes->granted >= votes->majority)
		return true;
	if (votes->granted + votes->open >= votes->majority)
		return false;
	return votes_are_busy(votes) || !votes_may_be_busy(votes);
}

static struct lk__attempt_event votes_failed(const struct votes *votes, int code)
{
	return (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
					  .code = code,
					  .retryable = !votes_stop_it(votes, votes->lasting)};
}

static struct lk__attempt_event votes_event(const struct votes *votes, bool worth)
{
	size_t majority = votes->majority;
	assert(votes->granted <= votes->may_have);
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

struct lk__verdict lk__votes_judge(const struct lk__vote *votes, size_t nodes, size_t majority,
				   bool worth)
{
	struct votes all = {.majority = majority};
	assert(majority > nodes / 2 && majority <= nodes);
	for (size_t i = 0; i < nodes; i++)
		votes_add(&all, &votes[i]);
	return (struct lk__verdict){.granted = all.granted,
				    .decided = votes_decide(&all),
				    .event = votes_event(&all, worth)};
}
