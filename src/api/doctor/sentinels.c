/* SPDX-License-Identifier: MIT */
/* Asks one sentinel: which master it watches, whom it knows, and whether there would be a failover.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/facts.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "resp/reply.h"
#include "topo/sentinel.h"

void lk__places_add(struct lk__places *places, const char *name)
{
	for (size_t i = 0; i < places->count; i++)
		if (strcmp(places->name[i], name) == 0)
			return;
	if (places->count < LK__PLACES_MORE_MAX)
		snprintf(places->name[places->count++], LK__PLACE_SIZE, "%s", name);
}

static redisReply *ask_about(struct lk__asking *asking, const char *what, const char *master,
			     int *code_out)
{
	return lk__asking_say(asking, LK__SAY("SENTINEL", what, master), code_out);
}

static bool is_error(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR;
}

/* Connects to where `config` leads, which it takes over, and logs in. 0, or a code with the
 * reason. */
static int sentinel_open(struct lk__asking *asking, struct lk_config *config)
{
	int rc = lk__asking_open(asking, config);
	if (rc == 0)
		rc = lk__link_auth(&asking->link);
	if (rc < 0 || !*asking->link.config->password)
		return rc;
	redisReply *reply = lk__asking_hear(asking, &rc);
	if (reply && is_error(reply)) {
		snprintf(asking->reason, sizeof(asking->reason), "%.200s", reply->str);
		rc = lk__refusal(reply->str).code;
	}
	freeReplyObject(reply);
	return rc < 0 ? rc : 0;
}

/* ---- the answers ---- */

static void read_master(struct lk__facts *facts, const redisReply *reply)
{
	char place[LK__PLACE_SIZE] = "";
	if (lk__sentinel_place(reply, place))
		snprintf(facts->master, sizeof(facts->master), "%s", place);
	if (*place)
		lk__number_read(lk__sentinel_field(reply, "down-after-milliseconds"), 0, INT64_MAX,
				&facts->down_after_ms);
}

static void read_places(struct lk__places *places, const redisReply *reply)
{
	char place[LK__PLACE_SIZE];
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
		if (lk__sentinel_place(reply->element[i], place))
			lk__places_add(places, place);
}

/* Reads what it says instead of an answer. 0, or a code. */
static int read_error(struct lk__facts *facts, struct lk__asking *asking, const char *what,
		      const char *text)
{
	static const char unknown[] = "ERR unknown command";
	int code = lk__refusal(text).code;
	if (strncmp(text, unknown, sizeof(unknown) - 1) == 0) {
		snprintf(asking->reason, sizeof(asking->reason), "it is no sentinel: %.200s", text);
		return LK_EREFUSED;
	}
	if (strncmp(text, "NOQUORUM", 8) == 0) {
		snprintf(facts->no_failover, sizeof(facts->no_failover), "%.150s", text);
		return 0;
	}
	if (*asking->reason == '\0')
		snprintf(asking->reason, sizeof(asking->reason), "SENTINEL %s: %.200s", what, text);
	facts->has_rights = facts->has_rights && code != LK_EDENIED;
	return code == LK_EAUTH ? code : 0;
}

/* All that is asked. 0, or a code with the reason. */
static int ask_all(struct lk__facts *facts, struct lk__asking *asking, const char *master,
		   struct lk__places *replicas, struct lk__places *sentinels)
{
	static const char *const what[] = {"MASTER", "REPLICAS", "SENTINELS", "CKQUORUM"};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(what) / sizeof(what[0]); i++) {
		redisReply *reply = ask_about(asking, what[i], master, &rc);
		if (!reply)
			return rc;
		rc = is_error(reply) ? read_error(facts, asking, what[i], reply->str) : 0;
		if (i == 0)
			read_master(facts, reply);
		else if (i < 3)
			read_places(i == 1 ? replicas : sentinels, reply);
		freeReplyObject(reply);
	}
	return rc;
}

/* ---- one sentinel ---- */

/* Where it is, with the credentials of sentinels. */
static struct lk_config *config_to(const struct lk_config *config, const char *place)
{
	struct lk_config *to = lk__sentinel_config(config);
	return to && lk__config_point(to, place) == 0 ? to : lk_config_free(to);
}

int lk__sentinel_pace(const struct lk_config *config, const char *place, int64_t limit_ms,
		      int64_t *down_after_ms_out)
{
	struct lk__asking asking = {.limit_ms = limit_ms};
	struct lk__facts facts = {.down_after_ms = 0};
	struct lk_config *to = config_to(config, place);
	if (!to)
		return LK_ENOMEM;
	to->connect_timeout_ms = limit_ms;
	int rc = sentinel_open(&asking, to);
	redisReply *reply = rc == 0 ? ask_about(&asking, "MASTER", config->master, &rc) : NULL;
	if (reply)
		read_master(&facts, reply);
	freeReplyObject(reply);
	lk__link_close(&asking.link);
	if (rc < 0)
		return rc;
	*down_after_ms_out = facts.down_after_ms;
	return 0;
}

int lk__sentinel_examine(struct lk__facts *facts, const struct lk_config *config, const char *place,
			 struct lk__places *replicas, struct lk__places *sentinels, lk_error *error)
{
	struct lk__asking asking = {.limit_ms = config->command_timeout_ms};
	struct lk_config *to = config_to(config, place);
	bool made = to && asprintf(&facts->url, "%s-sentinel://%s/%s",
				   config->scheme == LK__SCHEME_TLS ? "rediss" : "redis", place,
				   config->master) >= 0;
	if (!made) {
		lk_config_free(to);
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	}
	facts->sentinel = true;
	facts->deployment = LK__SENTINEL;
	lk__facts_configured(facts, to);
	facts->has_rights = true;
	lk__facts_machine(facts, to->scheme, to->host);
	int rc = sentinel_open(&asking, to);
	if (rc == 0)
		rc = ask_all(facts, &asking, config->master, replicas, sentinels);
	lk__link_close(&asking.link);
	if (rc == LK_ENOMEM || rc == LK_ESYSTEM)
		return lk__fail(error, rc, "lk_doctor_new: %s", asking.reason);
	facts->code = rc;
	snprintf(facts->reason, sizeof(facts->reason), "%s", asking.reason);
	return 0;
}
