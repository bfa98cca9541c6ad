/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include <stdio.h>
#include <string.h>

#include "common.h"

enum subject { PING, COLD, WARM };

static enum subject subject_called(const char *word)
{
	static const char *const words[] = {"ping", "cold", "warm"};
	for (int i = PING; i <= WARM; i++)
		if (strcmp(words[i], word) == 0)
			return (enum subject)i;
	bench_die("not ping, cold or warm: %s", word);
}

static void load_scripts(redisContext *keeper)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++)
		freeReplyObject(redisCommand(keeper, "SCRIPT LOAD %b", lk__scripts[i].text,
					     lk__scripts[i].size));
}

static void forget_scripts(redisContext *keeper)
{
	redisReply *reply = redisCommand(keeper, "SCRIPT FLUSH");
	if (!reply || reply->type != REDIS_REPLY_STATUS)
		bench_die("cannot empty the script cache");
	freeReplyObject(reply);
}

/* Returns what it took, ns. */
static int64_t visit(const struct bench_visitor *side, const char *url, enum subject subject)
{
	int64_t begun_ns = bench_now_ns();
	if (subject == PING)
		side->ping(url);
	else
		side->pair(url, subject == WARM);
	int64_t taken_ns = bench_now_ns() - begun_ns;
	side->leave();
	return taken_ns;
}

int bench_connects(int argc, char **argv, const struct bench_visitor *side)
{
	if (argc != 5)
		bench_die("usage: %s URL KEEPER_URL ROUNDS ping|cold|warm", argv[0]);
	redisContext *keeper = bench_connect(argv[2]);
	long rounds = bench_number(argv[3], 1, 1000000);
	enum subject subject = subject_called(argv[4]);
	struct bench_samples samples;
	bench_samples_init(&samples, (size_t)rounds);
	load_scripts(keeper);
	side->start();
	for (long i = 0; i < rounds; i++) {
		if (subject == COLD)
			forget_scripts(keeper);
		bench_samples_add(&samples, visit(side, argv[1], subject));
	}
	redisFree(keeper);
	printf("{\"p50_us\": %.2f, \"p99_us\": %.2f}\n", bench_samples_us(&samples, 0.5),
	       bench_samples_us(&samples, 0.99));
	return 0;
}
