/* SPDX-License-Identifier: MIT */
/* Asks one node: who and how it is, how long an answer takes, what its clock says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/facts.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/classify.h"
#include "conn/handshake.h"
#include "conn/request.h"
#include "drive/lock/ask.h"

#define GRACE_MS 500    /* an attempt to connect ends at its limit, and then tells why */
#define TRIPS 5         /* that are measured */
#define SETTINGS_MAX 16 /* that are asked for */
#define QUESTIONS_MAX (3 + SETTINGS_MAX)

static struct lk__conn *conn_of(const struct lk__asked *asked)
{
	return lk__node_scripts(asked->node);
}

int lk__facts_question(const struct lk__asked *asked, struct lk__request *request, lk_error *error)
{
	lk_client *client = asked->client;
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	return lk__ask(client, conn_of(asked), asked->thread, lk__question(request), "examine",
		       until_ns, error);
}

static bool batch_text(struct lk__request *batch, const char *one, const char *two,
		       const char *three)
{
	struct lk__words words = {0};
	lk__words_text(&words, one);
	if (two)
		lk__words_text(&words, two);
	if (three)
		lk__words_text(&words, three);
	return lk__words_batch(batch, &words);
}

/* TIME comes first: what becomes of a batch is what becomes of its first command, and the handshake
 * has shown that this one is allowed. */
static struct lk__request *questions(void)
{
	struct lk__request *batch = lk__request_batch(QUESTIONS_MAX);
	bool made = batch && batch_text(batch, "TIME", NULL, NULL) &&
		    batch_text(batch, "INFO", NULL, NULL) && batch_text(batch, "ROLE", NULL, NULL);
	for (size_t i = 0; made && lk__facts_setting(i); i++)
		made = batch_text(batch, "CONFIG", "GET", lk__facts_setting(i));
	if (made)
		return batch;
	lk__request_free(batch);
	return NULL;
}

static int ask_settings(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	struct lk__request *batch = questions();
	int rc = lk__facts_question(asked, batch, error);
	if (rc != LK__WAIT_READY)
		return rc;
	const redisReply *all = batch->reply;
	for (size_t i = 1; all->type == REDIS_REPLY_ARRAY && i < all->elements; i++) {
		const redisReply *reply = all->element[i];
		if (i == 1)
			lk__facts_read_info(facts, reply);
		else if (i == 2)
			lk__facts_read_role(facts, reply);
		else
			lk__facts_read_setting(facts, reply);
	}
	lk__request_free(batch);
	return rc;
}

/* The shortest round trip tells the time best: the server looked at its clock within it. */
static int ask_time(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	for (int i = 0; i < TRIPS; i++) {
		struct lk__request *request = lk__request_new(1, (const char *[]){"TIME"},
							      (size_t[]){4});
		int64_t begun_ns = lk__now_ns();
		int rc = lk__facts_question(asked, request, error);
		if (rc != LK__WAIT_READY)
			return rc;
		int64_t trip_us = (lk__now_ns() - begun_ns) / LK__US;
		int64_t server_us = lk__time_answer(request->reply);
		lk__request_free(request);
		if (trip_us > facts->trip_worst_us)
			facts->trip_worst_us = trip_us;
		if (server_us < 0 || (facts->trip_best_us >= 0 && trip_us >= facts->trip_best_us))
			continue;
		facts->trip_best_us = trip_us;
		facts->clock_error_us = trip_us / 2 + 1;
		facts->clock_ahead_us = server_us - (lk__wall_us() - trip_us / 2);
	}
	return LK__WAIT_READY;
}

/* What HELLO says that it is; an old server has no HELLO. */
static void read_hello(struct lk__facts *facts, const redisReply *reply)
{
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
		const redisReply *name = reply->element[i], *value = reply->element[i + 1];
		if (name->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
		    strcmp(name->str, "server") == 0)
			facts->stand_in = lk__stand_in_of(value->str);
	}
}

/* Whether it is not a server, but a proxy or a program for tests. */
static int ask_hello(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
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

int lk__facts_connect(const struct lk__asked *asked, lk_error *error)
{
	lk_client *client = asked->client;
	int64_t until_ns = lk__after_ms(lk__now_ns(),
					client->config->connect_timeout_ms + GRACE_MS);
	lk_error why = {0};
	int rc = lk__conn_ready(conn_of(asked), asked->thread, true, until_ns, &why);
	if (rc == LK__WAIT_READY)
		return rc;
	if (rc == LK_ECLOSED)
		return lk__fail(error, rc, "lk_doctor_new: the client is closed");
	if (rc < 0 || why.code)
		return lk__fail(error, rc < 0 ? rc : why.code, "%s", why.message);
	return lk__fail(error, LK_EUNREACHABLE, "no connection within the connect limit of %lld ms",
			(long long)client->config->connect_timeout_ms);
}

void lk__facts_machine(struct lk__facts *facts, enum lk__scheme scheme, const char *host)
{
	bool here = scheme == LK__SCHEME_UNIX || strcmp(host, "localhost") == 0 ||
		    strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
	snprintf(facts->machine, sizeof(facts->machine), "%s", here ? "this machine" : host);
}

/* Of several servers, the one that was found. */
static void machine_set(struct lk__facts *facts, const struct lk__asked *asked)
{
	const struct lk_config *config = asked->client->config;
	char place[LK__CONN_PLACE_SIZE], host[LK__PLACE_SIZE];
	int port;
	lk__conn_place(conn_of(asked), place);
	if (!*config->places)
		lk__facts_machine(facts, config->scheme, config->host);
	else if (strlen(place) < sizeof(place) - 1 && lk__place_next(place, host, &port))
		lk__facts_machine(facts, config->scheme, host);
}

/* Why it cannot be asked; without its URL, which a finding names. */
static void reason_set(struct lk__facts *facts, const struct lk_config *config, const char *reason)
{
	size_t size = strlen(config->url);
	if (strncmp(reason, config->url, size) == 0 && strncmp(reason + size, ": ", 2) == 0)
		reason += size + 2;
	snprintf(facts->reason, sizeof(facts->reason), "%.399s", reason);
}

/* Whether a failure is ours, and says nothing about the node. */
static bool is_ours(int code)
{
	return code == LK_ENOMEM || code == LK_ESYSTEM || code == LK_ECLOSED || code == LK_EFORKED;
}

/* Of a cluster's master: its own, under which the whole cluster is found as well. */
static char *url_of(const struct lk__asked *asked)
{
	const char *url = asked->client->config->url;
	char place[LK__CONN_PLACE_SIZE], own[LK__CONN_PLACE_SIZE + 32];
	lk__conn_place(conn_of(asked), place);
	if (!asked->client->topo->slotted || !*place)
		return strdup(url);
	snprintf(own, sizeof(own), "%.*s%s", (int)(strstr(url, "://") + 3 - url), url, place);
	return strdup(own);
}

static int ask_all(struct lk__facts *facts, const struct lk__asked *asked, const char *name,
		   size_t name_size, lk_error *error)
{
	int rc = ask_settings(facts, asked, error);
	facts->cluster = facts->cluster && !asked->client->topo->slotted; /* else it was named */
	facts->acks = lk__node_acks(asked->node);
	if (rc == LK__WAIT_READY && facts->cluster)
		rc = lk__facts_ask_cluster(facts, asked, error);
	if (rc == LK__WAIT_READY)
		rc = ask_time(facts, asked, error);
	if (rc == LK__WAIT_READY)
		rc = ask_hello(facts, asked, error);
	if (rc == LK__WAIT_READY && !facts->sentinel)
		rc = lk__facts_ask_rights(facts, asked, name, name_size, error);
	if (rc == LK__WAIT_READY && !facts->sentinel)
		rc = lk__facts_ask_messages(facts, asked, name, name_size, error);
	return rc;
}

int lk__facts_ask(struct lk__facts *facts, const struct lk__asked *asked, const char *name,
		  size_t name_size, lk_error *error)
{
	lk_error own = {0};
	lk__facts_clear(facts);
	facts->deployment = asked->client->config->deployment;
	facts->lease_ms = asked->client->config->watchdog_ms;
	int rc = lk__facts_connect(asked, &own);
	machine_set(facts, asked);
	facts->url = url_of(asked);
	if (!facts->url)
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	if (rc == LK__WAIT_READY)
		rc = ask_all(facts, asked, name, name_size, &own);
	if (rc == LK__WAIT_READY)
		return 0;
	if (is_ours(rc))
		return lk__fail(error, rc, "%s", own.message);
	facts->code = rc;
	facts->sentinel |= strstr(own.message, LK__LIKE_SENTINEL) != NULL;
	reason_set(facts, asked->client->config, own.message);
	return lk__facts_ask_plainly(facts, asked->client->config, error);
}
