/* SPDX-License-Identifier: MIT */
/* One command with an answer: queries, forced releases, extensions. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/entry/spares.h"
#include "drive/lock/caller.h"
#include "drive/background/due.h"
#include "sync/script.h"

/* A question leaves nothing behind that may be held: either the server has refused it, in words
 * that we do not know, or no answer came. */
static int ask_code(const struct lk__request *request, int code)
{
	if (!request->question || code != LK_EMAYBEHELD)
		return code;
	return request->reply ? LK_EREFUSED : LK_EUNREACHABLE;
}

int lk__ask_read(const lk_client *client, const struct lk__request *request, const char *what,
		 lk_error *error)
{
	const char *node = client->config->url;
	if (!request)
		return lk__fail(error, LK_EMAYBEHELD, "%s on %.100s: no answer within the limit",
				what, node);
	return request->code ? lk__fail(error, ask_code(request, request->code), "%s on %.100s: %s",
					what, node, request->reason)
			     : LK__WAIT_READY;
}

struct lk__request *lk__question(struct lk__request *request)
{
	if (request)
		request->question = true;
	return request;
}

int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error)
{
	const char *node = client->config->url;
	if (!request)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", what);
	request->resend = request->patient = true;
	request->deadline_ns = until_ns;
	int unanswered = ask_code(request, LK_EMAYBEHELD);
	int rc = lk__conn_call(conn, request, thread, until_ns, NULL);
	if (rc != LK__WAIT_READY)
		lk__conn_hurry(request);
	if (rc != LK__WAIT_READY && lk__conn_leave(request, lk__request_forget))
		return lk__fail(error, rc < 0 ? rc : unanswered,
				"%s on %.100s: no answer within the limit", what, node);
	rc = lk__ask_read(client, request, what, error);
	if (rc < 0)
		lk__request_free(request);
	return rc;
}

void lk__ask_route(const struct lk__entry *entry, struct lk__thread *thread, int64_t until_ns)
{
	if (entry->client->topo->slotted)
		lk__conn_ready(lk__entry_scripts(entry), thread, true, until_ns, NULL, NULL);
}

int lk__caller_ask(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		   const char *operation, int64_t until_ns, lk_error *error)
{
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", operation, entry->name);
	if (request && request->durable)
		lk__ask_route(entry, thread, until_ns);
	return lk__ask(entry->client, lk__entry_scripts(entry), thread, request, what, until_ns,
		       error);
}

/* The hold that is to be extended; NULL with a code. */
static struct lk__hold *extend_hold(struct lk__entry *entry, const struct lk__owner *owner,
				    int *code)
{
	struct lk__hold *hold = lk__entry_hold_of(entry, owner);
	if (hold && !hold->lost && lk__now_ns() >= lk__hold_deadline(hold))
		lk__entry_lose(entry, lk__now_ns());
	*code = !hold ? LK_ENOTOWNER : hold->lost ? LK_ELOST : 0;
	return *code ? NULL : hold;
}

/* The hold still is what it was, and the answer has come: `renewed`, or not ours any more. */
static int extend_read(struct lk__entry *entry, const struct lk__owner *owner, uint64_t number,
		       int64_t lease_ms, int64_t sent_ns, bool renewed)
{
	int code;
	struct lk__hold *hold = extend_hold(entry, owner, &code);
	if (!hold || hold->number != number)
		return code ? code : LK_ENOTOWNER;
	if (!renewed) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
		return LK_ELOST;
	}
	int64_t end_ns = lk__lease_end_ns(sent_ns, lease_ms);
	if (end_ns > entry->grant.valid_until_ns)
		entry->grant.valid_until_ns = end_ns;
	if (!hold->watched && end_ns > hold->own_until_ns)
		hold->own_until_ns = end_ns;
	hold->warned = false;
	entry->grant.seen_ns = sent_ns;
	lk__watch_hold(entry, lk__now_ns());
	return 0;
}

int lk__extend_begin(struct lk__entry *entry, const struct lk__owner *owner, int64_t lease_ms,
		     struct lk__extension *extension, lk_error *error)
{
	int code;
	pthread_mutex_lock(&entry->mutex);
	const struct lk__hold *hold = extend_hold(entry, owner, &code);
	if (hold && !lk__compensation_reserve(entry))
		code = LK_ENOMEM;
	if (!code) {
		int64_t outlives_ns = lk__after_ms(lk__now_ns(), lease_ms);
		*extension = (struct lk__extension){.number = hold->number,
						    .lease_ms = lease_ms,
						    .until_ns = lk__hold_deadline(hold)};
		lk__field(entry, hold->number, extension->field);
		if (entry->grant.outlives_ns < outlives_ns)
			entry->grant.outlives_ns = outlives_ns;
	}
	pthread_mutex_unlock(&entry->mutex);
	return code ? lk__fail(error, code, "extend \"%.100s\": %s", entry->name,
			       lk_error_text(code))
		    : 0;
}

struct lk__request *lk__extend_request(const struct lk__entry *entry,
				       const struct lk__extension *extension)
{
	struct lk__renewal renewal = {.target = &entry->target,
				      .field = extension->field,
				      .lease_ms = extension->lease_ms};
	return entry->target.recipe->renew(&renewal, 1);
}

int lk__extend_read(const struct lk__entry *entry, struct lk__extension *extension,
		    const struct lk__request *request, lk_error *error)
{
	int rc = lk__reply_renewed(request, 1, 0);
	extension->sent_ns = request->sent_ns;
	return rc >= 0 ? rc
		       : lk__fail(error, LK_EMAYBEHELD,
				  "extend \"%.100s\": no answer says whether it was done",
				  entry->name);
}

int lk__extend_end(struct lk__entry *entry, const struct lk__owner *owner,
		   const struct lk__extension *extension, bool renewed, lk_error *error)
{
	pthread_mutex_lock(&entry->mutex);
	int rc = extend_read(entry, owner, extension->number, extension->lease_ms,
			     extension->sent_ns, renewed);
	pthread_mutex_unlock(&entry->mutex);
	return rc ? lk__fail(error, rc, "extend \"%.100s\": %s", entry->name, lk_error_text(rc))
		  : 0;
}

int lk__extend_ask(struct lk__entry *entry, struct lk__thread *thread,
		   struct lk__extension *extension, lk_error *error)
{
	struct lk__request *request = lk__extend_request(entry, extension);
	int rc = lk__caller_ask(entry, thread, request, "extend", extension->until_ns, error);
	if (rc < 0)
		return rc;
	rc = lk__extend_read(entry, extension, request, error);
	lk__request_free(request);
	return rc;
}

int lk__caller_extend(struct lk__entry *entry, struct lk__thread *thread,
		      const struct lk__owner *owner, int64_t lease_ms, lk_error *error)
{
	struct lk__extension extension;
	int rc = lk__extend_begin(entry, owner, lease_ms, &extension, error);
	if (rc == 0)
		rc = entry->policy->extend(entry, thread, &extension, error);
	return rc < 0 ? rc : lk__extend_end(entry, owner, &extension, rc == 1, error);
}
