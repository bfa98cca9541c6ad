/* SPDX-License-Identifier: MIT */
#include "drive/lock/ask.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"

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
		lk__conn_ready(lk__entry_scripts(entry), thread, true, until_ns, NULL);
}

int lk__ask_entry(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		  const char *operation, int64_t until_ns, lk_error *error)
{
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", operation, entry->name);
	if (request && request->durable)
		lk__ask_route(entry, thread, until_ns);
	return lk__ask(entry->client, lk__entry_scripts(entry), thread, request, what, until_ns,
		       error);
}
