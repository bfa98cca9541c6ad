/* SPDX-License-Identifier: MIT */
#include "conn/connector.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/request.h"
#include "net/stream.h"
#include "resp/reply.h"
#include "scripts.h"

#define COMMANDS_MAX 9
#define DISK_WAIT_MS "100"
#define WORDS_MAX (2 + LK__SCRIPT_COUNT) /* of one command */
#define CLOSED_PAUSE_NS (100 * LK__MS)   /* far longer than its leader takes to notice */
#define DOUBT_TIMES 3                    /* as long as before, each time */

/* ---- the first words ---- */

struct greeter {
	const struct lk__conn *conn;
	struct lk__stream *stream;
	const struct lk_config *config;
	int64_t deadline_ns;
	struct lk__buffer out;
	struct lk__reader *reader;
	const char *verbs[COMMANDS_MAX]; /* what each answer belongs to */
	bool needed[COMMANDS_MAX];
	size_t count;
	size_t answered;
	bool first;  /* the server has never been reached: what may be a refusal is one */
	short wants; /* what it waits for */
	struct lk__greeting greeting;
	lk_error *error;
};

static int greeter_say(struct greeter *greeter, bool needed, size_t argc, const char **argv)
{
	size_t sizes[WORDS_MAX];
	for (size_t i = 0; i < argc; i++)
		sizes[i] = strlen(argv[i]);
	greeter->verbs[greeter->count] = argv[0];
	greeter->needed[greeter->count++] = needed;
	return lk__write_command(&greeter->out, argc, argv, sizes);
}

/* Which of our scripts are there: one question instead of all their texts. */
static int greeter_ask_scripts(struct greeter *greeter)
{
	const char *argv[WORDS_MAX] = {"SCRIPT", "EXISTS"};
	for (size_t i = 0; i < LK__SCRIPT_COUNT; i++)
		argv[2 + i] = lk__script_of((int)i, greeter->config->chosen.messages)->sha1;
	return greeter_say(greeter, false, WORDS_MAX, argv);
}

static int greeter_compose(struct greeter *greeter)
{
	const struct lk_config *config = greeter->config;
	const struct lk__node *node = greeter->conn->node;
	bool commands = greeter->conn->kind != LK__CONN_MESSAGES;
	int rc = 0;
	if (config->password[0] && config->username[0])
		rc |= greeter_say(greeter, true, 3,
				  (const char *[]){"AUTH", config->username, config->password});
	else if (config->password[0])
		rc |= greeter_say(greeter, true, 2, (const char *[]){"AUTH", config->password});
	if (node->finder)
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
	if (commands)
		rc |= greeter_ask_scripts(greeter);
	/* Answered at once, since this connection has written nothing. */
	if (commands && node->fsync != LK__FSYNC_OFF)
		rc |= greeter_say(greeter, true, 4,
				  (const char *[]){"WAITAOF", "1", "0", DISK_WAIT_MS});
	if (!commands && config->chosen.tracks)
		rc |= greeter_say(greeter, false, 2, (const char *[]){"CLIENT", "ID"});
	/* Last: there are servers that close the connection over what they do not know. With the
	 * protocol that we speak, which not every server does. */
	if (commands && !atomic_load(&node->no_hello))
		rc |= greeter_say(greeter, false, 2, (const char *[]){"HELLO", "2"});
	return rc;
}

/* 0: it waits; or it is too late for that. */
static int greeter_waits(struct greeter *greeter, short events)
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
static const char *silence_hint(const struct greeter *greeter)
{
	bool tcp = greeter->config->scheme == LK__SCHEME_TCP;
	if (tcp && !lk__reader_begun(greeter->reader))
		return " without a word (a port for TLS? use rediss://; a proxy that lacks "
		       "commands? name the server itself)";
	return greeter->first && greeter->answered == 0
		       ? " (a proxy that lacks commands? name the server itself)"
		       : "";
}

static int greeter_broken(struct greeter *greeter, ssize_t got)
{
	const char *node = greeter->config->url;
	char reason[256];
	int code = lk__stream_explain(greeter->stream, reason, sizeof(reason));
	if (code)
		return lk__fail(greeter->error, greeter->first ? LK_ETLS : code, "%s: TLS: %s",
				node, reason);
	if (got == 0)
		return lk__fail(greeter->error, LK_EUNREACHABLE,
				"%s: the server closed the connection%s", node,
				silence_hint(greeter));
	return lk__fail_errno(greeter->error, LK_EUNREACHABLE, (int)-got, "%s: connection lost%s",
			      node, silence_hint(greeter));
}

/* 1: all is sent. */
static int greeter_send(struct greeter *greeter)
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
static int greeter_read(struct greeter *greeter, redisReply **reply_out)
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
static int greeter_ask_server(struct greeter *greeter)
{
	char *key = lk__time_key(greeter->config);
	greeter->greeting.time_by_script = true;
	greeter->greeting.sent_ns = lk__now_ns();
	bool said = key && greeter_say(greeter, true, 4,
				       (const char *[]){"EVAL", LK__TIME_SCRIPT, "1", key}) == 0;
	free(key);
	if (said)
		return 0;
	return lk__fail(greeter->error, LK_ENOMEM, "handshake: out of memory");
}

static int greeter_time(struct greeter *greeter, const redisReply *reply,
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
static int greeter_role(struct greeter *greeter, const redisReply *reply)
{
	bool told = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
		    reply->element[0]->type == REDIS_REPLY_STRING;
	const char *role = told ? reply->element[0]->str : "unknown";
	if (strcmp(role, "master") == 0)
		return 0;
	return lk__fail(greeter->error, LK_EUNAVAILABLE,
			"%s: it is not a master (ROLE answers %.20s)", greeter->config->url, role);
}

/* A script whose answer is not as expected is taken for missing: it is sent with its first use. */
static void greeter_scripts(const redisReply *reply, struct lk__greeting *greeting)
{
	bool whole = reply->type == REDIS_REPLY_ARRAY && reply->elements == LK__SCRIPT_COUNT;
	for (size_t i = 0; whole && i < LK__SCRIPT_COUNT; i++)
		greeting->scripts[i] = reply->element[i]->type == REDIS_REPLY_INTEGER &&
				       reply->element[i]->integer == 1;
}

/*
 * A proxy that spreads keys over servers asks all of them, and passes one answer on, or answers
 * itself. It removes what is true of one connection alone, as the id: a server tells that as a
 * number, and counts from 1; the proxy has none, or 0.
 */
static bool hello_spreads(const redisReply *hello)
{
	const redisReply *id = lk__field_value(hello, "id");
	return id && (id->type == REDIS_REPLY_NIL ||
		      (id->type == REDIS_REPLY_INTEGER && id->integer == 0));
}

/* Another script may come between the commands of one: two owners. */
static int greeter_unsafe(struct greeter *greeter, const char *is)
{
	return lk__fail(greeter->error, LK_EREFUSED,
			"%s: it %s Infinispan, whose scripts are not atomic: use Redis or Valkey",
			greeter->config->url, is);
}

static int greeter_hello(struct greeter *greeter, const redisReply *hello)
{
	greeter->greeting.spreads = hello_spreads(hello);
	if (strcmp(lk__field_text(hello, "server"), "infinispan") == 0)
		return greeter_unsafe(greeter, "is");
	return 0;
}

/* Without it nothing would be granted: better no connection than grants that are all given back. */
static int greeter_diskless(struct greeter *greeter, const char *words)
{
	int code = lk__refusal(words).code;
	return lk__fail(greeter->error, code == LK_EMAYBEHELD ? LK_EREFUSED : code,
			"%s: fsync_acks is %s, but the server cannot tell what is on its disk "
			"(WAITAOF, since Redis 7.2): %.200s",
			greeter->config->url, greeter->config->fsync_acks, words);
}

/* A Sentinel speaks the protocol too, but has hardly any of the commands of a server. */
static int greeter_refused(struct greeter *greeter, const char *verb, const char *words)
{
	struct lk__refusal refusal = lk__refusal(words);
	int code = refusal.code;
	bool lacks = refusal.unknown && strcmp(verb, "TIME") == 0;
	const char *hint = lacks ? LK__LIKE_SENTINEL : refusal.hint;
	const char *edge = code == LK_EAUTH ? lk__text_edge(greeter->config->password) : NULL;
	return lk__fail(greeter->error, code == LK_EMAYBEHELD ? LK_EPROTOCOL : code,
			"%s: %s: %.300s%s%s%s%s", greeter->config->url, verb, words,
			*hint || edge ? " (" : "", edge ? "the password " : "", edge ? edge : hint,
			*hint || edge ? ")" : "");
}

static int greeter_take(struct greeter *greeter, const redisReply *reply)
{
	const char *verb = greeter->verbs[greeter->answered];
	if (reply->type == REDIS_REPLY_ERROR) {
		int code = lk__refusal(reply->str).code;
		/* The first refusal is the reason: the rest only follows from it. */
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
static int greeter_hear(struct greeter *greeter)
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

static void greeter_free(struct greeter *greeter)
{
	if (!greeter)
		return;
	if (greeter->out.bytes)
		explicit_bzero(greeter->out.bytes, greeter->out.room);
	lk__buffer_free(&greeter->out);
	lk__reader_free(greeter->reader);
	free(greeter);
}

/* Begins to speak them, in one batch. What the connection can do without (the name, the question
 * for scripts) may be refused. LK_ENOMEM. */
static int greeter_new(struct greeter **greeter_out, const struct lk__conn *conn,
		       struct lk__stream *stream, const struct lk_config *config,
		       int64_t deadline_ns, lk_error *error)
{
	struct greeter *greeter = calloc(1, sizeof(*greeter));
	if (greeter) {
		greeter->conn = conn;
		greeter->stream = stream;
		greeter->config = config;
		greeter->first = !atomic_load(&conn->node->was_up);
		greeter->deadline_ns = deadline_ns;
		greeter->reader = lk__reader_new();
	}
	if (!greeter || !greeter->reader || greeter_compose(greeter) != 0) {
		greeter_free(greeter);
		return lk__fail(error, LK_ENOMEM, "handshake: out of memory");
	}
	greeter->greeting.sent_ns = lk__now_ns();
	greeter->greeting.client_id = -1;
	*greeter_out = greeter;
	return 0;
}

/* As far as it goes without waiting. 1: all is answered, and the reader goes on reading; 0: what it
 * waits for is written; or a code. */
static int greeter_step(struct greeter *greeter, struct lk__reader **reader_out,
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

/* ---- the way to them ---- */

enum connector_state { CONNECTOR_PAUSE, CONNECTOR_FIND, CONNECTOR_MAKE };

/* One way to the node, until it is greeted. */
struct attempt {
	struct lk_config *config;
	struct lk__opening *opening; /* until there is a stream, */
	struct lk__stream *stream;   /* over which it is greeted */
	struct greeter *greeter;
	struct lk__readiness readiness; /* what it waits for */
};

struct lk__connector {
	struct lk__conn *conn;
	const struct lk__connector_ops *ops;
	struct lk__finder *finder; /* NULL: the configuration says where the node is */
	_Atomic bool hurried;      /* it is to find the node again */
	enum connector_state state;
	int set_fd;          /* of the loop, once that has waited for it; or -1 */
	int64_t deadline_ns; /* of the attempts */
	uint64_t generation; /* with which it was found, */
	uint64_t asked;      /* as the finder was asked */
	struct attempt first, second;
	int64_t owed_ns;           /* since when the first awaits a word of the server; or 0 */
	int64_t doubted_ns;        /* when that was last doubted; or 0 */
	int64_t second_ns;         /* when the second was begun last; or 0 */
	_Atomic int64_t needed_ns; /* see lk__connector_need() */

	_Atomic(const char *) awaits; /* for others: lk__connector_awaits() */
};

static void attempt_drop(struct attempt *attempt)
{
	lk__opening_free(attempt->opening);
	greeter_free(attempt->greeter);
	lk__stream_close(attempt->stream);
	attempt->opening = NULL;
	attempt->greeter = NULL;
	attempt->stream = NULL;
}

static void connector_drop_second(struct lk__connector *connector)
{
	attempt_drop(&connector->second);
	lk_config_free(connector->second.config);
	connector->second.config = NULL;
}

static void connector_drop_attempts(struct lk__connector *connector)
{
	attempt_drop(&connector->first);
	connector_drop_second(connector);
	connector->owed_ns = connector->doubted_ns = connector->second_ns = 0;
}

void lk__connector_free(struct lk__connector *connector)
{
	if (!connector)
		return;
	connector_drop_attempts(connector);
	if (connector->finder)
		connector->finder->ops->unref(connector->finder);
	lk_config_free(connector->first.config);
	free(connector);
}

/* In the loop's set: it is asked for the next event, or put there. */
static bool connector_arm(const struct lk__connector *connector, int fd, short events)
{
	bool writes = (events & POLLOUT) != 0;
	return lk__set_rearm(connector->set_fd, fd, writes, connector->conn) == 0 ||
	       (lk__set_add(connector->set_fd, fd, LK__SET_ENDED, connector->conn) == 0 &&
		lk__set_rearm(connector->set_fd, fd, writes, connector->conn) == 0);
}

/* ---- the connection is told ---- */

static void connector_pause(struct lk__connector *connector, int64_t pause_ns)
{
	connector->state = CONNECTOR_PAUSE;
	connector->first.readiness = (struct lk__readiness){-1, 0, lk__now_ns() + pause_ns};
}

/*
 * True, unless the connection is closed meanwhile. Then nothing is awaited any more: what the
 * attempt waited for last may be the descriptor of a look-up that has ended, whose number is free
 * for others.
 */
static bool connector_deliver(struct lk__connector *connector, struct attempt *attempt,
			      struct lk__reader *reader, const struct lk__greeting *greeting)
{
	bool watched = connector->set_fd >= 0 &&
		       connector_arm(connector, attempt->stream->fd, POLLIN);
	bool taken = connector->ops->made(connector->conn, attempt->stream, reader, greeting,
					  watched);
	if (taken) {
		attempt->stream = NULL;
	} else {
		lk__reader_free(reader);
		connector_drop_attempts(connector);
		connector_pause(connector, CLOSED_PAUSE_NS);
	}
	return taken;
}

/* An attempt failed. True: it was the last, and the connection has let go of its connector. */
static bool connector_report(struct lk__connector *connector, const lk_error *error)
{
	if (lk__now_ns() < connector->deadline_ns) /* a refusal is an answer */
		atomic_store(&connector->conn->node->mute_ns, 0);
	connector_drop_attempts(connector);
	int64_t pause_ns = connector->ops->failed(connector->conn, error);
	connector_pause(connector, pause_ns);
	return pause_ns < 0;
}

/* ---- steps: 1, the next can be taken at once; 0, it waits; or a code ---- */

static int connector_begin(struct lk__connector *connector)
{
	if (lk__now_ns() < connector->first.readiness.until_ns)
		return 0;
	connector->deadline_ns = lk__after_ms(lk__now_ns(),
					      connector->first.config->connect_timeout_ms);
	connector->asked = 0;
	connector->state = CONNECTOR_FIND;
	return 1;
}

static int attempt_begin(struct lk__connector *connector, struct attempt *attempt, lk_error *error)
{
	attempt->opening = lk__opening_new(attempt->config, connector->deadline_ns);
	return attempt->opening ? 1
				: lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory",
					   attempt->config->url);
}

/* Where the node is now. */
static int connector_find(struct lk__connector *connector, lk_error *error)
{
	struct attempt *first = &connector->first;
	struct lk__finder *finder = connector->finder;
	int rc = finder ? finder->ops->find(finder, first->config, &connector->generation,
					    &connector->asked, connector->deadline_ns, error)
			: 0;
	first->readiness = (struct lk__readiness){-1, 0, connector->deadline_ns};
	if (rc != 0)
		return rc == 1 ? 0 : rc;
	connector->state = CONNECTOR_MAKE;
	return attempt_begin(connector, first, error);
}

static int attempt_open(struct lk__connector *connector, struct attempt *attempt, lk_error *error)
{
	int rc = lk__opening_step(attempt->opening, &attempt->stream, &attempt->readiness, error);
	if (rc <= 0)
		return rc;
	lk__opening_free(attempt->opening);
	attempt->opening = NULL;
	rc = greeter_new(&attempt->greeter, connector->conn, attempt->stream, attempt->config,
			 connector->deadline_ns, error);
	return rc < 0 ? rc : 1;
}

static void connector_say_where(const struct lk__connector *connector,
				struct lk__greeting *greeting)
{
	const struct lk_config *config = connector->first.config;
	char place[LK__PLACE_SIZE];
	if (!connector->finder)
		return;
	lk__place_name(place, config->host, config->port);
	greeting->generation = connector->generation;
	snprintf(greeting->place, sizeof(greeting->place), "%.63s", place);
}

static int attempt_greet(struct lk__connector *connector, struct attempt *attempt, bool *taken,
			 lk_error *error)
{
	struct lk__reader *reader;
	struct lk__greeting greeting;
	int rc = greeter_step(attempt->greeter, &reader, &greeting, &attempt->readiness, error);
	if (rc == 1) {
		connector_say_where(connector, &greeting);
		*taken = connector_deliver(connector, attempt, reader, &greeting);
		return 0;
	}
	return rc;
}

static int attempt_go_on(struct lk__connector *connector, struct attempt *attempt, bool *taken,
			 lk_error *error)
{
	return attempt->opening ? attempt_open(connector, attempt, error)
				: attempt_greet(connector, attempt, taken, error);
}

static int connector_go_on(struct lk__connector *connector, bool *taken, lk_error *error)
{
	switch (connector->state) {
	case CONNECTOR_PAUSE:
		return connector_begin(connector);
	case CONNECTOR_FIND:
		return connector_find(connector, error);
	default:
		return attempt_go_on(connector, &connector->first, taken, error);
	}
}

/* ---- a first attempt that waits for a word of the handshake: conn.c ---- */

static bool connector_is_owed(const struct lk__connector *connector)
{
	const struct lk__opening *opening = connector->first.opening;
	return connector->state == CONNECTOR_MAKE && (!opening || lk__opening_shakes(opening));
}

static int64_t connector_until_ns(const struct lk__connector *connector)
{
	int64_t needed_ns = atomic_load(&connector->needed_ns);
	return needed_ns > lk__now_ns() ? lk__earlier(connector->deadline_ns, needed_ns)
					: connector->deadline_ns;
}

/* When it is doubted next: each time three times as much has passed as before. */
static int64_t connector_doubt_ns(const struct lk__connector *connector)
{
	int64_t owed_ns = connector->owed_ns, doubted_ns = connector->doubted_ns;
	int64_t part_ns = doubted_ns ? DOUBT_TIMES * (doubted_ns - owed_ns)
				     : lk__patience_ns(connector_until_ns(connector) - owed_ns);
	return owed_ns + part_ns;
}

/* Another connection was greeted since either of them was begun. */
static bool connector_is_outlived(const struct lk__connector *connector)
{
	return atomic_load(&connector->conn->node->greeted_ns) >
	       lk__later(connector->owed_ns, connector->second_ns);
}

/* True: a second attempt is to be made. Only the probe makes one without a proof that the server
 * greets: further attempts at a server that does not are in vain. */
static bool connector_doubt(struct lk__connector *connector)
{
	if (connector_is_outlived(connector))
		return true;
	if (lk__now_ns() < connector_doubt_ns(connector))
		return false;
	connector->doubted_ns = lk__now_ns();
	if (connector->conn->kind == LK__CONN_PROBE)
		return true;
	connector->ops->doubts(connector->conn->node, connector_until_ns(connector));
	return false;
}

/* To the same place, with the same credentials: the program is not asked once more. Without memory
 * the first is alone. */
static void connector_begin_second(struct lk__connector *connector)
{
	struct attempt *second = &connector->second;
	lk_error error;
	connector_drop_second(connector);
	connector->second_ns = lk__now_ns();
	second->config = lk__config_copy(connector->first.config);
	if (!second->config)
		return;
	second->config->credentials = NULL;
	attempt_begin(connector, second, &error);
}

/* True: it was greeted, and the connection has it. What goes wrong with it is no reason to give up
 * the first. */
static bool connector_go_on_second(struct lk__connector *connector)
{
	struct attempt *second = &connector->second;
	bool taken = false;
	lk_error error;
	int rc = second->opening || second->greeter;
	while (rc == 1)
		rc = attempt_go_on(connector, second, &taken, &error);
	if (rc < 0)
		connector_drop_second(connector);
	return taken;
}

/* True: the connection has the second. */
static bool connector_contend(struct lk__connector *connector)
{
	if (!connector_is_owed(connector))
		return false;
	if (!connector->owed_ns)
		connector->owed_ns = lk__now_ns();
	if (connector_go_on_second(connector))
		return true;
	if (!connector_is_owed(connector) || !connector_doubt(connector))
		return false;
	connector_begin_second(connector);
	return connector_go_on_second(connector);
}

static const char *connector_stage(const struct lk__connector *connector)
{
	switch (connector->state) {
	case CONNECTOR_FIND:
		return "it is not known yet where it is";
	case CONNECTOR_MAKE:
		return connector->first.opening ? lk__opening_awaits(connector->first.opening)
						: "no answer to the greeting yet";
	default:
		return NULL;
	}
}

/* The node is elsewhere. One that looks for it has not been led anywhere yet; and the program that
 * is being asked is not waited for here. */
static void connector_hurry(struct lk__connector *connector)
{
	const struct lk__opening *opening = connector->first.opening;
	if ((opening && lk__opening_asks(opening)) ||
	    !atomic_exchange(&connector->hurried, false) || connector->state == CONNECTOR_FIND)
		return;
	connector_drop_attempts(connector);
	connector_pause(connector, 0);
}

/* It waits for one attempt, or two; and for the next doubt. */
static void connector_waits(const struct lk__connector *connector, struct lk__readiness *waits_out)
{
	const struct attempt *second = &connector->second;
	waits_out[0] = connector->first.readiness;
	waits_out[1] = (struct lk__readiness){-1, 0, LK__NEVER};
	if (second->opening || second->greeter)
		waits_out[1] = second->readiness;
	if (connector->owed_ns)
		waits_out[1].until_ns = lk__earlier(waits_out[1].until_ns,
						    connector_doubt_ns(connector));
}

bool lk__connector_step(struct lk__connector *connector, struct lk__readiness *waits_out)
{
	bool taken = false;
	int rc = 1;
	connector_hurry(connector);
	while (rc == 1) {
		lk_error error;
		rc = connector_go_on(connector, &taken, &error);
		if (rc < 0) {
			taken = connector_report(connector, &error);
			rc = !taken;
		}
		if (!taken)
			atomic_store(&connector->awaits, connector_stage(connector));
	}
	taken = taken || connector_contend(connector);
	if (taken)
		lk__connector_free(connector);
	else
		connector_waits(connector, waits_out);
	return !taken;
}

int64_t lk__connector_watch(struct lk__connector *connector, int set_fd)
{
	struct lk__readiness waits[LK__CONNECTOR_WAITS];
	int64_t next_ns = LK__NEVER;
	connector->set_fd = set_fd;
	connector_waits(connector, waits);
	for (size_t i = 0; i < LK__CONNECTOR_WAITS; i++) {
		bool armed = waits[i].fd < 0 ||
			     connector_arm(connector, waits[i].fd, waits[i].events);
		next_ns = lk__earlier(next_ns, waits[i].until_ns);
		if (!armed)
			next_ns = lk__earlier(next_ns, lk__now_ns() + LK__MS);
	}
	return next_ns;
}

/* ---- from start to stop ---- */

int lk__connector_start(struct lk__conn *conn, const struct lk__connector_ops *ops,
			int64_t pause_ns, lk_error *error)
{
	const char *node = conn->node->config->url;
	struct lk__connector *connector = calloc(1, sizeof(*connector));
	struct lk_config *config = connector ? lk__config_copy(conn->node->config) : NULL;
	if (!config) {
		free(connector);
		return lk__fail(error, LK_ENOMEM, "%s: cannot connect: out of memory", node);
	}
	connector->first.config = config;
	atomic_store(&connector->needed_ns, LK__NEVER);
	connector->set_fd = -1;
	connector->conn = conn;
	connector->ops = ops;
	connector->finder = conn->node->finder;
	if (connector->finder)
		atomic_fetch_add(&connector->finder->refs, 1);
	connector_pause(connector, pause_ns);
	conn->connector = connector;
	return 0;
}

const char *lk__connector_awaits(const struct lk__connector *connector)
{
	return connector ? atomic_load(&connector->awaits) : NULL;
}

void lk__connector_hurry(struct lk__connector *connector)
{
	atomic_store(&connector->hurried, true);
}

bool lk__connector_need(struct lk__connector *connector, int64_t until_ns)
{
	int64_t known_ns = atomic_load(&connector->needed_ns);
	if (until_ns >= known_ns && known_ns > lk__now_ns())
		return false;
	atomic_store(&connector->needed_ns, until_ns);
	return true;
}
