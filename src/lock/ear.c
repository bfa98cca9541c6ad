/* SPDX-License-Identifier: MIT */
#include "lock/ear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/door.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/node.h"
#include "lock/notice.h"
#include "sync/recipes.h"

/* ---- the holder ---- */

static struct lk__ear *entry_ear(const struct lk__entry *entry)
{
	return entry->hold ? lk__hold_extra(entry->hold)->ear : NULL;
}

/* The name of the key and of the channel; NULL when out of memory. */
static char *ask_name(const struct lk__entry *entry, size_t *size_out)
{
	return lk__derived_name("lockkeeper_ask", entry->target.key, entry->target.key_size,
				size_out);
}

void lk__ear_open(struct lk__entry *entry)
{
	struct lk__ear *ear = entry_ear(entry);
	size_t size;
	if (!ear || ear->listening)
		return;
	char *name = ask_name(entry, &size);
	ear->conn = lk__entry_messages(entry);
	if (name)
		ear->listening = lk__channel_open(ear->conn, name, size, NULL, entry);
	free(name);
}

void lk__ear_free(struct lk__ear *ear)
{
	if (ear && ear->listening)
		lk__channel_close(ear->conn, ear->listening);
	free(ear);
}

/* A question that is on its way. */
struct look {
	struct lk__entry *entry; /* a reference */
	uint64_t number;         /* of the grant */
};

/* Reads the request and why out of "<request>\n<field>\n…\n\n<why>"; false where no field is this
 * one. */
static bool request_read(const redisReply *reply, const char *field, char request_out[40],
			 const char **why_out)
{
	char line[LK__FIELD_SIZE + 2];
	if (reply->type != REDIS_REPLY_STRING)
		return false;
	const char *fields = strchr(reply->str, '\n');
	const char *end = fields ? strstr(fields, "\n\n") : NULL;
	if (!end || fields - reply->str >= 40)
		return false;
	int size = snprintf(line, sizeof(line), "\n%s\n", field);
	const char *own = strstr(fields, line),
		   *all = strncmp(fields, "\n*\n", 3) == 0 ? fields : NULL;
	snprintf(request_out, 40, "%.*s", (int)(fields - reply->str), reply->str);
	*why_out = end + 2;
	return all || (own && own + size - 2 < end);
}

static bool was_heard(const struct lk__ear *ear, const char *request)
{
	for (size_t i = 0; i < LK__EAR_HEARD; i++)
		if (strcmp(ear->heard[i], request) == 0)
			return true;
	return false;
}

static void look_take(const struct look *look, const struct lk__request *request)
{
	struct lk__entry *entry = look->entry;
	struct lk__ear *ear = entry_ear(entry);
	char field[LK__FIELD_SIZE], heard[40];
	const char *why;
	if (!ear || entry->grant.number != look->number || !request->reply)
		return;
	lk__field(entry, look->number, field);
	if (!request_read(request->reply, field, heard, &why) || was_heard(ear, heard))
		return;
	memcpy(ear->heard[ear->hears++ % LK__EAR_HEARD], heard, sizeof(heard));
	lk__notices_ask(entry->client, entry->hold, why);
}

static void look_finish(struct lk__request *request)
{
	struct look *look = request->owner;
	pthread_mutex_lock(&look->entry->mutex);
	look_take(look, request);
	pthread_mutex_unlock(&look->entry->mutex);
	lk__entry_unref(look->entry);
	lk__request_free(request);
	free(look);
}

void lk__ear_look(struct lk__entry *entry)
{
	struct lk__words words = {.count = 0};
	size_t size = 0;
	if (!entry_ear(entry))
		return;
	struct look *look = malloc(sizeof(*look));
	lk__words_text(&words, "GET");
	char *name = ask_name(entry, &size);
	lk__words_own(&words, name, size);
	struct lk__request *request = lk__words_command(&words);
	if (!look || !request) { /* the next renewal looks again */
		lk__request_free(request);
		free(look);
		return;
	}
	lk__entry_ref(entry);
	*look = (struct look){entry, entry->grant.number};
	request->owner = look;
	request->finish = look_finish;
	request->question = request->resend = true; /* or a new connection would drop it */
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    entry->client->config->command_timeout_ms);
	lk__conn_submit(lk__node_work(lk__entry_node(entry)), request);
}

/* ---- who asks ---- */

struct lk__request *lk__ask_request(const struct lk__target *target, const char *why)
{
	uint64_t random[2] = {0};
	char name[40];
	if (lk__random_bytes(random, sizeof(random)) < 0)
		random[0] = (uint64_t)lk__now_ns();
	snprintf(name, sizeof(name), "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
	return lk__ask_send(target, name, why, LK__ASK_TTL_MS);
}
