/* SPDX-License-Identifier: MIT */
#include "lock/extend.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lock/entry.h"
#include "lock/hold.h"
#include "lock/operation.h"
#include "sync/script.h"

/* ---- its parts ---- */

/* The hold that is to be extended; NULL with a code. */
static struct lk__hold *extend_hold(struct lk__entry *entry, const struct lk__owner *owner,
				    int *code)
{
	struct lk__hold *hold = lk__entry_hold_of(entry, owner);
	if (hold && !hold->lost && lk__now_ns() >= lk__hold_deadline(hold)) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
	}
	*code = !hold ? LK_ENOTOWNER : hold->lost ? LK_ELOST : 0;
	return *code ? NULL : hold;
}

/* The hold still is what it was, and the answer has come: `renewed`, or not ours any more. */
static int extend_note(struct lk__entry *entry, const struct lk__owner *owner,
		       const struct lk__extension *extension, bool renewed)
{
	int code;
	struct lk__hold *hold = extend_hold(entry, owner, &code);
	if (!hold || hold->number != extension->number) {
		if (renewed)
			lk__entry_release_unheld(entry, extension->number);
		return code ? code : LK_ENOTOWNER;
	}
	if (!renewed) {
		lk__entry_lose(entry, lk__now_ns());
		lk__entry_promote(entry);
		return LK_ELOST;
	}
	int64_t end_ns = lk__lease_end_ns(extension->sent_ns, extension->lease_ms);
	entry->grant.valid_until_ns = lk__later(entry->grant.valid_until_ns, end_ns);
	if (!hold->watched && end_ns > hold->own_until_ns)
		hold->own_until_ns = end_ns;
	hold->warned = false;
	entry->grant.seen_ns = extension->sent_ns;
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
		entry->grant.outlives_ns = lk__later(entry->grant.outlives_ns, outlives_ns);
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
	char what[192];
	snprintf(what, sizeof(what), "extend \"%.100s\"", entry->name);
	int rc = lk__ask_read(entry->client, request, what, error);
	if (rc < 0)
		return rc;
	rc = lk__reply_renewed(request, 1, 0);
	extension->sent_ns = request->sent_ns;
	return rc >= 0 ? rc
		       : lk__fail(error, LK_EMAYBEHELD,
				  "extend \"%.100s\": no answer says whether it was done",
				  entry->name);
}

/* A hold that is over by now is lost, whatever stood in the way: LK_ELOST, with that as the reason.
 * LK_EMAYBEHELD and LK_ECLOSED stay. */
static int extend_failed(struct lk__entry *entry, const struct lk__owner *owner, int rc,
			 lk_error *error)
{
	int code;
	char why[160];
	pthread_mutex_lock(&entry->mutex);
	extend_hold(entry, owner, &code);
	pthread_mutex_unlock(&entry->mutex);
	bool explained = rc == LK_EMAYBEHELD || rc == LK_ELOST || rc == LK_ECLOSED;
	if (explained || code != LK_ELOST)
		return rc;
	snprintf(why, sizeof(why), "%.159s", error ? error->message : "");
	return lk__fail(error, LK_ELOST, "extend \"%.100s\": its hold ended meanwhile: %s",
			entry->name, why);
}

int lk__extend_end(struct lk__entry *entry, const struct lk__owner *owner,
		   const struct lk__extension *extension, int answer, lk_error *error)
{
	if (answer < 0)
		return extend_failed(entry, owner, answer, error);
	pthread_mutex_lock(&entry->mutex);
	int rc = extend_note(entry, owner, extension, answer == 1);
	pthread_mutex_unlock(&entry->mutex);
	return rc ? lk__fail(error, rc, "extend \"%.100s\": %s", entry->name, lk_error_text(rc))
		  : 0;
}

/* ---- the operation ---- */

static int extend_look(struct lk__extending *extending)
{
	struct lk__entry *entry = extending->entry;
	struct lk__request *answer;
	if (!lk__op_ask_look(&extending->op, &answer))
		return LK__OP_WAITS;
	int rc = lk__extend_read(entry, &extending->extension, answer, extending->error);
	lk__request_free(answer);
	return rc;
}

static int extend_ask(struct lk__extending *extending)
{
	struct lk__entry *entry = extending->entry;
	struct lk__request *request = lk__extend_request(entry, &extending->extension);
	if (!request)
		return lk__fail(extending->error, LK_ENOMEM, "extend \"%.100s\": out of memory",
				entry->name);
	extending->look = extend_look;
	lk__op_ask(&extending->op, lk__entry_scripts(entry), request,
		   extending->extension.until_ns);
	return LK__OP_WAITS;
}

static int extend_connect_look(struct lk__extending *extending)
{
	return lk__op_connect_look(&extending->op, 0, NULL) == LK__OP_WAITS ? LK__OP_WAITS
									    : extend_ask(extending);
}

/* A client of a cluster has to know first which replicas must acknowledge. */
static int extend_send(struct lk__extending *extending)
{
	struct lk__entry *entry = extending->entry;
	const struct lk__quorum *quorum = lk__entry_quorum(entry);
	if (quorum)
		return quorum->holds->extend(extending);
	if (!entry->client->topo->slotted ||
	    !lk__op_connect(&extending->op, lk__entry_scripts(entry), true,
			    extending->extension.until_ns))
		return extend_ask(extending);
	extending->look = extend_connect_look;
	return LK__OP_WAITS;
}

static int extending_step(struct lk__op *op)
{
	struct lk__extending *extending = (struct lk__extending *)op;
	struct lk__entry *entry = extending->entry;
	int rc;
	if (extending->look) {
		rc = extending->look(extending);
	} else {
		rc = lk__extend_begin(entry, &extending->owner, extending->extension.lease_ms,
				      &extending->extension, extending->error);
		if (rc == 0)
			rc = extend_send(extending);
	}
	if (rc == LK__OP_WAITS)
		return rc;
	return lk__extend_end(entry, &extending->owner, &extending->extension, rc,
			      extending->error);
}

void lk__extend_init(struct lk__extending *extending, struct lk__entry *entry,
		     struct lk__thread *thread, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error)
{
	lk__op_begin(&extending->op, extending_step, thread, NULL);
	extending->entry = entry;
	extending->owner = *owner;
	extending->extension.lease_ms = lease_ms;
	extending->look = NULL;
	extending->error = error;
}
