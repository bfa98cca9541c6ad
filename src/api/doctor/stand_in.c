/* SPDX-License-Identifier: MIT */
/*
 * What answers in place of a server: a proxy that understands the commands, or a program for tests.
 * Each is known by what HELLO says.
 */
#include <stdio.h>
#include <string.h>

#include "api/doctor/findings.h"
#include "base/fail.h"
#include "drive/lock/ask.h"

struct lk__stand_in {
	const char *hello; /* its "server" in HELLO */
	enum lk__found what;
	const char *title, *follows;
};

static const struct lk__stand_in stand_ins[] = {
	{"envoy-redis-proxy", LK__FOUND_PROXY, "Envoy's redis_proxy",
	 "it has no SUBSCRIBE, and refuses several locks at once (docs/servers.md)"},
	{"fakeredis", LK__FOUND_TEST_SERVER, "fakeredis",
	 "up to version 2.40 it ends the connection behind each error, so that the code of a "
	 "refusal may be lost"},
	{"miniredis", LK__FOUND_TEST_SERVER, "miniredis",
	 "times to live stand still unless the test moves them on: a lock whose holder died never "
	 "ends"},
};

#define STAND_INS (sizeof(stand_ins) / sizeof(stand_ins[0]))

static void read_hello(struct lk__facts *facts, const redisReply *reply)
{
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
		const redisReply *name = reply->element[i], *value = reply->element[i + 1];
		if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
		    strcmp(name->str, "server") != 0)
			continue;
		for (size_t row = 0; row < STAND_INS; row++)
			if (strcmp(value->str, stand_ins[row].hello) == 0)
				facts->stand_in = &stand_ins[row];
	}
}

/* An old server has no HELLO: it is not one of these. */
int lk__stand_in_ask(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	const char *argv[] = {"HELLO", "2"};
	lk_error own = {0};
	struct lk__request *hello = lk__request_new(2, argv, (size_t[]){5, 1});
	int rc = lk__facts_question(asked, hello, &own);
	if (rc == LK__WAIT_READY) {
		read_hello(facts, hello->reply);
		lk__request_free(hello);
	} else if (rc == LK_ENOMEM || rc == LK_ECLOSED) {
		return lk__fail(error, rc, "%s", own.message);
	}
	return LK__WAIT_READY;
}

bool lk__judge_stand_in(struct lk__findings *findings, const struct lk__facts *node, size_t index)
{
	if (!node->stand_in)
		return false;
	lk__find(findings, node->stand_in->what, index, "it is %s: %s", node->stand_in->title,
		 node->stand_in->follows);
	return node->stand_in->what == LK__FOUND_TEST_SERVER;
}
