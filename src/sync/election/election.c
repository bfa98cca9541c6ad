/* SPDX-License-Identifier: MIT */
/* The election: who leads has the lock. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

void lk__stand_progress(struct lk__stand *stand, int64_t now_ns)
{
	atomic_store(&stand->progress_ns,
		     stand->progress_ms ? lk__after_ms(now_ns, stand->progress_ms) : LK__NEVER);
}

static int64_t kept_ms(int64_t lease_ms)
{
	return lease_ms + lease_ms / (LK__REST_PART - 1);
}

static struct lk__request *election_acquire(const struct lk__try *wanted)
{
	struct lk__stand *stand = wanted->target->stand;
	struct lk__try kept = *wanted;
	kept.lease_ms = kept_ms(wanted->lease_ms);
	assert(stand);
	pthread_mutex_lock(&stand->mutex);
	struct lk__request *request = lk__election_call(
		wanted->target, wanted->once ? "try" : "acquire", wanted->field, &kept, NULL);
	pthread_mutex_unlock(&stand->mutex);
	return request;
}

static struct lk__request *election_release(const struct lk__target *target, const char *field)
{
	return lk__election_call(target, "release", field, NULL, NULL);
}

static struct lk__request *election_force(const struct lk__target *target)
{
	return lk__election_call(target, "force", "", NULL, NULL);
}

/* A renewal only looks where its lease is 1 ms. */
static struct lk__request *election_renew(const struct lk__renewal *renewals, size_t count)
{
	struct lk__renewal *scaled = calloc(count, sizeof(*scaled));
	if (!scaled)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		scaled[i] = renewals[i];
		scaled[i].lease_ms = kept_ms(renewals[i].lease_ms);
	}
	struct lk__request *request = lk__lock_renew(scaled, count);
	free(scaled);
	return request;
}

const struct lk__recipe lk__election_recipe = {
	.type = "election",
	.channel_prefix = LK__LOCK_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__OWN_CHANNEL | LK__QUEUES | LK__FENCES | LK__ELECTS,
	.acquire = election_acquire,
	.release = election_release,
	.force = election_force,
	.renew = election_renew,
	.is_locked = lk__lock_is_locked,
	.is_held_by = lk__lock_is_held_by,
	.read_acquire = lk__fence_read_acquire,
	.read_release = lk__reply_released,
};

/* ---- the record ---- */

/* A text that fits, with its end. */
static bool read_text(const redisReply *reply, char *text_out, size_t size)
{
	if (reply->type != REDIS_REPLY_STRING || reply->len >= size)
		return false;
	memcpy(text_out, reply->str, reply->len);
	text_out[reply->len] = '\0';
	return true;
}

static bool read_number(const redisReply *reply, int64_t least, int64_t most, int64_t *number_out)
{
	return reply->type == REDIS_REPLY_STRING &&
	       lk__number_read(reply->str, least, most, number_out);
}

static bool read_value(const redisReply *reply, char *value_out, size_t *size_out)
{
	if (!read_text(reply, value_out, LK_ELECTION_VALUE_SIZE_MAX + 1))
		return false;
	*size_out = reply->len;
	return true;
}

bool lk__election_read_leader(const redisReply *reply, lk_leader *leader_out,
			      uint64_t *previous_out, int64_t *left_ms_out)
{
	lk_leader read = {.struct_size = sizeof(read)};
	int64_t leads, term, count, previous;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 10)
		return false;
	redisReply *const *at = reply->element;
	if (!lk__reply_integer(at[0], 0, 1, &leads) ||
	    !read_number(at[1], 0, (int64_t)LK__FENCE_TOKEN_MAX, &term) ||
	    !read_number(at[2], 0, INT64_MAX, &read.since_us) ||
	    !read_text(at[3], read.id, sizeof(read.id)) ||
	    !read_text(at[4], read.host, sizeof(read.host)) ||
	    !read_value(at[5], read.value, &read.value_size) ||
	    !read_number(at[6], 0, INT64_MAX, &count) ||
	    !read_text(at[7], read.asked, sizeof(read.asked)) ||
	    !read_number(at[8], 0, (int64_t)LK__FENCE_TOKEN_MAX, &previous) ||
	    !lk__reply_integer(at[9], INT64_MIN, INT64_MAX, left_ms_out))
		return false;
	read.vacant = !leads;
	read.term = (uint64_t)term;
	read.elections = (uint64_t)count;
	*previous_out = (uint64_t)previous;
	*leader_out = read;
	return true;
}

bool lk__election_read_candidate(const redisReply *reply, lk_candidate *candidate_out)
{
	lk_candidate read = {.value_size = 0};
	int64_t priority, standing, listens;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 7)
		return false;
	redisReply *const *at = reply->element;
	if (!read_text(at[0], read.id, sizeof(read.id)) ||
	    !read_number(at[1], -LK_ELECTION_PRIORITY_MAX, LK_ELECTION_PRIORITY_MAX, &priority) ||
	    !read_number(at[2], LK_STAND_NORMAL, LK_STAND_LEAVING, &standing) ||
	    !read_number(at[3], 0, INT64_MAX, &read.since_us) ||
	    !read_text(at[4], read.host, sizeof(read.host)) ||
	    !read_value(at[5], read.value, &read.value_size) ||
	    !lk__reply_integer(at[6], 0, 1, &listens))
		return false;
	read.priority = (int)priority;
	read.standing = (int)standing;
	read.listens = (int)listens;
	*candidate_out = read;
	return true;
}
