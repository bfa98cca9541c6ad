/* SPDX-License-Identifier: MIT */
/*
 * The floor of a hand-over to another process: it hears the release on a subscription that is in
 * place already, and asks for the lock on a second connection. Both block.
 *
 * KIND "message": the message is all that it needs, as where the releaser hands the lock on.
 */
#include "common.h"
#include "handover.h"

#include <unistd.h>
#include <stdio.h>
#include <string.h>

static redisContext *scripts, *messages;
static char *acquire, *release;
static int acquire_size, release_size;
static int waiter, message_only;

static void floor_start(const char *url, const char *kind, int waits)
{
	waiter = waits;
	message_only = strcmp(kind, "message") == 0;
	char channel[96], owner[64];
	snprintf(owner, sizeof(owner), "5f0c8c5e-7a3e-4d0a-9b59-0b1f5b7f2f11:%ld", (long)getpid());
	bench_channel(channel, sizeof(channel), BENCH_HANDOVER_NAME);
	scripts = bench_connect(url);
	messages = bench_connect(url);
	freeReplyObject(redisCommand(messages, "SUBSCRIBE %s", channel));
	acquire = bench_script(scripts, LK__SCRIPT_LOCK_ACQUIRE, BENCH_HANDOVER_NAME, 3,
			       (const char *[]){owner, BENCH_LEASE, BENCH_NO_DEADLINE},
			       &acquire_size);
	release = bench_script(scripts, LK__SCRIPT_LOCK_RELEASE, BENCH_HANDOVER_NAME, 2,
			       (const char *[]){owner, channel}, &release_size);
}

static int floor_try(void)
{
	redisReply *reply = bench_send(scripts, acquire, acquire_size);
	int granted = reply->type == REDIS_REPLY_NIL;
	freeReplyObject(reply);
	return granted;
}

static void floor_acquire(void)
{
	while ((waiter && message_only) || !floor_try()) {
		void *message = NULL;
		if (redisGetReply(messages, &message) != REDIS_OK)
			bench_die("connection lost: %s", messages->errstr);
		freeReplyObject(message);
		if (message_only)
			return;
	}
}

static void floor_release(void)
{
	if (!waiter || !message_only)
		freeReplyObject(bench_send(scripts, release, release_size));
}

int main(int argc, char **argv)
{
	static const struct bench_handover_side side = {floor_start, floor_acquire, floor_release};
	return bench_handover(argc, argv, &side);
}
