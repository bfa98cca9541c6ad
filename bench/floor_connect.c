/* SPDX-License-Identifier: MIT */
/*
 * The floor of a new client: a connection, and nothing but the commands that are asked for. It is
 * told whether the server has the scripts; if not, each goes with its call, in one write.
 */
#include "common.h"
#include "connect.h"
#include "recipes.h"

static redisContext *redis;
static struct lk__request *acquire, *release;

static void floor_start(void)
{
	bench_requests(bench_recipe("lock"), BENCH_CONNECT_NAME, 1000001, &acquire, &release);
}

static void floor_ping(const char *url)
{
	redis = bench_connect(url);
	redisReply *reply = redisCommand(redis, "PING");
	if (!reply || reply->type != REDIS_REPLY_STATUS)
		bench_die("no answer to PING");
	freeReplyObject(reply);
}

static void floor_call(const struct lk__request *request, bool warm)
{
	const struct lk__script *script = &lk__scripts[request->script];
	int answers = warm ? 1 : 2;
	if (!warm)
		redisAppendCommand(redis, "SCRIPT LOAD %b", script->text, script->size);
	redisAppendFormattedCommand(redis, lk__buffer_front(&request->bytes),
				    lk__buffer_size(&request->bytes));
	while (answers-- > 0) {
		void *answer = NULL;
		if (redisGetReply(redis, &answer) != REDIS_OK)
			bench_die("connection lost: %s", redis->errstr);
		const redisReply *reply = answer;
		if (reply->type == REDIS_REPLY_ERROR)
			bench_die("%s", reply->str);
		freeReplyObject(answer);
	}
}

static void floor_pair(const char *url, bool warm)
{
	redis = bench_connect(url);
	floor_call(acquire, warm);
	floor_call(release, warm);
}

static void floor_leave(void)
{
	redisFree(redis);
}

int main(int argc, char **argv)
{
	static const struct bench_visitor side = {floor_start, floor_ping, floor_pair, floor_leave};
	return bench_connects(argc, argv, &side);
}
