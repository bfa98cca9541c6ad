/* SPDX-License-Identifier: MIT */
/* The barrier: who was let through has a hold, also where it leaves at once. */
#include <string.h>

#include <lockkeeper/error.h>

#include "resp/reply.h"
#include "sync/recipes.h"
#include "sync/script.h"

static struct lk__request *barrier_acquire(const struct lk__try *wanted)
{
	const char *what = wanted->flags & LK__BARRIER_LEAVES   ? "leave"
			   : wanted->flags & LK__BARRIER_ENTERS ? "enter"
								: "await";
	return lk__barrier_call(wanted->target, what, wanted->field, wanted);
}

static struct lk__request *barrier_release(const struct lk__target *target, const char *field)
{
	return lk__barrier_call(target, "release", field, NULL);
}

static struct lk__request *barrier_force(const struct lk__target *target)
{
	return lk__barrier_call(target, "force", "", NULL);
}

static void barrier_refused(struct lk__answer *answer, int code, const char *reason)
{
	answer->event = (struct lk__attempt_event){.type = LK__ATTEMPT_FAILED, .code = code};
	answer->reason = reason;
}

static void barrier_read_acquire(const struct lk__request *request, struct lk__answer *answer)
{
	const redisReply *reply = request->code ? NULL : request->reply;
	const char *said = reply && reply->type == REDIS_REPLY_STATUS ? reply->str : "";
	if (strcmp(said, "GONE") == 0)
		barrier_refused(answer, LK_ELOST, "its place ran out, or the barrier was broken");
	else if (strncmp(said, "OTHERS ", strlen("OTHERS ")) == 0)
		barrier_refused(answer, LK_EINVAL, said + strlen("OTHERS "));
	else
		lk__fence_read_acquire(request, answer);
}

/* The next word, of digits only. */
static bool party_number(const char **at, int64_t *number_out)
{
	char word[24];
	size_t size = strcspn(*at, " ");
	if (size == 0 || size >= sizeof(word) || strspn(*at, "0123456789") != size)
		return false;
	memcpy(word, *at, size);
	word[size] = '\0';
	*at += size + ((*at)[size] == ' ');
	return lk__number_read(word, 0, INT64_MAX, number_out);
}

bool lk__barrier_read_party(const redisReply *text, struct lk__party *party_out)
{
	static const struct {
		const char *name;
		enum lk__party_state state;
	} states[] = {
		{"await ", LK__PARTY_WAITS},   {"enter ", LK__PARTY_WAITS},
		{"inside ", LK__PARTY_INSIDE}, {"leave ", LK__PARTY_LEAVES},
		{"met ", LK__PARTY_ENDED},     {"left ", LK__PARTY_ENDED},
		{"gone ", LK__PARTY_ENDED},
	};
	int64_t lease_ms, deadline_us;
	if (text->type != REDIS_REPLY_STRING || strlen(text->str) != (size_t)text->len)
		return false;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		const char *at = text->str + strlen(states[i].name);
		if (strncmp(text->str, states[i].name, strlen(states[i].name)) != 0)
			continue;
		party_out->state = states[i].state;
		return party_number(&at, &party_out->until_ms) &&
		       party_number(&at, &party_out->number) && party_number(&at, &lease_ms) &&
		       party_number(&at, &deadline_us) && *at == '\0';
	}
	return false;
}

const struct lk__recipe lk__barrier_recipe = {
	.type = "barrier",
	.channel_prefix = LK__BARRIER_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__QUEUES | LK__FENCES | LK__SHARES,
	.acquire = barrier_acquire,
	.release = barrier_release,
	.force = barrier_force,
	.renew = lk__barrier_renew,
	.read_acquire = barrier_read_acquire,
	.read_release = lk__reply_released,
};
