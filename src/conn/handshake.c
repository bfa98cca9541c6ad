/* SPDX-License-Identifier: MIT */
#include "conn/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "net/stream.h"
#include "resp/reply.h"
#include "scripts.h"

#define COMMANDS_MAX 9
#define US_PER_S INT64_C(1000000)
#define DISK_WAIT_MS "100"
#define WORDS_MAX (2 + LK__SCRIPT_COUNT) /* of one command */

struct lk__greeter {
	struct lk__stream *stream;
	const struct lk_config *config;
	int64_t deadline_ns;
	struct lk__buffer out;
	struct lk__reader *reader;
	const char *verbs[COMMANDS_MAX]; /* what each answer belongs to */
	bool needed[COMMANDS_MAX];
	size_t count;
	size_t answered;
	unsigned flags;
	short wants; /* what it waits for */
	struct lk__greeting greeting;
	lk_error *error;
};

static int greeter_say(struct lk__greeter *greeter, bool needed, size_t argc, const char **argv)
{
	size_t sizes[WORDS_MAX];
	for (size_t i = 0; i < argc; i++)
		sizes[i] = strlen(argv[i]);
	greeter->verbs[greeter->count] = argv[0];
	greeter->needed[greeter->count++] = needed;
	return lk__write_command(&greeter->out, argc, argv, sizes);
}

/* Which of our scripts are there: one question instead of all their texts. */
static int greeter_ask_scripts(struct lk__greeter *greeter)
{
	const char *argv[WORDS_MAX] = {"SCRIPT", "EXISTS"};
	for (size_t i = 0; i < LK__SCRIPT_COUNT; i++)
		argv[2 + i] = lk__script_of((int)i, greeter->config->chosen.messages)->sha1;
	return greeter_say(greeter, false, WORDS_MAX, argv);
}

static int greeter_compose(struct lk__greeter *greeter)
{
	const struct lk_config *config = greeter->config;
	int rc = 0;
	if (config->password[0] && config->username[0])
		rc |= greeter_say(greeter, true, 3,
				  (const char *[]){"AUTH", config->username, config->password});
	else if (config->password[0])
		rc |= greeter_say(greeter, true, 2, (const char *[]){"AUTH", config->password});
	if (greeter->flags & LK__GREET_MASTER)
		rc |= greeter_say(greeter, true, 1, (const char *[]){"ROLE"});
	if (config->database > 0) {
		char number[24];
		snprintf(number, sizeof(number), "%lld", (long long)config->database);
		rc |= greeter_say(greeter, true, 2, (const char *[]){"SELECT", number});
	}
	if (config->client_name[0])
		rc |= greeter_say(greeter, false, 3,
				  (const char *[]){"CLIENT", "SETNAME", config->client_name});
	rc |= greeter_say(greeter, true, 1, (const char *[]){"TIME"});
	if (greeter->flags & LK__GREET_SCRIPTS)
		rc |= greeter_ask_scripts(greeter);
	/* Answered at once, since this connection has written nothing. */
	if (greeter->flags & LK__GREET_DISK)
		rc |= greeter_say(greeter, true, 4,
				  (const char *[]){"WAITAOF", "1", "0", DISK_WAIT_MS});
	if (greeter->flags & LK__GREET_ID)
		rc |= greeter_say(greeter, false, 2, (const char *[]){"CLIENT", "ID"});
	/* Last: there are servers that close the connection over what they do not know. With the
	 * protocol that we speak, which not every server does. */
	if (greeter->flags & LK__GREET_HELLO)
		rc |= greeter_say(greeter, false, 2, (const char *[]){"HELLO", "2"});
	return rc;
}

/* 0: it waits; or it is too late for that. */
static int greeter_waits(struct lk__greeter *greeter, short events)
{
	if (lk__now_ns() >= greeter->deadline_ns)
		return lk__fail(greeter->error, LK_EUNREACHABLE,
				"%s: no answer within the connect limit of %lld ms",
				greeter->config->url,
				(long long)greeter->config->connect_timeout_ms);
	greeter->wants = events;
	return 0;
}

/* A port for TLS that is met without it has nothing to say: OpenSSL takes our words for no
 * greeting, and closes. So does a proxy that does not know one of the first commands. */
static const char *silence_hint(const struct lk__greeter *greeter)
{
	bool tcp = greeter->config->scheme == LK__SCHEME_TCP;
	if (tcp && !lk__reader_begun(greeter->reader))
		return " without a word (a port for TLS? use rediss://; a proxy that lacks "
		       "commands? name the server itself)";
	return greeter->flags & LK__GREET_FIRST && greeter->answered == 0
		       ? " (a proxy that lacks commands? name the server itself)"
		       : "";
}

static int greeter_broken(struct lk__greeter *greeter, ssize_t got)
{
	const char *node = greeter->config->url;
	char reason[256];
	int code = lk__stream_explain(greeter->stream, reason, sizeof(reason));
	if (code)
		return lk__fail(greeter->error, greeter->flags & LK__GREET_FIRST ? LK_ETLS : code,
				"%s: TLS: %s", node, reason);
	if (got == 0)
		return lk__fail(greeter->error, LK_EUNREACHABLE,
				"%s: the server closed the connection%s", node,
				silence_hint(greeter));
	return lk__fail_errno(greeter->error, LK_EUNREACHABLE, (int)-got, "%s: connection lost%s",
			      node, silence_hint(greeter));
}

/* 1: all is sent. */
static int greeter_send(struct lk__greeter *greeter)
{
	while (lk__buffer_size(&greeter->out) > 0) {
		ssize_t wrote = lk__stream_write(greeter->stream, lk__buffer_front(&greeter->out),
						 lk__buffer_size(&greeter->out));
		if (wrote > 0)
			lk__buffer_take(&greeter->out, (size_t)wrote);
		else if (wrote == -EPIPE || wrote == -ECONNRESET)
			break; /* what the server said before it went is still to be read */
		else if (wrote == -EAGAIN)
			return greeter_waits(greeter, POLLOUT | greeter->stream->wants);
		else if (wrote != -EINTR)
			return greeter_broken(greeter, wrote);
	}
	lk__buffer_take(&greeter->out, lk__buffer_size(&greeter->out));
	return 1;
}

/* 1 with the next answer. */
static int greeter_read(struct lk__greeter *greeter, redisReply **reply_out)
{
	const char *node = greeter->config->url;
	char chunk[4096];
	for (;;) {
		int rc = lk__reader_next(greeter->reader, reply_out);
		if (rc == 1)
			return 1;
		ssize_t got = rc < 0 ? 0 : lk__stream_read(greeter->stream, chunk, sizeof(chunk));
		if (rc == 0 && got > 0)
			rc = lk__reader_feed(greeter->reader, chunk, (size_t)got);
		else if (rc == 0 && got == -EAGAIN)
			return greeter_waits(greeter, greeter->stream->wants);
		else if (rc == 0 && got != -EINTR)
			return greeter_broken(greeter, got);
		if (rc < 0)
			return lk__fail(greeter->error, rc, "%s: %s", node,
					lk__reader_error(greeter->reader));
	}
}

int64_t lk__time_answer(const redisReply *reply)
{
	int64_t seconds, us;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    !lk__reply_number(reply->element[0], 0, INT64_MAX / US_PER_S - 1, &seconds) ||
	    !lk__reply_number(reply->element[1], 0, US_PER_S - 1, &us))
		return -1;
	return seconds * US_PER_S + us;
}

/* Envoy's redis_proxy tells its own clock, and the whole time where the µs of a second belong. */
int64_t lk__time_of_proxy(const redisReply *reply)
{
	int64_t seconds, us;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    !lk__reply_number(reply->element[0], 1, INT64_MAX / US_PER_S - 1, &seconds) ||
	    !lk__reply_number(reply->element[1], 0, INT64_MAX, &us) || us / US_PER_S != seconds)
		return -1;
	return us;
}

/* A proxy sends a script to the server of its key. It is one of those that the user may name. NULL
 * when out of memory. */
static char *time_key(const struct lk_config *config)
{
	char *key;
	return asprintf(&key, "%stime", config->key_prefix) < 0 ? NULL : key;
}

struct lk__request *lk__time_request(const struct lk_config *config, bool by_script)
{
	if (!by_script)
		return lk__request_new(1, (const char *[]){"TIME"}, (size_t[]){4});
	char *key = time_key(config);
	if (!key)
		return NULL;
	struct lk__request *request = lk__request_new(
		4, (const char *[]){"EVAL", LK__TIME_SCRIPT, "1", key},
		(size_t[]){4, strlen(LK__TIME_SCRIPT), 1, strlen(key)});
	free(key);
	return request;
}

/* Shows what a server, or a proxy, has said instead of the time. */
static void time_show(const redisReply *reply, char *text, size_t size)
{
	bool two = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
	bool said = reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_ERROR;
	snprintf(text, size, "%.40s %.40s",
		 two    ? lk__element_text(reply, 0)
		 : said ? reply->str
			: "no pair of numbers",
		 two ? lk__element_text(reply, 1) : "");
}

/* The deadlines of requests are told in the time of the server, not of the proxy before it. */
static int greeter_ask_server(struct lk__greeter *greeter)
{
	char *key = time_key(greeter->config);
	greeter->greeting.time_by_script = true;
	greeter->greeting.sent_ns = lk__now_ns();
	bool said = key && greeter_say(greeter, true, 4,
				       (const char *[]){"EVAL", LK__TIME_SCRIPT, "1", key}) == 0;
	free(key);
	if (said)
		return 0;
	return lk__fail(greeter->error, LK_ENOMEM, "handshake: out of memory");
}

static int greeter_time(struct lk__greeter *greeter, const redisReply *reply,
			struct lk__greeting *greeting)
{
	char said[96];
	greeting->received_ns = lk__now_ns();
	greeting->server_us = lk__time_answer(reply);
	if (!greeting->time_by_script && lk__time_of_proxy(reply) >= 0)
		return greeter_ask_server(greeter);
	if (greeting->server_us < 0) {
		time_show(reply, said, sizeof(said));
		return lk__fail(greeter->error, LK_EPROTOCOL,
				"%s: TIME answers no time: %s (a proxy? name the servers "
				"themselves, or let it pass connections on as they are)",
				greeter->config->url, said);
	}
	return 0;
}

/* Nothing is written before a server has said that it is a master. */
static int greeter_role(struct lk__greeter *greeter, const redisReply *reply)
{
	bool told = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
		    reply->element[0]->type == REDIS_REPLY_STRING;
	const char *role = told ? reply->element[0]->str : "unknown";
	if (strcmp(role, "master") == 0)
		return 0;
	return lk__fail(greeter->error, LK_EUNAVAILABLE,
			"%s: it is not a master (ROLE answers %.20s)", greeter->config->url, role);
}

/* What is not answered as expected is taken for missing: it is sent with its first use. */
static void greeter_scripts(const redisReply *reply, struct lk__greeting *greeting)
{
	bool whole = reply->type == REDIS_REPLY_ARRAY && reply->elements == LK__SCRIPT_COUNT;
	for (size_t i = 0; whole && i < LK__SCRIPT_COUNT; i++)
		greeting->scripts[i] = reply->element[i]->type == REDIS_REPLY_INTEGER &&
				       reply->element[i]->integer == 1;
}

/* Where the answer to HELLO has the value of that name, or 0. */
static size_t hello_at(const redisReply *hello, const char *name)
{
	for (size_t i = 0; hello->type == REDIS_REPLY_ARRAY && i + 1 < hello->elements; i += 2)
		if (strcmp(lk__element_text(hello, i), name) == 0)
			return i + 1;
	return 0;
}

/*
 * A proxy that spreads keys over servers asks all of them, and passes one answer on, or answers
 * itself. What is of one connection alone it takes out: then there is no id, which each server
 * tells as a number, or none that a server gives, which counts from 1.
 */
static bool hello_spreads(const redisReply *hello)
{
	size_t at = hello_at(hello, "id");
	return at > 0 && (hello->element[at]->type == REDIS_REPLY_NIL ||
			  (hello->element[at]->type == REDIS_REPLY_INTEGER &&
			   hello->element[at]->integer == 0));
}

/* Another script may come between the commands of one: two owners. */
static int greeter_unsafe(struct lk__greeter *greeter, const char *is)
{
	return lk__fail(greeter->error, LK_EREFUSED,
			"%s: it %s Infinispan, whose scripts are not atomic: use Redis or Valkey",
			greeter->config->url, is);
}

static int greeter_hello(struct lk__greeter *greeter, const redisReply *hello)
{
	size_t server = hello_at(hello, "server");
	greeter->greeting.spreads = hello_spreads(hello);
	if (server > 0 && strcmp(lk__element_text(hello, server), "infinispan") == 0)
		return greeter_unsafe(greeter, "is");
	return 0;
}

/* Without it nothing would be granted: better no connection than grants that are all given back. */
static int greeter_diskless(struct lk__greeter *greeter, const char *words)
{
	int code = lk__refusal(words).code;
	return lk__fail(greeter->error, code == LK_EMAYBEHELD ? LK_EREFUSED : code,
			"%s: fsync_acks is %s, but the server cannot tell what is on its disk "
			"(WAITAOF, since Redis 7.2): %.200s",
			greeter->config->url, greeter->config->fsync_acks, words);
}

/* A Sentinel speaks the protocol too, but has hardly any of the commands of a server. */
static int greeter_refused(struct lk__greeter *greeter, const char *verb, const char *words)
{
	int code = lk__refusal(words).code;
	bool lacks = strncmp(words, "ERR unknown command", 19) == 0 && strcmp(verb, "TIME") == 0;
	const char *hint = lacks ? LK__LIKE_SENTINEL : lk__refusal(words).hint;
	const char *edge = code == LK_EAUTH ? lk__text_edge(greeter->config->password) : NULL;
	return lk__fail(greeter->error, code == LK_EMAYBEHELD ? LK_EPROTOCOL : code,
			"%s: %s: %.300s%s%s%s%s", greeter->config->url, verb, words,
			*hint || edge ? " (" : "", edge ? "the password " : "", edge ? edge : hint,
			*hint || edge ? ")" : "");
}

static int greeter_take(struct lk__greeter *greeter, const redisReply *reply)
{
	const char *verb = greeter->verbs[greeter->answered];
	if (reply->type == REDIS_REPLY_ERROR) {
		int code = lk__refusal(reply->str).code;
		/* What stands first is the reason: the rest only follows from it. */
		bool refused = code == LK_EAUTH || strncmp(reply->str, "ERR max number", 14) == 0;
		if (strcmp(verb, "WAITAOF") == 0)
			return greeter_diskless(greeter, reply->str);
		if (greeter->needed[greeter->answered] || refused)
			return greeter_refused(greeter, verb, reply->str);
		if (strncmp(reply->str, "NOPROTO", 7) == 0)
			return greeter_unsafe(greeter, "speaks RESP3 alone, as does");
		greeter->greeting.no_hello |= strcmp(verb, "HELLO") == 0;
	} else if (strcmp(verb, "TIME") == 0 || strcmp(verb, "EVAL") == 0) {
		return greeter_time(greeter, reply, &greeter->greeting);
	} else if (strcmp(verb, "ROLE") == 0) {
		return greeter_role(greeter, reply);
	} else if (strcmp(verb, "SCRIPT") == 0) {
		greeter_scripts(reply, &greeter->greeting);
	} else if (strcmp(verb, "HELLO") == 0) {
		return greeter_hello(greeter, reply);
	} else if (reply->type == REDIS_REPLY_INTEGER) { /* CLIENT ID */
		greeter->greeting.client_id = reply->integer;
	}
	return 0;
}

/* 1: all is answered. */
static int greeter_hear(struct lk__greeter *greeter)
{
	for (; greeter->answered < greeter->count; greeter->answered++) {
		redisReply *reply;
		int rc = greeter_send(greeter); /* what an answer has led to */
		if (rc == 1)
			rc = greeter_read(greeter, &reply);
		if (rc != 1)
			return rc;
		rc = greeter_take(greeter, reply);
		freeReplyObject(reply);
		if (rc < 0)
			return rc;
	}
	return 1;
}

int lk__greeter_new(struct lk__greeter **greeter_out, struct lk__stream *stream,
		    const struct lk_config *config, unsigned flags, int64_t deadline_ns,
		    lk_error *error)
{
	struct lk__greeter *greeter = calloc(1, sizeof(*greeter));
	if (greeter) {
		greeter->stream = stream;
		greeter->config = config;
		greeter->flags = flags;
		greeter->deadline_ns = deadline_ns;
		greeter->reader = lk__reader_new();
	}
	if (!greeter || !greeter->reader || greeter_compose(greeter) != 0) {
		lk__greeter_free(greeter);
		return lk__fail(error, LK_ENOMEM, "handshake: out of memory");
	}
	greeter->greeting.sent_ns = lk__now_ns();
	greeter->greeting.client_id = -1;
	*greeter_out = greeter;
	return 0;
}

void lk__greeter_free(struct lk__greeter *greeter)
{
	if (!greeter)
		return;
	if (greeter->out.bytes)
		explicit_bzero(greeter->out.bytes, greeter->out.room);
	lk__buffer_free(&greeter->out);
	lk__reader_free(greeter->reader);
	free(greeter);
}

int lk__greeter_step(struct lk__greeter *greeter, struct lk__reader **reader_out,
		     struct lk__greeting *greeting_out, struct lk__readiness *readiness_out,
		     lk_error *error)
{
	greeter->error = error;
	int rc = greeter_send(greeter);
	if (rc == 1)
		rc = greeter_hear(greeter);
	if (rc == 1) {
		*reader_out = greeter->reader;
		*greeting_out = greeter->greeting;
		greeter->reader = NULL;
	} else if (rc == 0) {
		*readiness_out = (struct lk__readiness){greeter->stream->fd, greeter->wants,
							greeter->deadline_ns};
	}
	return rc;
}
