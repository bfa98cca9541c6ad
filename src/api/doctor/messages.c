/* SPDX-License-Identifier: MIT */
/* What is tried, since no answer tells it: whether messages can be heard; whether a node that calls
 * itself one of a cluster answers like one; and whether a port answers that does not in TLS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/asking.h"
#include "api/doctor/facts.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/request.h"
#include "drive/lock/ask.h"
#include "sync/lock/lock.h"

#define PLAIN_LIMIT_MS 1000 /* of connecting, and of an answer */

/* ---- TLS ---- */

/* A single server: where there are several places, it is not known which of them was meant. */
static bool is_silent_in_tls(const struct lk__facts *facts, const struct lk_config *config)
{
	return facts->code == LK_EUNREACHABLE && config->scheme == LK__SCHEME_TLS &&
	       !*config->places && strstr(facts->reason, "TLS");
}

/* Any answer counts. No password goes that way. */
int lk__facts_ask_plainly(struct lk__facts *facts, const struct lk_config *config, lk_error *error)
{
	struct lk__asking asking = {.limit_ms = PLAIN_LIMIT_MS};
	redisReply *reply = NULL;
	if (!is_silent_in_tls(facts, config))
		return 0;
	struct lk_config *plain = lk__config_copy(config);
	if (!plain)
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	plain->scheme = LK__SCHEME_TCP;
	plain->connect_timeout_ms = PLAIN_LIMIT_MS;
	int rc = lk__asking_open(&asking, plain);
	if (rc == 0)
		reply = lk__asking_ask(&asking, 1, (const char *[]){"PING"}, &rc);
	lk__link_close(&asking.link);
	if (reply) {
		size_t used = strlen(facts->reason);
		snprintf(facts->reason + used, sizeof(facts->reason) - used,
			 "; without TLS it answers");
		facts->code = LK_ETLS;
	}
	freeReplyObject(reply);
	return 0;
}

/* ---- a cluster ---- */

int lk__facts_ask_cluster(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	struct lk__words words = {0};
	lk__words_text(&words, "CLUSTER");
	lk__words_text(&words, "SLOTS");
	struct lk__request *request = lk__words_command(&words);
	int rc = lk__facts_question(asked, request, error);
	if (rc == LK__WAIT_READY) {
		const redisReply *reply = request->reply;
		facts->slotless = reply->type == REDIS_REPLY_ARRAY && reply->elements == 0;
		lk__request_free(request);
	} else if (strstr(error->message, "cluster support disabled")) {
		facts->cluster = false; /* redis-cluster:// would be refused */
		rc = LK__WAIT_READY;
	} else if (rc != LK_ENOMEM && rc != LK_ESYSTEM && rc != LK_ECLOSED && rc != LK_EFORKED &&
		   rc != LK_EUNREACHABLE) {
		rc = LK__WAIT_READY; /* INFO's word is all there is */
	}
	return rc;
}

/* ---- messages ---- */

/* Whether such a subscription is what the locks need, and the node has the channel. */
static bool is_tried(const struct lk__facts *facts, const struct lk__asked *asked)
{
	bool plain = lk__config_messages(asked->serves) == LK__MESSAGES_PLAIN;
	bool own = asked->client->config == asked->serves && !asked->client->topo->slotted;
	/* A right that is known to be missing is not used: the server would log that. */
	return !*facts->refused && !*facts->refused_messages && (plain || own);
}

static void note_refusal(struct lk__facts *facts, int rc, const lk_error *why, const char *channel,
			 size_t size)
{
	/* A wait takes every refusal for a lack of rights, and asks again and again: the server's
	 * own word tells. */
	if (rc == LK_EDENIED && strstr(why->message, "NOPERM"))
		snprintf(facts->refused_messages, sizeof(facts->refused_messages),
			 "subscribe on the channel %.*s", (int)size, channel);
	else if (rc == LK_EDENIED)
		snprintf(facts->refused_messages, sizeof(facts->refused_messages), "subscribe: %s",
			 why->message);
	else
		snprintf(facts->deaf, sizeof(facts->deaf), "%.299s",
			 rc == LK__WAIT_TIME_UP ? "no answer to SUBSCRIBE within the command limit"
						: why->message);
}

int lk__facts_ask_messages(struct lk__facts *facts, const struct lk__asked *asked, const char *name,
			   size_t name_size, lk_error *error)
{
	struct lk__conn *conn = &asked->node->messages;
	const struct lk_config *config = asked->client->config;
	lk_error why = {0};
	size_t size;
	if (!is_tried(facts, asked))
		return LK__WAIT_READY;
	char *channel = lk__channel_name(&lk__lock_recipe, name, name_size, &size);
	struct lk__listening *listening = channel ? lk__channel_open(conn, channel, size, NULL,
								     NULL)
						  : NULL;
	if (!listening) {
		free(channel);
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	}
	int64_t until_ns = lk__after_ms(lk__now_ns(),
					config->connect_timeout_ms + config->command_timeout_ms);
	int rc = lk__channel_await(conn, listening, asked->thread, until_ns, &why);
	if (rc != LK__WAIT_READY)
		note_refusal(facts, rc, &why, channel, size);
	lk__channel_close(conn, listening);
	free(channel);
	if (rc == LK_ENOMEM || rc == LK_ESYSTEM || rc == LK_ECLOSED)
		return lk__fail(error, rc, "lk_doctor_new: %.200s", why.message);
	return LK__WAIT_READY;
}
