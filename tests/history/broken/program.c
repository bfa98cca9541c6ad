/* The commands of an algorithm's program; reading them is the system driver's main(). */
#include "algorithm.h"

#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRY_AGAIN_MS 5

static redisContext *redis;
static char held_token[64], held_name[256]; /* copies: its command is gone at the release */
static struct attempt held;
static int64_t held_until_ns;

static int64_t answered(redisReply *reply, char text[64])
{
	int64_t value = -1;
	if (reply && text) {
		bool is_text = reply->type == REDIS_REPLY_STRING;
		snprintf(text, 64, "%s", is_text ? reply->str : "");
	}
	if (reply && reply->type != REDIS_REPLY_ERROR)
		value = reply->type == REDIS_REPLY_INTEGER ? reply->integer
							   : reply->type != REDIS_REPLY_NIL;
	freeReplyObject(reply);
	return value;
}

int64_t ask(struct attempt *attempt, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	redisReply *reply = redisvCommand(attempt->redis, format, arguments);
	va_end(arguments);
	return answered(reply, NULL);
}

int64_t ask_text(struct attempt *attempt, char text[64], const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	redisReply *reply = redisvCommand(attempt->redis, format, arguments);
	va_end(arguments);
	return answered(reply, text);
}

/* One try, of which a grant that comes when its lease is over is given back. */
static enum outcome try_once(const struct command *command)
{
	static unsigned long count;
	snprintf(held_token, sizeof(held_token), "%d:%lu", (int)getpid(), ++count);
	snprintf(held_name, sizeof(held_name), "%s", command_text(command, "name", NULL));
	held = (struct attempt){
		.redis = redis,
		.name = held_name,
		.token = held_token,
		.lease_ms = command_number(command, "lease", 30000),
	};
	/* One hundredth and 2 ms less, as the library does: clocks differ in speed. */
	held_until_ns = now_ns() + held.lease_ms * 990000 - 2000000;
	enum outcome outcome = algorithm_try(&held);
	if (outcome != DONE || now_ns() < held_until_ns)
		return outcome;
	return algorithm_release(&held) == BROKEN ? BROKEN : BUSY;
}

static int acquire(const struct command *command, struct answer *answer, int64_t wait_ms)
{
	int64_t end_ns = now_ns() + wait_ms * 1000000;
	enum outcome outcome;
	while ((outcome = try_once(command)) == BUSY && now_ns() < end_ns)
		usleep(TRY_AGAIN_MS * 1000);
	if (outcome == DONE)
		answer_int(answer, "deadline_ns", held_until_ns);
	if (outcome == BUSY)
		return wait_ms ? LK_ETIMEDOUT : LK_EBUSY;
	return outcome == DONE ? 0 : LK_EMAYBEHELD;
}

static int release(void)
{
	static const int results[] = {[BUSY] = LK_ENOTOWNER, [DONE] = 0, [BROKEN] = LK_EMAYBEHELD};
	return results[algorithm_release(&held)];
}

/* open url=unix://PATH */
static int open_connection(const struct command *command)
{
	const char *url = command_text(command, "url", NULL);
	if (!url || strncmp(url, "unix://", 7) != 0)
		return LK_EINVAL;
	redis = redisConnectUnix(url + 7);
	return redis && !redis->err ? 0 : LK_EUNREACHABLE;
}

void call_run(const struct command *command, struct answer *answer)
{
	lk_error error = {0};
	int result = LK_EINVAL;
	if (strcmp(command->verb, "open") == 0)
		result = open_connection(command);
	else if (redis && strcmp(command->verb, "try") == 0)
		result = acquire(command, answer, 0);
	else if (redis && strcmp(command->verb, "within") == 0)
		result = acquire(command, answer, command_number(command, "wait", 0));
	else if (redis && strcmp(command->verb, "release") == 0)
		result = release();
	answer_result(answer, result, &error);
}
