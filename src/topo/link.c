/* SPDX-License-Identifier: MIT */
#include "topo/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/door.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/request.h"
#include "conn/trace.h"
#include "net/stream.h"
#include "resp/reply.h"

#define WORDS_MAX 4 /* of one command */

int lk__link_open(struct lk__link *link, struct lk_config *config, int64_t deadline_ns,
		  lk_error *error)
{
	*link = (struct lk__link){
		.config = config, .reader = lk__reader_new(), .opens = {-1, 0, 0}};
	link->opening = link->reader ? lk__opening_new(config, deadline_ns) : NULL;
	if (link->opening)
		return 0;
	lk__link_close(link);
	return lk__fail(error, LK_ENOMEM, "out of memory");
}

int lk__link_step(struct lk__link *link, lk_error *error)
{
	int rc = lk__opening_step(link->opening, &link->stream, &link->opens, error);
	if (rc < 0)
		lk__link_close(link);
	if (rc <= 0)
		return rc;
	lk__opening_free(link->opening);
	link->opening = NULL;
	return 1;
}

void lk__link_close(struct lk__link *link)
{
	lk__opening_free(link->opening);
	lk__stream_close(link->stream);
	lk_config_free(link->config);
	lk__reader_free(link->reader);
	if (link->out.bytes) /* a password may have stood there */
		explicit_bzero(link->out.bytes, link->out.room);
	lk__buffer_free(&link->out);
	*link = (struct lk__link){.config = NULL};
}

int lk__link_say(struct lk__link *link, const char *what, const char *const *words)
{
	size_t sizes[WORDS_MAX], count = 0;
	for (; words[count] && count < WORDS_MAX; count++)
		sizes[count] = strlen(words[count]);
	if (words[count] || link->owed_count == LK__LINK_OWED_MAX)
		return LK_ENOMEM;
	lk__trace_words(link->config, count, (const char **)words);
	link->owed[link->owed_count++] = what;
	return lk__write_command(&link->out, count, (const char **)words, sizes);
}

int lk__link_auth(struct lk__link *link)
{
	const char *user = link->config->username, *password = link->config->password;
	if (!*password)
		return 0;
	return lk__link_say(link, "AUTH",
			    *user ? LK__SAY("AUTH", user, password) : LK__SAY("AUTH", password));
}

struct lk__readiness lk__link_waits(const struct lk__link *link)
{
	if (link->opening)
		return link->opens;
	if (!link->stream)
		return (struct lk__readiness){-1, 0, LK__NEVER};
	short more = lk__buffer_size(&link->out) > 0 ? POLLOUT : 0;
	return (struct lk__readiness){link->stream->fd, (short)(link->stream->wants | more),
				      LK__NEVER};
}

/* A port for TLS does not answer what is not a greeting of TLS. */
static const char *silence_hint(const struct lk__link *link)
{
	static const char *const hints[] = {
		[LK__REPLICAS] = " (a port for TLS? use rediss-replicas://)",
		[LK__SENTINEL] = " (a port for TLS? use rediss-sentinel://, or sentinel_tls=on)",
		[LK__CLUSTER] = " (a port for TLS? use rediss-cluster://)",
	};
	bool told = link->config->scheme != LK__SCHEME_TCP || lk__reader_begun(link->reader);
	const char *hint = told ? NULL : hints[link->config->deployment];
	return hint ? hint : "";
}

static int link_broken(const struct lk__link *link, ssize_t got, char *reason_out,
		       size_t reason_size)
{
	char text[100];
	int code = lk__stream_explain(link->stream, reason_out, reason_size);
	if (code)
		return code;
	snprintf(reason_out, reason_size, "%s%s",
		 got == 0 ? "it closed the connection"
			  : lk__system_text((int)-got, text, sizeof(text)),
		 silence_hint(link));
	return LK_EUNREACHABLE;
}

/* 0, or a code. */
static int link_write(struct lk__link *link, char *reason_out, size_t reason_size)
{
	while (lk__buffer_size(&link->out) > 0) {
		ssize_t wrote = lk__stream_write(link->stream, lk__buffer_front(&link->out),
						 lk__buffer_size(&link->out));
		if (wrote == -EAGAIN)
			return 0;
		if (wrote < 0 && wrote != -EINTR)
			return link_broken(link, wrote, reason_out, reason_size);
		if (wrote > 0)
			lk__buffer_take(&link->out, (size_t)wrote);
	}
	return 0;
}

static const char *link_answered(struct lk__link *link)
{
	const char *what = link->owed_count ? link->owed[0] : NULL;
	if (what)
		memmove(link->owed, link->owed + 1, --link->owed_count * sizeof(link->owed[0]));
	return what;
}

int lk__link_next(struct lk__link *link, redisReply **reply_out, const char **what_out,
		  char *reason_out, size_t reason_size)
{
	char chunk[4096];
	int rc = link_write(link, reason_out, reason_size);
	while (rc == 0) {
		rc = lk__reader_next(link->reader, reply_out);
		if (rc == 1) {
			*what_out = link_answered(link);
			lk__trace_reply(link->config, *what_out ? *what_out : "message",
					*reply_out);
		}
		if (rc != 0)
			break;
		ssize_t got = lk__stream_read(link->stream, chunk, sizeof(chunk));
		if (got == -EAGAIN)
			return 0;
		if (got > 0)
			rc = lk__reader_feed(link->reader, chunk, (size_t)got);
		else if (got != -EINTR)
			return link_broken(link, got, reason_out, reason_size);
	}
	if (rc == LK_EPROTOCOL || rc == LK_ENOMEM)
		snprintf(reason_out, reason_size, "%s", lk__reader_error(link->reader));
	return rc;
}
