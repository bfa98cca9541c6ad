/* SPDX-License-Identifier: MIT */
/*
 * Asks one node: who and how it is, how long an answer takes, what its clock says; and tries what
 * no answer tells: whether messages can be heard, and whether a port answers that does not in TLS.
 * What the answers to INFO, ROLE and CONFIG GET leave out stays unknown.
 *
 * Or asks one sentinel: which master it watches, whom it knows, and whether there would be a
 * failover.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/facts.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/channels.h"
#include "conn/connector.h"
#include "conn/request.h"
#include "lock/operation.h"
#include "resp/reply.h"
#include "sync/recipes.h"
#include "topo/link.h"
#include "topo/sentinel.h"

#define VALUE_SIZE 256      /* of what INFO says; the rest is left out */
#define GRACE_MS 500        /* an attempt to connect ends at its limit, and then tells why */
#define TRIPS 5             /* that are measured */
#define QUESTIONS_MAX 18    /* INFO, ROLE, and settings */
#define PLAIN_LIMIT_MS 1000 /* of connecting without TLS, and of an answer */

/* ---- facts that are not just copied ---- */

/* A proxy answers for a setting that no server has: what it says of the others means nothing. */
static void set_any(struct lk__facts *facts, const char *value)
{
	(void)value;
	facts->any_setting = true;
	facts->has_config = false;
}

static void set_snapshots(struct lk__facts *facts, const char *value)
{
	facts->snapshots = *value != '\0';
}

/* "normal 0 0 0 slave … pubsub 33554432 8388608 60". */
static void set_buffer(struct lk__facts *facts, const char *value)
{
	const char *limits = strstr(value, "pubsub ");
	if (limits)
		limits = lk__number_take(limits + strlen("pubsub "), 0, INT64_MAX,
					 &facts->buffer_hard);
	if (limits && *limits == ' ')
		lk__number_take(limits + 1, 0, INT64_MAX, &facts->buffer_soft);
}

/* Reads what KeyDB alone says, whose INFO looks like that of Redis. */
static void set_active(struct lk__facts *facts, const char *value)
{
	bool other = *facts->server && strcmp(facts->server, "redis") != 0 &&
		     strcmp(facts->server, "keydb") != 0;
	bool yes = strcmp(value, "yes") == 0;
	if (other || (!yes && strcmp(value, "no") != 0))
		return;
	snprintf(facts->server, sizeof(facts->server), "keydb");
	if (facts->active != 1)
		facts->active = yes;
}

/* ---- the facts that INFO and CONFIG GET tell ---- */

/* A fact, and its names in both; NULL: it is not there. */
static const struct field {
	const char *setting, *info;
	void (*set)(struct lk__facts *facts, const char *value); /* NULL: it is copied */
	const char *yes; /* of a flag: what sets it, beside "1"; NULL: it is none */
	size_t at, room; /* where to; the size of a text, 0: a number, or a flag */
} fields[] = {
#define SET_BY(function) function, NULL, 0, 0
#define NUMBER(member) NULL, NULL, offsetof(struct lk__facts, member), 0
#define FLAG(member, yes) NULL, yes, offsetof(struct lk__facts, member), 0
#define TEXT(member)                                                                               \
	NULL, NULL, offsetof(struct lk__facts, member), sizeof(((struct lk__facts *)0)->member)
	{"lockkeeper-nothing", NULL, SET_BY(set_any)}, /* before those that depend on it */
	{"maxmemory", "maxmemory", NUMBER(memory_limit)},
	{"maxmemory-policy", "maxmemory_policy", TEXT(policy)},
	{"save", NULL, SET_BY(set_snapshots)},
	{"appendonly", "aof_enabled", FLAG(append, "yes")},
	{"appendfsync", NULL, TEXT(fsync)},
	{"min-replicas-to-write", NULL, NUMBER(min_replicas)},
	{"min-replicas-max-lag", NULL, NUMBER(lag_s)},
	{"timeout", NULL, NUMBER(timeout_s)},
	{"client-output-buffer-limit", NULL, SET_BY(set_buffer)},
	{"cluster-node-timeout", NULL, NUMBER(node_timeout_ms)},
	{"active-replica", NULL, SET_BY(set_active)},
	{"multi-master", NULL, SET_BY(set_active)}, /* settings stand above this line */
	{NULL, "used_memory", NUMBER(memory_used)},
	{NULL, "connected_slaves", NUMBER(replicas)},
	{NULL, "slave_priority", NUMBER(priority)},
	{NULL, "slave_read_only", FLAG(read_only, "1")},
	{NULL, "master_link_status", FLAG(in_step, "up")},
	{NULL, "uptime_in_seconds", NUMBER(uptime_s)},
	{NULL, "run_id", TEXT(run_id)},
	{NULL, "master_replid", TEXT(data_id)},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static void field_set(struct lk__facts *facts, const struct field *field, const char *value)
{
	char *at = (char *)facts + field->at;
	if (field->set)
		field->set(facts, value);
	else if (field->yes)
		*(int *)(void *)at = strcmp(value, field->yes) == 0 || strcmp(value, "1") == 0;
	else if (field->room)
		snprintf(at, field->room, "%s", value);
	else
		lk__number_read(value, 0, INT64_MAX, (int64_t *)(void *)at);
}

void lk__facts_clear(struct lk__facts *facts)
{
	*facts = (struct lk__facts){
		.compatible = -1,
		.active = -1,
		.down_after_ms = -1,
		.slots_missing = -1,
		.lease_ms = -1,
		.snapshots = -1,
		.buffer_hard = -1,
		.buffer_soft = -1,
		.trip_best_us = -1,
		.trip_worst_us = -1,
	};
	for (size_t i = 0; i < FIELDS; i++) {
		void *at = (char *)facts + fields[i].at;
		if (fields[i].yes)
			*(int *)at = -1;
		else if (!fields[i].set && !fields[i].room)
			*(int64_t *)at = -1;
	}
}

const char *lk__facts_setting(size_t index)
{
	return index < FIELDS ? fields[index].setting : NULL;
}

/* ---- INFO ---- */

/* Copies the value behind "name:" at the start of a line; false when there is none. */
static bool info_text(const char *info, const char *name, char *text_out, size_t room)
{
	const char *value = lk__info_find(info, name);
	if (value)
		snprintf(text_out, room, "%.*s", (int)strcspn(value, "\r\n"), value);
	return value;
}

static bool info_is(const char *info, const char *name, const char *value)
{
	char text[32];
	return info_text(info, name, text, sizeof(text)) && strcmp(text, value) == 0;
}

static int compatible(const char *info)
{
	char text[32];
	int64_t part[3] = {0, 0, 0};
	if (!info_text(info, "redis_version", text, sizeof(text)))
		return -1;
	const char *at = lk__number_take(text, 0, 999, &part[0]);
	at = at && *at == '.' ? lk__number_take(at + 1, 0, 999, &part[1]) : NULL;
	if (!at)
		return -1;
	if (*at == '.') /* there may be none, or a word */
		lk__number_take(at + 1, 0, 999, &part[2]);
	return (int)(part[0] * 10000 + part[1] * 100 + part[2]);
}

/* Each kind of server is known by a field of its own; Redis by having none of the others'. */
static void read_server(struct lk__facts *facts, const char *info)
{
	static const char *const kinds[][2] = {
		{"valkey_version", "valkey"}, {"dragonfly_version", "dragonfly"},
		{"garnet_version", "garnet"}, {"kvrocks_version", "kvrocks"},
		{"mvcc_depth", "keydb"},      {"redis_version", "redis"},
	};
	char program[256] = "";
	const char *server = "";
	for (size_t i = 0; !*server && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (info_text(info, kinds[i][0], facts->version, sizeof(facts->version)))
			server = kinds[i][1];
	info_text(info, "executable", program, sizeof(program));
	if (strcmp(server, "redis") == 0 && strstr(program, "keydb"))
		server = "keydb";
	if (strcmp(server, "keydb") == 0)
		info_text(info, "redis_version", facts->version, sizeof(facts->version));
	snprintf(facts->server, sizeof(facts->server), "%s", server);
	facts->compatible = compatible(info);
	facts->cluster = info_is(info, "cluster_enabled", "1") ||
			 info_is(info, "redis_mode", "cluster");
	facts->sentinel |= info_is(info, "redis_mode", "sentinel");
	facts->loading = info_is(info, "loading", "1");
	facts->disk_errors = info_is(info, "rdb_last_bgsave_status", "err") ||
			     (facts->append == 1 && info_is(info, "aof_last_write_status", "err"));
}

static void role_set(struct lk__facts *facts, const char *role)
{
	snprintf(facts->role, sizeof(facts->role), "%s", role);
}

static void read_replication(struct lk__facts *facts, const char *info)
{
	char role[24] = "", host[256] = "", port[16] = "";
	info_text(info, "role", role, sizeof(role));
	if (strcmp(role, "active-replica") == 0)
		facts->active = 1;
	if (strcmp(role, "slave") == 0)
		role_set(facts, "replica");
	else if (strcmp(role, "master") == 0 || facts->active == 1)
		role_set(facts, "master");
	if (info_text(info, "master_host", host, sizeof(host)) &&
	    info_text(info, "master_port", port, sizeof(port)))
		snprintf(facts->master, sizeof(facts->master), "%s:%s", host, port);
}

void lk__facts_read_info(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return;
	facts->has_info = true;
	for (size_t i = 0; i < FIELDS; i++) {
		char value[VALUE_SIZE];
		if (fields[i].info && info_text(reply->str, fields[i].info, value, sizeof(value)))
			field_set(facts, &fields[i], value);
	}
	read_server(facts, reply->str);
	read_replication(facts, reply->str);
}

/* ---- ROLE ---- */

void lk__facts_read_role(struct lk__facts *facts, const redisReply *reply)
{
	redisReply **part = reply->element;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
	    part[0]->type != REDIS_REPLY_STRING)
		return;
	const char *role = part[0]->str;
	if (strcmp(role, "master") == 0 || strcmp(role, "sentinel") == 0)
		role_set(facts, role);
	facts->sentinel |= strcmp(role, "sentinel") == 0;
	/* It leaves out those that are still copying the data, which INFO counts. */
	if (strcmp(role, "master") == 0 && facts->replicas < 0 && reply->elements > 2 &&
	    part[2]->type == REDIS_REPLY_ARRAY)
		facts->replicas = (int64_t)part[2]->elements;
	if (strcmp(role, "slave") != 0)
		return;
	role_set(facts, "replica");
	if (reply->elements > 2 && part[1]->type == REDIS_REPLY_STRING &&
	    part[2]->type == REDIS_REPLY_INTEGER)
		snprintf(facts->master, sizeof(facts->master), "%.255s:%lld", part[1]->str,
			 part[2]->integer);
}

/* ---- CONFIG GET ---- */

/* A server that does not know the setting answers with an empty list. */
void lk__facts_read_setting(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || facts->any_setting)
		return;
	facts->has_config = true;
	if (reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return;
	for (size_t i = 0; lk__facts_setting(i); i++)
		if (strcmp(reply->element[0]->str, fields[i].setting) == 0)
			field_set(facts, &fields[i], reply->element[1]->str);
}

static struct lk__conn *conn_of(const struct lk__asked *asked)
{
	return lk__node_scripts(asked->node);
}

/* ---- questions ---- */

static int ask_settings(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	struct lk__questions questions = lk__questions_begin(QUESTIONS_MAX);
	lk__questions_add(&questions, NULL, LK__SAY("INFO"));
	lk__questions_add(&questions, NULL, LK__SAY("ROLE"));
	for (size_t i = 0; lk__facts_setting(i); i++)
		lk__questions_add(&questions, NULL, LK__SAY("CONFIG", "GET", lk__facts_setting(i)));
	int rc = lk__asked_ask(asked, questions.batch, error);
	if (rc != LK__WAIT_READY)
		return rc;
	const redisReply *all = questions.batch->reply;
	for (size_t i = 1; all->type == REDIS_REPLY_ARRAY && i < all->elements; i++) {
		const redisReply *reply = all->element[i];
		if (i == 1)
			lk__facts_read_info(facts, reply);
		else if (i == 2)
			lk__facts_read_role(facts, reply);
		else
			lk__facts_read_setting(facts, reply);
	}
	lk__request_free(questions.batch);
	return rc;
}

/* Tells whether a failure is ours, and says nothing about the node. */
static bool asked_is_ours(int code)
{
	return code == LK_ENOMEM || code == LK_ESYSTEM || code == LK_ECLOSED || code == LK_EFORKED;
}

/* Finds out whether INFO is right that the node is one of a cluster, and that has slots. */
static int ask_cluster(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	int rc;
	struct lk__request *request = lk__asked_say(asked, LK__SAY("CLUSTER", "SLOTS"), &rc, error);
	if (request) {
		const redisReply *reply = request->reply;
		facts->slotless = reply->type == REDIS_REPLY_ARRAY && reply->elements == 0;
		lk__request_free(request);
	} else if (strstr(error->message, "cluster support disabled")) {
		facts->cluster = false; /* redis-cluster:// would be refused */
	} else if (asked_is_ours(rc) || rc == LK_EUNREACHABLE) {
		return rc;
	} /* else INFO's word is all there is */
	return LK__WAIT_READY;
}

/* The shortest round trip tells the time best: the server looked at its clock within it. */
static int ask_time(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	for (int i = 0; i < TRIPS; i++) {
		int rc;
		int64_t begun_ns = lk__now_ns();
		struct lk__request *request = lk__asked_say(asked, LK__SAY("TIME"), &rc, error);
		if (!request)
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

/* Finds out whether it is not a server, but a proxy or a program for tests. An old server has no
 * HELLO. */
static int ask_hello(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	int rc;
	struct lk__request *hello = lk__asked_say(asked, LK__SAY("HELLO", "2"), &rc, error);
	if (!hello)
		return asked_is_ours(rc) ? rc : LK__WAIT_READY;
	const char *server = lk__field_text(hello->reply, "server");
	snprintf(facts->hello, sizeof(facts->hello), "%.23s", server);
	lk__request_free(hello);
	return LK__WAIT_READY;
}

/* ---- messages: subscribes to the lock's channel for a moment ---- */

/* Tells whether such a subscription is what the locks need, and the node has the channel. */
static bool is_tried(const struct lk__facts *facts, const struct lk__asked *asked)
{
	bool plain = asked->serves->chosen.messages == LK__MESSAGES_PLAIN;
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

static int try_messages(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	struct lk__conn *conn = &asked->node->messages;
	const struct lk_config *config = asked->client->config;
	lk_error why = {0};
	size_t size;
	if (!is_tried(facts, asked))
		return LK__WAIT_READY;
	char *channel = lk__channel_name(&lk__lock_recipe, asked->key, asked->key_size, &size);
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
	return asked_is_ours(rc) ? lk__fail(error, rc, "lk_doctor_new: %.200s", why.message)
				 : LK__WAIT_READY;
}

/* ---- over a link of its own: what no client leads to ---- */

/* One command is asked after another. */
struct asking {
	struct lk__link link;
	int64_t limit_ms;
	char reason[256]; /* why it gives no answer */
};

/* Sleeps until the link can go on. 0, or an -errno, -ETIMEDOUT among them. */
static int asking_wait(const struct asking *asking, int64_t until_ns)
{
	struct lk__readiness waits = lk__link_waits(&asking->link);
	if (until_ns < waits.until_ns)
		waits.until_ns = until_ns;
	int status = lk__socket_wait(&waits, -1);
	return status == 0 || lk__now_ns() < until_ns ? 0 : status;
}

/* Connects to where `config` leads, which it takes over. 0, or a code with the reason. */
static int asking_open(struct asking *asking, struct lk_config *config)
{
	lk_error error = {0};
	int64_t until_ns = lk__after_ms(lk__now_ns(), config->connect_timeout_ms);
	int rc = lk__link_open(&asking->link, config, until_ns, &error);
	while (rc == 0 && (rc = lk__link_step(&asking->link, &error)) == 0)
		asking_wait(asking, lk__after_ms(until_ns, 1)); /* the link itself has a limit */
	snprintf(asking->reason, sizeof(asking->reason), "%.255s", error.message);
	return rc > 0 ? 0 : rc;
}

/* What the link has said is answered: the answer, to be freed; or NULL, with the code and the
 * reason. */
static redisReply *asking_hear(struct asking *asking, int *code_out)
{
	int64_t until_ns = lk__after_ms(lk__now_ns(), asking->limit_ms);
	redisReply *reply = NULL;
	const char *what;
	int rc;
	while ((rc = lk__link_next(&asking->link, &reply, &what, asking->reason,
				   sizeof(asking->reason))) == 0)
		if (asking_wait(asking, until_ns) < 0) {
			snprintf(asking->reason, sizeof(asking->reason),
				 "no answer within the command limit");
			rc = LK_EUNREACHABLE;
			break;
		}
	*code_out = rc;
	return rc == 1 ? reply : NULL;
}

/* The answer to these words. */
static redisReply *asking_say(struct asking *asking, const char *const *words, int *code_out)
{
	*code_out = lk__link_say(&asking->link, "", words);
	return *code_out == 0 ? asking_hear(asking, code_out) : NULL;
}

/* ---- TLS ---- */

/* Finds out whether a port that did not answer in TLS does without: `code` and `reason` say so
 * then. Any answer counts. No password goes that way. 0, or LK_ENOMEM with `error` filled. */
static int try_plainly(struct lk__facts *facts, const struct lk_config *config, lk_error *error)
{
	struct asking asking = {.limit_ms = PLAIN_LIMIT_MS};
	redisReply *reply = NULL;
	/* A single server: of several places it is not known which of them was meant. */
	if (facts->code != LK_EUNREACHABLE || config->scheme != LK__SCHEME_TLS || *config->places ||
	    !strstr(facts->reason, "TLS"))
		return 0;
	struct lk_config *plain = lk__config_copy(config);
	if (!plain)
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	plain->scheme = LK__SCHEME_TCP;
	plain->connect_timeout_ms = PLAIN_LIMIT_MS;
	int rc = asking_open(&asking, plain);
	if (rc == 0)
		reply = asking_say(&asking, LK__SAY("PING"), &rc);
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

/* ---- a node ---- */

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

/* Notes the machine of a server; all addresses of this one are one text. */
static void set_machine(struct lk__facts *facts, enum lk__scheme scheme, const char *host)
{
	bool here = scheme == LK__SCHEME_UNIX || strcmp(host, "localhost") == 0 ||
		    strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
	snprintf(facts->machine, sizeof(facts->machine), "%s", here ? "this machine" : host);
}

/* That of the server that was found among several. */
static void set_found_machine(struct lk__facts *facts, const struct lk__asked *asked)
{
	const struct lk_config *config = asked->client->config;
	char place[LK__CONN_PLACE_SIZE], host[LK__PLACE_SIZE];
	int port;
	lk__conn_place(conn_of(asked), place);
	if (!*config->places)
		set_machine(facts, config->scheme, config->host);
	else if (strlen(place) < sizeof(place) - 1 && lk__place_next(place, host, &port))
		set_machine(facts, config->scheme, host);
}

/* Why it cannot be asked; without its URL, which a finding names. */
static void reason_set(struct lk__facts *facts, const struct lk_config *config, const char *reason)
{
	size_t size = strlen(config->url);
	if (strncmp(reason, config->url, size) == 0 && strncmp(reason + size, ": ", 2) == 0)
		reason += size + 2;
	snprintf(facts->reason, sizeof(facts->reason), "%.399s", reason);
}

/* The URL of a node; of a cluster's master its own, under which the whole cluster is found as
 * well. */
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

/* Each needs what those before it have found. */
static int ask_all(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	int rc = ask_settings(facts, asked, error);
	facts->cluster = facts->cluster && !asked->client->topo->slotted; /* else it was named */
	facts->acks = lk__node_acks(asked->node);
	if (rc == LK__WAIT_READY && facts->cluster)
		rc = ask_cluster(facts, asked, error);
	if (rc == LK__WAIT_READY)
		rc = ask_time(facts, asked, error);
	if (rc == LK__WAIT_READY)
		rc = ask_hello(facts, asked, error);
	if (rc == LK__WAIT_READY && !facts->sentinel)
		rc = lk__facts_ask_rights(facts, asked, error);
	if (rc == LK__WAIT_READY && !facts->sentinel)
		rc = try_messages(facts, asked, error);
	return rc;
}

/* Notes what the configuration says of all that is asked. */
static void set_configured(struct lk__facts *facts, const struct lk_config *config)
{
	static const char *const texts[] = {
		[LK__VERIFY_AUTHORITY] = "tls_verify is authority: its name is not verified",
		[LK__VERIFY_OFF] = "tls_verify is off: its certificate is not verified",
	};
	facts->lease_ms = config->watchdog_ms;
	if (config->scheme == LK__SCHEME_TLS)
		facts->unverified = texts[config->chosen.verify];
}

int lk__facts_ask(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	const struct lk_config *config = asked->client->config;
	lk_error own = {0};
	facts->deployment = config->deployment;
	set_configured(facts, config);
	int rc = lk__facts_connect(asked, &own);
	set_found_machine(facts, asked);
	facts->url = url_of(asked);
	if (!facts->url)
		return lk__fail(error, LK_ENOMEM, "lk_doctor_new: out of memory");
	if (rc == LK__WAIT_READY)
		rc = ask_all(facts, asked, &own);
	if (rc == LK__WAIT_READY)
		return 0;
	if (asked_is_ours(rc))
		return lk__fail(error, rc, "%s", own.message);
	facts->code = rc;
	facts->sentinel |= strstr(own.message, LK__LIKE_SENTINEL) != NULL;
	reason_set(facts, config, own.message);
	return try_plainly(facts, config, error);
}

/* ---- a sentinel ---- */

void lk__places_add(struct lk__places *places, const char *name)
{
	for (size_t i = 0; i < places->count; i++)
		if (strcmp(places->name[i], name) == 0)
			return;
	if (places->count < LK__PLACES_MORE_MAX)
		snprintf(places->name[places->count++], LK__PLACE_SIZE, "%s", name);
}

/* Connects to where `config` leads, which it takes over, and logs in. 0, or a code with the
 * reason. */
static int sentinel_open(struct asking *asking, struct lk_config *config)
{
	int rc = asking_open(asking, config);
	if (rc == 0)
		rc = lk__link_auth(&asking->link);
	if (rc < 0 || !*asking->link.config->password)
		return rc;
	redisReply *reply = asking_hear(asking, &rc);
	if (reply && reply->type == REDIS_REPLY_ERROR) {
		snprintf(asking->reason, sizeof(asking->reason), "%.200s", reply->str);
		rc = lk__refusal(reply->str).code;
	}
	freeReplyObject(reply);
	return rc < 0 ? rc : 0;
}

/* ---- its answers ---- */

static void read_master(struct lk__facts *facts, const redisReply *reply)
{
	char place[LK__PLACE_SIZE] = "";
	if (lk__sentinel_place(reply, place))
		snprintf(facts->master, sizeof(facts->master), "%s", place);
	if (*place)
		lk__number_read(lk__field_text(reply, "down-after-milliseconds"), 0, INT64_MAX,
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
static int read_error(struct lk__facts *facts, struct asking *asking, const char *what,
		      const char *text)
{
	struct lk__refusal refusal = lk__refusal(text);
	if (refusal.unknown) {
		snprintf(asking->reason, sizeof(asking->reason), "it is no sentinel: %.200s", text);
		return LK_EREFUSED;
	}
	if (strncmp(text, "NOQUORUM", 8) == 0) {
		snprintf(facts->no_failover, sizeof(facts->no_failover), "%.150s", text);
		return 0;
	}
	if (*asking->reason == '\0')
		snprintf(asking->reason, sizeof(asking->reason), "SENTINEL %s: %.200s", what, text);
	facts->has_rights = facts->has_rights && refusal.code != LK_EDENIED;
	return refusal.code == LK_EAUTH ? LK_EAUTH : 0;
}

/* All that is asked. 0, or a code with the reason. */
static int ask_sentinel(struct lk__facts *facts, struct asking *asking, const char *master,
			struct lk__places *replicas, struct lk__places *sentinels)
{
	static const char *const what[] = {"MASTER", "REPLICAS", "SENTINELS", "CKQUORUM"};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(what) / sizeof(what[0]); i++) {
		redisReply *reply = asking_say(asking, LK__SAY("SENTINEL", what[i], master), &rc);
		if (!reply)
			return rc;
		bool refused = reply->type == REDIS_REPLY_ERROR;
		rc = refused ? read_error(facts, asking, what[i], reply->str) : 0;
		if (i == 0)
			read_master(facts, reply);
		else if (i < 3)
			read_places(i == 1 ? replicas : sentinels, reply);
		freeReplyObject(reply);
	}
	return rc;
}

/* Where it is, with the credentials of sentinels. */
static struct lk_config *config_to(const struct lk_config *config, const char *place)
{
	struct lk_config *to = lk__sentinel_config(config);
	return to && lk__config_point(to, place) == 0 ? to : lk_config_free(to);
}

int lk__sentinel_pace(const struct lk_config *config, const char *place, int64_t limit_ms,
		      int64_t *down_after_ms_out)
{
	struct asking asking = {.limit_ms = limit_ms};
	struct lk__facts facts = {.down_after_ms = 0};
	struct lk_config *to = config_to(config, place);
	if (!to)
		return LK_ENOMEM;
	to->connect_timeout_ms = limit_ms;
	int rc = sentinel_open(&asking, to);
	redisReply *reply = NULL;
	if (rc == 0)
		reply = asking_say(&asking, LK__SAY("SENTINEL", "MASTER", config->master), &rc);
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
	struct asking asking = {.limit_ms = config->command_timeout_ms};
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
	set_configured(facts, to);
	facts->has_rights = true;
	set_machine(facts, to->scheme, to->host);
	int rc = sentinel_open(&asking, to);
	if (rc == 0)
		rc = ask_sentinel(facts, &asking, config->master, replicas, sentinels);
	lk__link_close(&asking.link);
	if (rc == LK_ENOMEM || rc == LK_ESYSTEM)
		return lk__fail(error, rc, "lk_doctor_new: %s", asking.reason);
	facts->code = rc;
	snprintf(facts->reason, sizeof(facts->reason), "%s", asking.reason);
	return 0;
}
