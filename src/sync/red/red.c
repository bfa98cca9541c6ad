/* SPDX-License-Identifier: MIT */
#include "sync/red/red.h"

#include <stdlib.h>
#include <string.h>

#include "sync/script.h"

const struct lk__recipe lk__red_recipe = {
	.type = "red lock",
	.sharing = LK__ONE_QUEUE,
	.flags = LK__NO_TERMS | LK__SPINS,
};

struct lk__request *lk__identity_question(unsigned index)
{
	static const char *const questions[LK__IDENTITY_QUESTIONS][3] = {
		{"INFO", "server"}, {"INFO", "persistence"}, {"CONFIG", "GET", "appendfsync"}};
	struct lk__words words = {0};
	for (unsigned i = 0; i < 3 && questions[index][i]; i++)
		lk__words_text(&words, questions[index][i]);
	return lk__words_command(&words);
}

/* The value behind "\nname:" in INFO's text; NULL when there is none. */
static const char *info_find(const struct lk__request *answer, const char *name)
{
	const redisReply *reply = answer->reply;
	size_t size = strlen(name);
	if (answer->code || !reply ||
	    (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
		return NULL;
	for (const char *line = reply->str; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return line + size + 1;
	}
	return NULL;
}

static bool always_synced(const struct lk__request *answer)
{
	const redisReply *reply = answer->reply;
	return !answer->code && reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
	       reply->element[1]->str && strcmp(reply->element[1]->str, "always") == 0;
}

bool lk__identity_read(struct lk__request *const answers[LK__IDENTITY_QUESTIONS], int64_t now_ns,
		       struct lk__identity *identity)
{
	const char *run_id = info_find(answers[0], "run_id");
	const char *uptime = info_find(answers[0], "uptime_in_seconds");
	const char *aof = info_find(answers[1], "aof_enabled");
	if (!run_id || !uptime)
		return false;
	size_t size = strcspn(run_id, "\r\n");
	if (size == 0 || size >= sizeof(identity->run_id))
		return false;
	memcpy(identity->run_id, run_id, size);
	identity->run_id[size] = 0;
	long long seconds = strtoll(uptime, NULL, 10);
	if (seconds > 0)
		seconds--; /* both ends are cut to whole seconds */
	if (seconds > INT32_MAX)
		seconds = INT32_MAX;
	identity->started_ns = now_ns - seconds * INT64_C(1000000000);
	identity->durable = aof && *aof == '1' && always_synced(answers[2]);
	return true;
}
