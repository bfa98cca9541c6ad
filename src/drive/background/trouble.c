/* SPDX-License-Identifier: MIT */
#include "drive/background/trouble.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/classify.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "drive/background/due.h"

/* ---- what stands in the way ---- */

/* Where "… of URL: reason", "URL: reason" or "place: reason" goes on. */
static const char *behind(const char *text, const char *prefix)
{
	size_t size = strlen(prefix);
	return size > 0 && strncmp(text, prefix, size) == 0 ? text + size : text;
}

/* The reason without the server, which is told beside it. */
static const char *reason_alone(const char *reason, const char *place, const char *url)
{
	const char *at = behind(reason, place);
	at = at > reason ? behind(at, " of ") : at;
	at = behind(at, url);
	const char *alone = behind(at, ": ");
	return alone > at && at > reason ? alone : reason;
}

static void trouble_fill(struct lk__trouble *trouble, struct lk__node *node, int code,
			 const char *reason)
{
	trouble->code = code;
	lk__node_place_at(node, atomic_load(&node->epoch), trouble->place);
	snprintf(trouble->reason, sizeof(trouble->reason), "%s",
		 reason_alone(reason, trouble->place, node->config->url));
}

/* A renewal without an answer leaves nothing unknown that the caller need know of. */
static int code_of(const char *error)
{
	int code = lk__classify(error);
	return code == LK_EMAYBEHELD ? LK_EREFUSED : code;
}

void lk__trouble_read(struct lk__trouble *trouble, const struct lk__request *request)
{
	const char *reason = request->reason;
	int code = request->code;
	if (!code) {
		code = LK_EPROTOCOL;
		reason = "the answer does not say whether it was renewed";
	} else if (code == LK_EMAYBEHELD) {
		bool refused = request->reply && request->reply->type == REDIS_REPLY_ERROR;
		code = refused ? code_of(request->reply->str) : LK_EUNREACHABLE;
	}
	trouble_fill(trouble, request->conn->node, code, reason);
}

void lk__trouble_of_node(struct lk__trouble *trouble, struct lk__node *node)
{
	struct lk__fault fault;
	lk__conn_fault(&node->work, &fault);
	trouble_fill(trouble, node, fault.code, fault.reason);
}

/* ---- what is told of it ---- */

/* The thread that takes the notices reads it. */
static void trouble_set(struct lk__hold *hold, const struct lk__trouble *trouble)
{
	lk_client *client = hold->entry->client;
	pthread_mutex_lock(&client->notices.mutex);
	if (!hold->told)
		hold->told = calloc(1, sizeof(*hold->told));
	if (hold->told)
		hold->told->trouble = *trouble;
	pthread_mutex_unlock(&client->notices.mutex);
}

void lk__trouble_note(struct lk__hold *hold, const struct lk__trouble *trouble)
{
	trouble_set(hold, trouble);
	hold->in_trouble = true;
}

void lk__trouble_over(struct lk__hold *hold)
{
	hold->in_trouble = false; /* what was told of it stays, for a notice that nobody has read */
}

/* Why the watchdog leaves it alone. */
static const char *unrenewed(const struct lk__hold *hold, int64_t now_ns)
{
	if (hold->abandoned)
		return "the thread that acquired it has ended";
	if (atomic_load(&hold->entry->client->state) != LK__CLIENT_OPEN)
		return "the client is closed";
	if (lk__hold_is_too_long(hold, now_ns))
		return "max_hold_ms is over";
	return "its lease was named, and nobody has extended it";
}

/* A server has said it. */
static void trouble_lost(struct lk__trouble *trouble, const struct lk__entry *entry)
{
	bool spreads = entry->spreads;
	trouble->code = LK_ELOST;
	if (!spreads && entry->grant.node)
		lk__node_place_at(entry->grant.node, entry->grant.epoch, trouble->place);
	snprintf(trouble->reason, sizeof(trouble->reason), "%s does not have it any more",
		 spreads ? "a majority" : "the server");
}

static void trouble_unanswered(struct lk__trouble *trouble, const struct lk__entry *entry)
{
	if (!entry->spreads) {
		lk__trouble_of_node(trouble, lk__entry_node(entry));
		return;
	}
	trouble->code = LK_ENOQUORUM;
	snprintf(trouble->reason, sizeof(trouble->reason), "no majority has confirmed it yet");
}

void lk__trouble_explain(struct lk__entry *entry, int64_t now_ns, bool ends)
{
	struct lk__hold *hold = entry->hold;
	struct lk__trouble trouble = {.code = 0};
	assert(hold && !hold->lost);
	if (ends && now_ns < lk__hold_deadline(hold))
		trouble_lost(&trouble, entry);
	else if (!lk__hold_is_renewed(hold, now_ns))
		snprintf(trouble.reason, sizeof(trouble.reason), "%s", unrenewed(hold, now_ns));
	else if (hold->in_trouble)
		return;
	else if (entry->renewing)
		trouble_unanswered(&trouble, entry);
	else
		snprintf(trouble.reason, sizeof(trouble.reason),
			 "this process did not run in time to renew it");
	trouble_set(hold, &trouble);
}
