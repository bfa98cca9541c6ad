/* SPDX-License-Identifier: MIT */
#include "conn/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "net/stream.h"

#define WORD_MAX 80      /* bytes of a word that are shown */
#define REMINDER_MAX 240 /* of a request, behind its answer */
#define SAID_WORDS_MAX 6 /* of a question to a sentinel or a node */
#define TEXT_SIZE 960    /* a line, without what is before it */

struct text {
	char bytes[TEXT_SIZE];
	size_t used;
	size_t most;
};

static void text_begin(struct text *text, size_t most)
{
	text->used = 0;
	text->most = most;
	text->bytes[0] = 0;
}

/* As much as there is room for; a NUL would end the line. */
static void text_add(struct text *text, const char *bytes, size_t size)
{
	size_t room = text->most - 1 - text->used;
	size = size < room ? size : room;
	for (size_t i = 0; i < size; i++)
		text->bytes[text->used + i] = (char)(bytes[i] ? bytes[i] : '?');
	text->used += size;
	text->bytes[text->used] = 0;
}

__attribute__((format(printf, 2, 3))) static void text_format(struct text *text, const char *format,
							      ...)
{
	char part[64];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(part, sizeof(part), format, arguments);
	va_end(arguments);
	if (size > 0)
		text_add(text, part, strlen(part));
}

static bool text_is_full(const struct text *text)
{
	return text->used + 1 >= text->most;
}

/* ---- words ---- */

/* The name of the script with this text, or this SHA-1; NULL: none of ours. */
static const char *script_name(const char *word, size_t size)
{
	for (int by = 0; by < LK__MESSAGES_COUNT; by++) {
		for (int i = 0; i < LK__SCRIPT_COUNT; i++) {
			const struct lk__script *script = lk__script_of(i, (enum lk__messages)by);
			size_t sha1_size = strlen(script->sha1);
			if ((size == sha1_size && memcmp(word, script->sha1, size) == 0) ||
			    (size == script->size && memcmp(word, script->text, size) == 0))
				return script->name;
		}
	}
	return NULL;
}

static void add_word(struct text *text, const char *word, size_t size)
{
	const char *quote = size == 0 || memchr(word, ' ', size) ? "\"" : "";
	text_add(text, quote, strlen(quote));
	text_add(text, word, size < WORD_MAX ? size : WORD_MAX);
	text_add(text, quote, strlen(quote));
	if (size > WORD_MAX)
		text_format(text, "...(%zu bytes)", size);
}

static bool word_is(const char *word, size_t size, const char *other)
{
	return size == strlen(other) && memcmp(word, other, size) == 0;
}

/* A word of a command at that place; false: what follows is not to be shown. */
static bool add_word_at(struct text *text, size_t place, const char *word, size_t size)
{
	const char *name = place > 0 && place < 3 ? script_name(word, size) : NULL;
	if (text->used > 0)
		text_add(text, " ", 1);
	if (name)
		text_add(text, name, strlen(name));
	else
		add_word(text, word, size);
	if (place > 0 || !word_is(word, size, "AUTH"))
		return true;
	text_add(text, " ***", 4);
	return false;
}

/* The commands of a request: *<words>\r\n, then $<size>\r\n<word>\r\n for each. */
static void add_commands(struct text *text, const struct lk__buffer *bytes)
{
	const char *at = lk__buffer_front(bytes), *end = at + lk__buffer_size(bytes);
	while (at < end && !text_is_full(text)) {
		char *next;
		long words = strtol(at + 1, &next, 10);
		bool shown = true;
		if (text->used > 0)
			text_add(text, ";", 1);
		at = next + 2;
		for (long place = 0; place < words; place++) {
			size_t size = strtoul(at + 1, &next, 10);
			if (shown)
				shown = add_word_at(text, (size_t)place, next + 2, size);
			at = next + 2 + size + 2;
		}
	}
}

/* ---- answers ---- */

static void add_value(struct text *text, const redisReply *reply)
{
	switch (reply->type) {
	case REDIS_REPLY_INTEGER:
		text_format(text, "(integer) %lld", reply->integer);
		break;
	case REDIS_REPLY_NIL:
		text_format(text, "nil");
		break;
	case REDIS_REPLY_ERROR:
		text_format(text, "-");
		text_add(text, reply->str, strlen(reply->str));
		break;
	case REDIS_REPLY_STATUS:
		text_format(text, "+");
		text_add(text, reply->str, strlen(reply->str));
		break;
	default:
		add_word(text, reply->str ? reply->str : "?", reply->str ? (size_t)reply->len : 1);
	}
}

/* Arrays in arrays are as deep as the reader lets them be. */
static void add_reply(struct text *text, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY) {
		add_value(text, reply);
		return;
	}
	text_add(text, "[", 1);
	for (size_t i = 0; i < reply->elements && !text_is_full(text); i++) {
		if (i > 0)
			text_add(text, ", ", 2);
		add_reply(text, reply->element[i]);
	}
	text_add(text, "]", 1);
}

/* ---- lines ---- */

static void say(const struct lk__conn *conn, const char *sign, const struct text *text)
{
	const char *where = *conn->place ? conn->place : conn->node->config->url;
	static const char *const kinds[] = {
		[LK__CONN_SCRIPTS] = "scripts",
		[LK__CONN_MESSAGES] = "messages",
		[LK__CONN_WORK] = "work",
		[LK__CONN_PROBE] = "probe",
	};
	lk__log(&conn->node->log, LK_LOG_DEBUG, "%.100s %s/%d: %s%s", where, kinds[conn->kind],
		conn->stream ? conn->stream->fd : -1, sign, text->bytes);
}

void lk__trace_request(const struct lk__conn *conn, const struct lk__request *request)
{
	struct text text;
	if (!lk__log_debugs(&conn->node->log))
		return;
	text_begin(&text, sizeof(text.bytes));
	add_commands(&text, &request->bytes);
	say(conn, request->sends > 1 ? "> again: " : "> ", &text);
}

void lk__trace_answer(const struct lk__conn *conn, const struct lk__request *request,
		      const redisReply *reply)
{
	struct text text, asked;
	if (!lk__log_debugs(&conn->node->log))
		return;
	text_begin(&text, sizeof(text.bytes) - (request ? REMINDER_MAX : 0));
	text_begin(&asked, REMINDER_MAX);
	if (request)
		add_commands(&asked, &request->bytes);
	if (strstr(asked.bytes, "ACL GETUSER")) /* with the hashes of passwords */
		text_add(&text, "***", 3);
	else
		add_reply(&text, reply);
	text.most = sizeof(text.bytes);
	if (request)
		text_format(&text,
			    " in %.3f ms: ", (double)(lk__now_ns() - request->sent_ns) / LK__MS);
	text_add(&text, asked.bytes, asked.used);
	say(conn, "< ", &text);
}

void lk__trace_conn(const struct lk__conn *conn, const char *what)
{
	struct text text;
	if (!lk__log_debugs(&conn->node->log))
		return;
	text_begin(&text, sizeof(text.bytes));
	text_add(&text, what, strlen(what));
	say(conn, "", &text);
}

void lk__trace_words(const struct lk_config *config, size_t argc, const char **argv)
{
	struct text text;
	if (!lk__log_debugs(&config->log))
		return;
	text_begin(&text, sizeof(text.bytes));
	for (size_t i = 0; i < argc && i < SAID_WORDS_MAX; i++)
		if (!add_word_at(&text, i, argv[i], strlen(argv[i])))
			break;
	lk__log(&config->log, LK_LOG_DEBUG, "%.100s asks: %s%s", config->url, text.bytes,
		argc > SAID_WORDS_MAX ? " ..." : "");
}

void lk__trace_reply(const struct lk_config *config, const char *verb, const redisReply *reply)
{
	struct text text;
	if (!lk__log_debugs(&config->log))
		return;
	text_begin(&text, sizeof(text.bytes));
	add_reply(&text, reply);
	lk__log(&config->log, LK_LOG_DEBUG, "%.100s answers %s: %s", config->url, verb, text.bytes);
}
