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
	votes->may_have += vote->type == LK__VOTE_GRANTED || lk__vote_may_stay(vote);
	if (vote->type == LK__VOTE_BUSY && vote->ttl_ms > votes->ttl_ms)
		votes->ttl_ms = vote->ttl_ms;
}

bool lk__votes_decided(const struct lk__votes *votes)
{
	assert(votes->majority > votes->nodes / 2 && votes->majority <= votes->nodes);
	return votes->granted >= votes->majority || votes->granted + votes->open < votes->majority;
}

struct lk__attempt_event lk__votes_event(const struct lk__votes *votes, bool worth)
{
	size_t majority = votes->majority, asked_again = votes->granted + votes->late;
	assert(majority > votes->nodes / 2 && votes->granted <= votes->may_have);
	if (votes->granted >= majority && worth)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_GRANTED};
	if (votes->may_have >= majority)
		return (struct lk__attempt_event){
			.type = LK__ATTEMPT_FAILED, .code = LK_EMAYBEHELD, .retryable = true};
	if (votes->wrong > votes->nodes - majority) /* no majority without one of them */
		return (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED,
						  .code = LK_EWRONGTYPE};
	if (votes->busy > 0 && votes->busy + asked_again >= majority)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_BUSY,
						  .ttl_ms = votes->ttl_ms};
	if (votes->late > 0 && asked_again >= majority)
		return (struct lk__attempt_event){.type = LK__ATTEMPT_LATE};
	return (struct lk__attempt_event){
		.type = LK__ATTEMPT_FAILED, .code = LK_ENOQUORUM, .retryable = true};
}
