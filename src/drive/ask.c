/* SPDX-License-Identifier: MIT */
/* One command with an answer: queries, forced releases, extensions. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/caller.h"
#include "drive/watch.h"
#include "sync/script.h"

int lk__ask(lk_client *client, struct lk__conn *conn, struct lk__thread *thread,
	    struct lk__request *request, const char *what, int64_t until_ns, lk_error *error)
{
	const char *node = client->config->url;
	if (!request)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", what);
	request->resend = true;
	request->deadline_ns = until_ns;
	int rc = lk__conn_call(conn, request, thread, until_ns, NULL);
	if (rc != LK__WAIT_READY && lk__conn_leave(conn, request, lk__request_forget))
		return lk__fail(error, rc < 0 ? rc : LK_EMAYBEHELD,
				"%s on %.100s: no answer within the limit", what, node);
	rc = request->code;
	if (rc) {
		lk__fail(error, rc, "%s on %.100s: %s", what, node, request->reason);
		lk__request_free(request);
		return rc;
	}
	return LK__WAIT_READY;
}

int lk__caller_ask(struct lk__entry *entry, struct lk__thread *thread, struct lk__request *request,
		   const char *operation, int64_t until_ns, lk_error *error)
{
	char what[192];
	snprintf(what, sizeof(what), "%s \"%.100s\"", operation, entry->name);
	return lk__ask(entry->client, entry->scripts, thread, request, what, until_ns, error);
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

/* 1 extended, 0 not ours any more, or a code. */
static int extend_ask(struct lk__entry *entry, struct lk__thread *thread, uint64_t number,
		      int64_t lease_ms, int64_t until_ns, int64_t *sent_ns, lk_error *error)
{
	char field[LK__FIELD_SIZE];
	if (entry->ops)
		return entry->ops->extend(entry, thread, number, lease_ms, until_ns, sent_ns,
					  error);
	lk__field(entry, number, field);
	struct lk__renewal renewal = {
		.target = &entry->target, .field = field, .lease_ms = lease_ms};
	struct lk__request *request = entry->recipe->renew(&renewal, 1);
	int rc = lk__caller_ask(entry, thread, request, "extend", until_ns, error);
	if (rc < 0)
		return rc;
	rc = lk__reply_renewed(request, 1, 0, field);
	*sent_ns = request->sent_ns;
	lk__request_free(request);
	return rc >= 0 ? rc
		       : lk__fail(error, LK_EMAYBEHELD,
				  "extend \"%.100s\": no answer says whether it was done",
				  entry->name);
}

int lk__caller_extend(struct lk__entry *entry, struct lk__thread *thread,
		      const struct lk__owner *owner, int64_t lease_ms, lk_error *error)
{
	int64_t sent_ns = 0;
	int code;
	pthread_mutex_lock(&entry->mutex);
	struct lk__hold *hold = extend_hold(entry, owner, &code);
	uint64_t number = hold ? hold->number : 0;
	int64_t until_ns = hold ? lk__hold_deadline(hold) : 0;
	int64_t outlives_ns = lk__after_ms(lk__now_ns(), lease_ms);
	if (hold && entry->grant.outlives_ns < outlives_ns)
		entry->grant.outlives_ns = outlives_ns;
	pthread_mutex_unlock(&entry->mutex);
	if (code)
		return lk__fail(error, code, "extend \"%.100s\": %s", entry->name,
				lk_error_text(code));
	int rc = extend_ask(entry, thread, number, lease_ms, until_ns, &sent_ns, error);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&entry->mutex);
	rc = extend_read(entry, owner, number, lease_ms, sent_ns, rc == 1);
	pthread_mutex_unlock(&entry->mutex);
	return rc ? lk__fail(error, rc, "extend \"%.100s\": %s", entry->name, lk_error_text(rc))
		  : 0;
}
