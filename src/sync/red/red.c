/* SPDX-License-Identifier: MIT */
#include "sync/red/red.h"

#include <assert.h>
#include <string.h>

#include "resp/reply.h"
#include "sync/script.h"

const struct lk__recipe lk__red_recipe = {
	.type = "red lock",
	.sharing = LK__ONE_QUEUE,
	.flags = LK__NO_TERMS | LK__SPINS,
};

struct lk__request *lk__identity_question(unsigned index)
{
	static const char *const questions[LK__IDENTITY_QUESTIONS_MAX][3] = {
		{"INFO", "server"},
		{"INFO", "persistence"},
		{"CONFIG", "GET", "appendfsync"},
		{"INFO", "replication"},
		{"CLUSTER", "MYID"}};
	struct lk__words words = {0};
	assert(index < LK__IDENTITY_QUESTIONS_MAX);
	for (unsigned i = 0; i < 3 && questions[index][i]; i++)
		lk__words_text(&words, questions[index][i]);
	return lk__words_command(&words);
}

/* As lk__info_find() says; NULL also where INFO is not answered. */
static const char *info_find(const struct lk__request *answer, const char *name)
{
	const redisReply *reply = answer->reply;
	bool told = !answer->code && reply &&
		    (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
	return told ? lk__info_find(reply->str, name) : NULL;
}

/* Up to the end of its line. False, and empty, when it is not there or too long. */
static bool info_copy(char out[LK__RUN_ID_SIZE], const struct lk__request *answer, const char *name)
{
	const char *value = info_find(answer, name);
	size_t size = value ? strcspn(value, "\r\n") : 0;
	out[0] = 0;
	if (size == 0 || size >= LK__RUN_ID_SIZE)
		return false;
	memcpy(out, value, size);
	out[size] = 0;
	return true;
}

/* Its id, where it is a node of a cluster. False when it is one, and does not tell. */
static bool member_read(char out[LK__RUN_ID_SIZE], const struct lk__request *server,
			const struct lk__request *answer)
{
	const redisReply *reply = answer->reply;
	const char *mode = info_find(server, "redis_mode");
	bool told = !answer->code && reply && reply->type == REDIS_REPLY_STRING && reply->len > 0 &&
		    reply->len < LK__RUN_ID_SIZE;
	if (told)
		memcpy(out, reply->str, reply->len + 1);
	return told || !mode || strncmp(mode, "cluster", strlen("cluster")) != 0;
}

static bool always_synced(const struct lk__request *answer)
{
	const redisReply *reply = answer->reply;
	return !answer->code && reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	       reply->element[1]->str && strcmp(reply->element[1]->str, "always") == 0;
}

/* One that does not tell how long it has run is taken for new. */
static int64_t uptime_read(const struct lk__request *server)
{
	const char *text = info_find(server, "uptime_in_seconds");
	int64_t seconds;
	const char *end = lk__number_take(text, 0, INT64_MAX, &seconds);
	return end && (*end == '\r' || *end == '\n' || !*end) ? seconds : 0;
}

bool lk__identity_read(struct lk__request *const *answers, size_t count, int64_t now_ns,
		       struct lk__identity *identity)
{
	const char *aof = info_find(answers[1], "aof_enabled");
	assert(count >= LK__IDENTITY_QUESTIONS && count <= LK__IDENTITY_QUESTIONS_MAX);
	if (!info_copy(identity->run_id, answers[0], "run_id") ||
	    !info_find(answers[0], "uptime_in_seconds"))
		return false;
	identity->member[0] = 0;
	if (count > LK__IDENTITY_QUESTIONS &&
	    !member_read(identity->member, answers[0], answers[LK__IDENTITY_QUESTIONS]))
		return false;
	info_copy(identity->history, answers[3], "master_replid");
	if (info_copy(identity->before, answers[3], "master_replid2") &&
	    strspn(identity->before, "0") == strlen(identity->before))
		identity->before[0] = 0;
	int64_t seconds = uptime_read(answers[0]);
	if (seconds > 0)
		seconds--; /* both ends are cut to whole seconds */
	if (seconds > INT32_MAX)
		seconds = INT32_MAX;
	identity->started_ns = now_ns - seconds * INT64_C(1000000000);
	identity->durable = aof && *aof == '1' && always_synced(answers[2]);
	return true;
}

/* True of the same process with the same data. A master that has no replicas for long names its
 * history anew, and then goes on with none. */
static bool is_same(const struct lk__identity *identity, const struct lk__identity *before)
{
	return strcmp(identity->run_id, before->run_id) == 0 &&
	       (strcmp(identity->history, before->history) == 0 || !identity->before[0]);
}

/* Either may have been asked while it was, or was still, a replica. */
static bool goes_on(const struct lk__identity *identity, const struct lk__identity *before)
{
	return before->history[0] && (strcmp(identity->before, before->history) == 0 ||
				      strcmp(identity->history, before->history) == 0);
}

void lk__identity_judge(struct lk__identity *identity, const struct lk__identity *before,
			enum lk__heirs heirs, int64_t now_ns)
{
	bool told = identity->history[0] && !identity->before[0];
	bool heir = heirs == LK__HEIRS_WITH_ALL && before && goes_on(identity, before);
	identity->taken_over = false;
	identity->since_ns = identity->durable ? INT64_MIN / 2 : identity->started_ns;
	if (heirs == LK__NO_HEIRS)
		return;
	if (before && (heir || is_same(identity, before))) {
		identity->since_ns = before->since_ns;
		identity->taken_over = before->taken_over;
	} else if (before || (heirs == LK__HEIRS && !told)) {
		identity->since_ns = now_ns;
		identity->taken_over = true;
	}
}
