/* SPDX-License-Identifier: MIT */
/* The operation of a watch: what tells of a name, the look at one that has changed, and what
 * differs from the look before, as changes. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/watch_look.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/node.h"
#include "conn/request.h"
#include "lock/client.h"
#include "lock/loop.h"
#include "sync/recipes.h"

#define SETTLE_NS (250 * LK__MS)  /* tracking begins within it; else the first look is not told */
#define PAUSE_NS (250 * LK__MS)   /* between looks while the server cannot be reached */
#define ALIVE_NS (30000 * LK__MS) /* between looks where nothing is told */
#define BEHIND_NS (2 * LK__MS)    /* the end of a lease is looked at so much later */
#define LATE_NS (2000 * LK__MS)   /* later than that a look does not show how a lease ended */
#define SYNC_NS (250 * LK__MS)
#define LOOKS_MOST 20 /* at a key that changes between two questions about it */
#define FLUSHED (1u << LK__TRACKING_FLUSHED) /* among the news: all keys there are gone */
#define LOST "the connection that tells was lost"

/* ---- what tells of a name ---- */

/* Under the mutex of the node's connection for subscriptions. */
static void watched_tell(struct lk__tracker *tracker, enum lk__tracking_news news,
			 struct lk__deferred *after)
{
	struct lk__watched *watched = (struct lk__watched *)((char *)tracker -
							     offsetof(struct lk__watched, tracker));
	struct lk__thread *thread = atomic_load(&watched->watch->thread);
	int64_t never = 0;
	atomic_compare_exchange_strong(&watched->touched_ns, &never, lk__now_ns());
	atomic_fetch_or(&watched->news, 1u << news);
	if (thread)
		lk__after_wake(after, thread);
}

struct lk__watched *lk__watched_new(lk_watch *watch, const char *name, size_t size)
{
	const char *prefix = watch->client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	struct lk__watched *watched = calloc(1, sizeof(*watched) + prefix_size + size + 1);
	if (!watched)
		return NULL;
	memcpy(mempcpy(watched->key, prefix, prefix_size), name, size);
	watched->key_size = prefix_size + size;
	watched->name_at = prefix_size;
	watched->watch = watch;
	watched->type = "none";
	watched->prefix = LK__LOCK_CHANNEL_PREFIX;
	watched->tracker.tell = watched_tell;
	return watched;
}

static void ear_close(struct lk__watched *watched, struct lk__watch_ear *ear)
{
	if (ear->listening)
		lk__channel_close(&watched->node->messages, ear->listening);
	ear->listening = NULL;
}

static void watched_deafen(struct lk__watched *watched)
{
	ear_close(watched, &watched->release);
	ear_close(watched, &watched->broken);
}

static void holders_free(struct lk__watch_holders *holders)
{
	for (size_t i = 0; i < holders->count; i++) {
		free(holders->of[i].field);
		lk__owner_free(holders->of[i].record);
	}
	free(holders->of);
}

static void watched_leave(struct lk__watched *watched)
{
	if (!watched->node)
		return;
	watched_deafen(watched);
	if (watched->tracker.of)
		lk__tracker_end(&watched->tracker, watched->node);
	watched->node = NULL;
}

void lk__watched_free(struct lk__watched *watched)
{
	watched_leave(watched);
	holders_free(&watched->holders);
	free(watched);
}

static void ear_mark(const struct lk__watched *watched, struct lk__watch_ear *ear)
{
	if (ear->listening)
		lk__channel_mark(&watched->node->messages, ear->listening, &ear->next);
}

/* Without memory for it an end is told as unknown. */
static void ear_open(struct lk__watched *watched, struct lk__watch_ear *ear, const char *suffix)
{
	size_t size;
	char *name = lk__derived_name(watched->prefix, watched->key, watched->key_size, &size);
	size_t suffix_size = strlen(suffix);
	char *whole = name ? malloc(size + suffix_size + 1) : NULL;
	if (whole) {
		memcpy(mempcpy(whole, name, size), suffix, suffix_size + 1);
		ear->listening = lk__channel_open(&watched->node->messages, whole,
						  size + suffix_size, NULL, NULL);
		ear_mark(watched, ear);
		ear->mark = ear->next;
	}
	free(whole);
	free(name);
}

/* Who is woken when something is told; NULL: nobody. */
static void watched_wakes(struct lk__watched *watched, struct lk__thread *thread)
{
	struct lk__watch_ear *const ears[] = {&watched->release, &watched->broken};
	for (int i = 0; i < 2; i++)
		if (ears[i]->listening)
			lk__channel_listener(&watched->node->messages, ears[i]->listening, thread);
}

static void watched_hear(struct lk__watched *watched)
{
	if (!watched->prefix)
		return;
	if (!watched->release.listening)
		ear_open(watched, &watched->release, "");
	if (!watched->broken.listening)
		ear_open(watched, &watched->broken, LK__BROKEN);
	watched_wakes(watched, atomic_load(&watched->watch->thread));
	lk__loop_attend(watched->watch->client);
}

/* Hears of its changes at the node that has it now. It was heard of elsewhere before where it has
 * moved. 0 or LK_ENOMEM. */
static int watched_listen(struct lk__watched *watched, struct lk__node *node, bool *moved_out)
{
	*moved_out = watched->node && watched->node != node;
	if (*moved_out)
		watched_leave(watched);
	watched->node = node;
	if (!watched->tracker.of &&
	    lk__tracker_begin(&watched->tracker, node, watched->key, watched->key_size) != 0)
		return LK_ENOMEM;
	watched_hear(watched);
	return 0;
}

/* The prefix of the channel on which a release of that kind is told. */
static const char *prefix_of(const char *type)
{
	static const struct {
		const char *type, *prefix;
	} kinds[] = {
		{"read/write lock", LK__RW_CHANNEL_PREFIX},
		{"permit semaphore", LK__SEMAPHORE_CHANNEL_PREFIX},
		{"semaphore", NULL}, /* who listens there decides what it looks like */
		{"latch", NULL},
		{"semaphore or latch", NULL},
		{"foreign semaphore", NULL},
		{"counter beside a lock", NULL},
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].type, type) == 0)
			return kinds[i].prefix;
	return LK__LOCK_CHANNEL_PREFIX;
}

static void watched_kind(struct lk__watched *watched, const char *type)
{
	const char *prefix = strcmp(type, "none") == 0 ? watched->prefix : prefix_of(type);
	if (prefix == watched->prefix ||
	    (prefix && watched->prefix && strcmp(prefix, watched->prefix) == 0))
		return;
	watched_deafen(watched);
	watched->prefix = prefix;
	watched_hear(watched);
}

/* A look is sent; watched_marked(): it is over. */
static void watched_mark(struct lk__watched *watched)
{
	ear_mark(watched, &watched->release);
	ear_mark(watched, &watched->broken);
}

static void watched_marked(struct lk__watched *watched)
{
	watched->release.mark = watched->release.next;
	watched->broken.mark = watched->broken.next;
}

/* Tells whether anything was heard since the look before was sent. */
static bool watch_ear_heard(const struct lk__watched *watched, const struct lk__watch_ear *ear)
{
	struct lk__watch_ear now = *ear;
	if (!ear->listening || ear->mark.listening != ear->listening)
		return false;
	ear_mark(watched, &now);
	return now.next.heard != ear->mark.heard;
}

/* Begins to make sure that what was published is heard; false: it cannot. */
static bool watched_sync(struct lk__watched *watched)
{
	bool begun = watched->broken.listening &&
		     lk__channel_sync(&watched->node->messages, watched->broken.listening);
	if (begun)
		lk__loop_attend(watched->watch->client);
	return begun;
}

static bool watched_synced(struct lk__watched *watched)
{
	return lk__channel_listens(&watched->node->messages, watched->broken.listening);
}

/* ---- changes ---- */

static struct lk__watch_holder *holder_find(const struct lk__watch_holders *holders,
					    const char *field, size_t size)
{
	for (size_t i = 0; i < holders->count; i++) {
		struct lk__watch_holder *holder = &holders->of[i];
		if (holder->size == size && memcmp(holder->field, field, size) == 0)
			return holder;
	}
	return NULL;
}

static bool is_among(const struct lk__watch_holder *holder, const struct lk__watch_holders *holders)
{
	return holder_find(holders, holder->field, holder->size);
}

static bool is_kept(const struct lk__watch_holder *holder)
{
	return memmem(holder->field, holder->size, ":kept:", 6) != NULL;
}

static size_t info_size(const lk_owner_info *info)
{
	return strlen(info->client_id) + strlen(info->host) + strlen(info->user) +
	       strlen(info->program) + strlen(info->note) + 5;
}

static const char *text_put(char **end, const char *text, size_t size)
{
	const char *at = *end;
	*end = mempcpy(*end, text, size);
	*(*end)++ = '\0';
	return at;
}

static const char *string_put(char **end, const char *text)
{
	return text_put(end, text, strlen(text));
}

static void info_put(char **end, lk_owner_info *info)
{
	info->client_id = string_put(end, info->client_id);
	info->host = string_put(end, info->host);
	info->user = string_put(end, info->user);
	info->program = string_put(end, info->program);
	info->note = string_put(end, info->note);
}

/* What one says of an owner; NULL: there is none. */
static size_t holder_size(const struct lk__watch_holder *holder, lk_owner_info *info, bool *knows)
{
	*knows = holder && holder->record &&
		 lk__owner_tell(holder->record, holder->field, holder->size, info);
	return (holder ? holder->size + 1 : 0) + (*knows ? info_size(info) : 0);
}

static int64_t left_ms(const struct lk__watch_holder *owner, int64_t now_ns)
{
	if (!owner || owner->low_ns == LK__NEVER)
		return -1;
	return owner->low_ns > now_ns ? (owner->low_ns - now_ns) / LK__MS : 0;
}

/* Puts a change behind the others, of which owner, was and reason may be NULL. */
static int change_add(struct lk__watched *watched, int kind, const struct lk__watch_holder *owner,
		      const struct lk__watch_holder *was, const char *reason)
{
	lk_watch *watch = watched->watch;
	lk_owner_info client, before;
	bool knows, knew;
	size_t size = watched->key_size + 1 + (reason ? strlen(reason) + 1 : 0) +
		      holder_size(owner, &client, &knows) + holder_size(was, &before, &knew);
	struct lk__change_item *item = calloc(1, sizeof(*item) + size);
	if (!item)
		return LK_ENOMEM;
	char *end = item->text;
	lk_change *change = &item->change;
	item->of = watched;
	change->kind = kind;
	change->told = kind == LK_CHANGE_GAP ? watched->told : watch->tracked;
	change->name = text_put(&end, watched->key + watched->name_at,
				watched->key_size - watched->name_at);
	change->name_size = watched->key_size - watched->name_at;
	change->type = watched->type;
	change->holder_count = watched->holders.count;
	change->ttl_ms = left_ms(owner, watch->received_ns);
	change->fence = watched->fence;
	change->is_counter = watched->is_counter;
	change->count = watched->count;
	if (owner) {
		change->owner = text_put(&end, owner->field, owner->size);
		change->owner_size = owner->size;
	}
	if (was) {
		change->was = text_put(&end, was->field, was->size);
		change->was_size = was->size;
	}
	if (knows) {
		item->client = client;
		info_put(&end, &item->client);
		change->client = &item->client;
	}
	if (knew) {
		item->was = before;
		info_put(&end, &item->was);
		change->was_client = &item->was;
	}
	if (reason)
		change->reason = string_put(&end, reason);
	if (kind != LK_CHANGE_GAP)
		change->at_ms = watch->look.time_ms;
	DL_APPEND(watch->changes, item);
	return 0;
}

/* What told broke. */
static int watch_gap(struct lk__watched *watched, const char *reason)
{
	watched->known = false;
	return watched->shown ? change_add(watched, LK_CHANGE_GAP, NULL, NULL, reason) : 0;
}

/* ---- how a hold ended ---- */

/* One look after another, without a break of what tells, and soon after the end of the lease. The
 * connection that would have told of another end is heard. */
static bool has_expired(const lk_watch *watch, const struct lk__watch_holder *was)
{
	const struct lk__watched *watched = watch->at;
	int64_t touched_ns = watch->touched_ns;
	if (touched_ns == 0)
		touched_ns = atomic_load(&watched->touched_ns);
	return watched->told && watch->tracked && watch->synced &&
	       watch->received_ns >= was->low_ns &&
	       (touched_ns == 0 || touched_ns >= was->low_ns) &&
	       watch->sent_ns < was->high_ns + LATE_NS;
}

/* What was told while the look was under way says so once. */
static bool was_flushed(struct lk__watched *watched)
{
	if (atomic_fetch_and(&watched->news, ~FLUSHED) & FLUSHED) {
		atomic_fetch_or(&watched->news, 1u << LK__TRACKING_TOUCHED);
		watched->flushed = true;
	}
	return watched->flushed;
}

static int how_ended(const lk_watch *watch, const struct lk__watch_holder *was)
{
	struct lk__watched *watched = watch->at;
	if (watch->overwritten || watch_ear_heard(watched, &watched->broken))
		return LK_CHANGE_BROKEN;
	if (watch_ear_heard(watched, &watched->release))
		return LK_CHANGE_RELEASED;
	if (has_expired(watch, was))
		return LK_CHANGE_EXPIRED;
	return was_flushed(watched) ? LK_CHANGE_LOST : LK_CHANGE_UNKNOWN;
}

/* Tells whether the look shows that holder still. */
static bool is_seen(const lk_lock_info *info, const struct lk__watch_holder *holder)
{
	for (size_t i = 0; i < info->holder_count; i++) {
		const lk_holder *seen = &info->holders[i];
		if (seen->field_size == holder->size &&
		    memcmp(seen->field, holder->field, holder->size) == 0)
			return true;
	}
	return false;
}

/* Tells whether a hold has ended, and it is to be found out how. */
static bool watch_asks_how(const lk_watch *watch)
{
	const struct lk__watched *watched = watch->at;
	for (size_t i = 0; watched->known && i < watched->holders.count; i++) {
		const struct lk__watch_holder *was = &watched->holders.of[i];
		if (!is_seen(&watch->info, was) && !is_kept(was) &&
		    !watch_ear_heard(watched, &watched->release))
			return true;
	}
	return false;
}

/* ---- what differs ---- */

static int64_t lease_end_ns(int64_t from_ns, int64_t ttl_ms)
{
	return ttl_ms < 0 ? LK__NEVER : lk__after_ms(from_ns, ttl_ms);
}

static struct lk__known_client *record_of(lk_watch *watch, size_t holder)
{
	for (size_t i = 0; i < watch->record_count; i++) {
		if (watch->record_of[i] != holder)
			continue;
		struct lk__known_client *record = watch->records[i];
		watch->records[i] = NULL;
		return record;
	}
	return NULL;
}

/* Copies what the look has shown. Of those that were there before, the records move. */
static int holders_new(lk_watch *watch, struct lk__watch_holders *holders)
{
	const lk_lock_info *info = &watch->info;
	*holders = (struct lk__watch_holders){
		.of = calloc(info->holder_count + 1, sizeof(*holders->of))};
	for (; holders->of && holders->count < info->holder_count; holders->count++) {
		const lk_holder *seen = &info->holders[holders->count];
		struct lk__watch_holder *holder = &holders->of[holders->count];
		holder->field = malloc(seen->field_size + 1);
		if (!holder->field)
			break;
		memcpy(holder->field, seen->field, seen->field_size);
		holder->size = seen->field_size;
		holder->role = seen->role;
		holder->low_ns = lease_end_ns(watch->sent_ns, seen->ttl_ms);
		holder->high_ns = lease_end_ns(watch->received_ns, seen->ttl_ms);
	}
	if (!holders->of || holders->count < info->holder_count) {
		holders_free(holders);
		return LK_ENOMEM;
	}
	for (size_t i = 0; i < holders->count; i++) {
		struct lk__watch_holder *holder = &holders->of[i];
		struct lk__watch_holder *was = holder_find(&watch->at->holders, holder->field,
							   holder->size);
		holder->record = was ? was->record : record_of(watch, i);
		if (was)
			was->record = NULL;
	}
	return 0;
}

/* The name as it was, and is. */
struct step {
	struct lk__watched *watched;
	struct lk__watch_holders before;
	struct lk__watch_holder *sole_gone, *sole_come; /* NULL: none, or several */
	size_t gone, come;
};

static bool is_exclusive(const struct lk__watch_holder *holder)
{
	return holder->role == LK_HOLDER_OWNER || holder->role == LK_HOLDER_WRITER;
}

static void step_count(struct step *step)
{
	const struct lk__watch_holders *before = &step->before, *now = &step->watched->holders;
	for (size_t i = 0; i < before->count; i++)
		if (!is_among(&before->of[i], now))
			step->sole_gone = step->gone++ ? NULL : &before->of[i];
	for (size_t i = 0; i < now->count; i++)
		if (!is_among(&now->of[i], before))
			step->sole_come = step->come++ ? NULL : &now->of[i];
}

/* One has it from another. Kept after its release, it is nobody's. */
static int step_passes(const struct step *step)
{
	const struct lk__watch_holder *was = step->sole_gone, *owner = step->sole_come;
	if (is_kept(owner))
		return change_add(step->watched,
				  is_kept(was) ? LK_CHANGE_UNKNOWN : LK_CHANGE_RELEASED, NULL, was,
				  NULL);
	return change_add(step->watched, LK_CHANGE_ACQUIRED, owner, is_kept(was) ? NULL : was,
			  NULL);
}

static int step_ends(const struct step *step, lk_watch *watch)
{
	int rc = 0;
	for (size_t i = 0; i < step->before.count && rc == 0; i++) {
		const struct lk__watch_holder *was = &step->before.of[i];
		if (!is_among(was, &step->watched->holders))
			rc = change_add(step->watched, how_ended(watch, was), NULL, was, NULL);
	}
	return rc;
}

static int step_begins(const struct step *step, const lk_watch *watch)
{
	int rc = 0;
	const struct lk__watch_holders *now = &step->watched->holders;
	for (size_t i = 0; i < now->count && rc == 0; i++) {
		const struct lk__watch_holder *owner = &now->of[i];
		const struct lk__watch_holder *was = holder_find(&step->before, owner->field,
								 owner->size);
		if (!was)
			rc = change_add(step->watched, LK_CHANGE_ACQUIRED, owner, NULL, NULL);
		else if (watch->renewals && was->high_ns < owner->low_ns)
			rc = change_add(step->watched, LK_CHANGE_RENEWED, owner, NULL, NULL);
	}
	return rc;
}

static int step_changes(struct step *step, lk_watch *watch)
{
	step_count(step);
	bool passes = step->sole_gone && step->sole_come && is_exclusive(step->sole_gone) &&
		      is_exclusive(step->sole_come);
	int rc = passes ? step_passes(step) : step_ends(step, watch);
	return rc || passes ? rc : step_begins(step, watch);
}

/* The state as such: what was before, only where one had it. */
static int step_state(const struct step *step)
{
	struct lk__watched *watched = step->watched;
	const struct lk__watch_holders *now = &watched->holders;
	const struct lk__watch_holder *was = step->before.count == 1 ? step->before.of : NULL;
	struct lk__change_item *first = watched->watch->changes ? watched->watch->changes->prev
								: NULL;
	int rc = 0;
	if (was && is_among(was, now))
		was = NULL;
	for (size_t i = 0; i < now->count && rc == 0; i++)
		rc = change_add(watched, LK_CHANGE_STATE, &now->of[i], was, NULL);
	if (now->count == 0)
		rc = change_add(watched, LK_CHANGE_STATE, NULL, was, NULL);
	if (rc == 0 && !watched->shown) {
		struct lk__change_item *item = first ? first->next : watched->watch->changes;
		for (; item; item = item->next)
			item->change.initial = 1;
		watched->shown = true;
	}
	return rc;
}

/* Makes changes of what the look has shown: 0 or LK_ENOMEM. */
static int watch_compare(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	const lk_lock_info *info = &watch->info;
	struct lk__watch_holders holders;
	bool known = watched->known;
	bool counts = info->is_counter && (!watched->is_counter || watched->count != info->count);
	if (holders_new(watch, &holders) != 0)
		return LK_ENOMEM;
	struct step step = {.watched = watched, .before = watched->holders};
	watched->holders = holders;
	watched->is_counter = info->is_counter;
	watched->count = info->count;
	watched->fence = info->fence;
	if (strcmp(info->type, "none") != 0)
		watched->type = info->type;
	int rc = known ? step_changes(&step, watch) : step_state(&step);
	watched->told = watch->tracked;
	if (rc == 0 && known && counts)
		rc = change_add(watched, LK_CHANGE_COUNT, NULL, NULL, NULL);
	watched->known = rc == 0;
	holders_free(&step.before);
	watched_kind(watched, info->type);
	return rc;
}

/* ---- the end of a look ---- */

static void watch_forget_look(lk_watch *watch)
{
	for (size_t i = 0; i < watch->record_count; i++)
		lk__owner_free(watch->records[i]);
	watch->record_count = 0;
	lk__look_forget(&watch->look);
	watch->look.key = NULL; /* the name's */
	watch->look.key_size = 0;
	watch->stage = LK__WATCH_REST;
	watch->at = NULL;
}

/* ---- the end of a call ---- */

/* 0: it goes on; 1: the time is up; or a code. */
static int watch_over(lk_watch *watch)
{
	int code = 0;
	if (atomic_load(&watch->client->state) != LK__CLIENT_OPEN)
		code = LK_ECLOSED;
	else if (lk__cancelled(watch->op.cancel) || (watch->stop && atomic_load(watch->stop)) ||
		 atomic_load(&watch->freed))
		code = LK_ECANCELLED;
	if (code)
		return lk__fail(watch->error, code, "watch: %s", lk_error_text(code));
	return lk__now_ns() >= watch->until_ns;
}

/* The look is given up: it is due again. */
static void watch_abandon(lk_watch *watch)
{
	struct lk__request *request = watch->op.request;
	if (watch->stage == LK__WATCH_REST)
		return;
	if (watch->asks && lk__op_leave(&watch->op, false, lk__request_forget))
		lk__request_free(request);
	watch->asks = false;
	watch->at->due_ns = 0;
	watch_forget_look(watch);
}

static int watch_end(lk_watch *watch, int rc)
{
	struct lk__watched *watched, *next;
	watch_abandon(watch);
	atomic_store(&watch->thread, NULL);
	HASH_ITER(hh, watch->names, watched, next)
	watched_wakes(watched, NULL);
	return rc < 0 ? rc : 0;
}

/* ---- asking ---- */

/* A look that is tracked is so over one connection: it is not sent over the next one. */
static int watch_ask(lk_watch *watch, struct lk__conn *conn, struct lk__request *request)
{
	if (!request)
		return lk__fail(watch->error, LK_ENOMEM, "watch: out of memory");
	int64_t until_ns = lk__after_ms(lk__now_ns(), watch->client->config->command_timeout_ms);
	request->question = true;
	request->return_unsent = conn->kind == LK__CONN_WORK;
	request->resend = request->patient = !request->return_unsent;
	request->deadline_ns = until_ns;
	watch->asks = true;
	lk__op_call(&watch->op, conn, request, until_ns);
	return LK__OP_WAITS;
}

/* False while it waits on. Else the request, which is done; NULL: it had no answer in time. */
static bool watch_answered(lk_watch *watch, struct lk__request **answer_out)
{
	watch->asks = !lk__op_ask_look(&watch->op, answer_out);
	return !watch->asks;
}

/* ---- the look ---- */

static bool may_be_told(const struct lk__watched *watched)
{
	return lk__node_may_track(watched->node);
}

/* Until when a name that was not looked at waits for tracking to begin. */
static int64_t settle_ns(const struct lk__watched *watched)
{
	const struct lk__node *node = watched->node;
	bool soon = node && may_be_told(watched) && !lk__tracking_is_on(&node->tracking);
	return soon ? lk__now_ns() + SETTLE_NS : 0;
}

/* What told of it is gone, whether that was told already or not. */
static bool is_deaf(const struct lk__watched *watched)
{
	return watched->known && watched->told &&
	       watched->generation != atomic_load(&watched->node->tracking.generation);
}

static int look_begin(lk_watch *watch, struct lk__watched *watched)
{
	struct lk__topo *topo = watch->client->topo;
	struct lk__node *node = lk__topo_node_of(topo, watched->key, watched->key_size);
	bool first = !watched->node, moved;
	int rc = watched_listen(watched, node, &moved);
	if (rc < 0)
		return lk__fail(watch->error, rc, "watch: out of memory");
	if (moved && watched->known)
		return watch_gap(watched, "another server has the key");
	if (is_deaf(watched))
		return watch_gap(watched, LOST);
	if (first || moved)
		watched->due_ns = settle_ns(watched);
	if (watched->due_ns)
		return 0;
	watch->at = watched;
	watch->stage = LK__WATCH_LOOK;
	watch->tracked = lk__tracking_is_on(&node->tracking) && may_be_told(watched);
	watch->look = (struct lk__look){
		.client = watch->client, .key = watched->key, .key_size = watched->key_size};
	watch->info = (lk_lock_info){.type = "none"};
	watch->overwritten = watch->syncs = watch->synced = false;
	watch->touched_ns = atomic_exchange(&watched->touched_ns, 0);
	watch->generation = atomic_load(&node->tracking.generation);
	watched_mark(watched);
	watch->sent_ns = lk__now_ns();
	return watch_ask(watch, watch->tracked ? &node->work : lk__node_scripts(node),
			 lk__look_request(&watch->look, watch->tracked));
}

/* It has no answer: what told of changes does so no more, unless that is known already. */
static int look_failed(lk_watch *watch, int code, const char *reason)
{
	struct lk__watched *watched = watch->at;
	watch_forget_look(watch);
	watched->due_ns = lk__now_ns() + PAUSE_NS;
	if (!lk_error_is_retryable(code))
		return lk__fail(watch->error, code, "watch \"%.100s\" on %.100s: %.160s",
				watched->key + watched->name_at, watch->client->config->url,
				reason);
	return watched->known ? watch_gap(watched, reason) : 0;
}

/* It was answered by the node, and over the connections, that it was meant for. */
static bool look_is_whole(const lk_watch *watch, const struct lk__request *request)
{
	const struct lk__node *node = watch->at->node;
	return request->redirects == 0 &&
	       watch->generation == atomic_load(&node->tracking.generation);
}

/* The server will not have it tracked: it is asked each poll_ms. */
static bool look_refused(const lk_watch *watch, const struct lk__request *request)
{
	const redisReply *reply = request->reply;
	return watch->tracked && reply && reply->type == REDIS_REPLY_ARRAY && reply->elements &&
	       reply->element[0]->type == REDIS_REPLY_ERROR;
}

/* Reads what is there: 0; 1: it became another between two questions; or a code. */
static int look_read(lk_watch *watch, lk_error *error)
{
	bool changed = false;
	int rc = lk__look_show(&watch->look, watch->tracked, &watch->info, &changed, error);
	if (changed)
		return 1;
	watch->overwritten = rc == LK_EWRONGTYPE;
	if (watch->overwritten)
		watch->info = (lk_lock_info){.type = "none"};
	return watch->overwritten || rc > 0 ? 0 : rc;
}

static int look_take(lk_watch *watch, struct lk__request *request)
{
	struct lk__watched *watched = watch->at;
	lk_error error = {0};
	watch->received_ns = lk__now_ns();
	if (look_refused(watch, request)) {
		if (look_is_whole(watch, request))
			lk__tracking_looked(watched->node, request);
		lk__request_free(request);
		watch_forget_look(watch);
		watched->due_ns = 0;
		return 0;
	}
	if (request->code) {
		char reason[160];
		int code = request->code == LK_EMAYBEHELD ? LK_EUNREACHABLE : request->code;
		snprintf(reason, sizeof(reason), "%s", request->reason);
		lk__request_free(request);
		return look_failed(watch, code, reason);
	}
	bool broken = watch->tracked && !look_is_whole(watch, request);
	watch->look.answers = request;
	if (broken)
		return look_failed(watch, LK_EUNREACHABLE, LOST);
	int rc = look_read(watch, &error);
	if (rc == 1 && ++watched->again < LOOKS_MOST) {
		watch_forget_look(watch);
		watched->due_ns = 0;
		return 0;
	}
	watched->again = 0;
	if (rc)
		return look_failed(watch, rc == 1 ? LK_EUNAVAILABLE : rc,
				   rc == 1 ? "the key changed at each look" : error.message);
	watch->stage = LK__WATCH_RECORD;
	watch->record_at = 0;
	return 0;
}

/* ---- who the new owners are ---- */

static int record_begin(lk_watch *watch)
{
	for (; watch->record_at < watch->info.holder_count; watch->record_at++) {
		const lk_holder *holder = &watch->info.holders[watch->record_at];
		char half[LK__CLIENT_HALF + 1];
		struct lk__node *node = NULL;
		if (watch->record_count == LK__WATCH_RECORDS_MAX ||
		    holder_find(&watch->at->holders, holder->field, holder->field_size) ||
		    !lk__owner_half(holder->field, holder->field_size, half))
			continue;
		struct lk__request *request = lk__owner_question(watch->client, half, &node);
		return watch_ask(watch, request ? lk__node_scripts(node) : NULL, request);
	}
	watch->stage = LK__WATCH_SYNC;
	return 0;
}

/* It is for people: what cannot be read is not told. */
static void record_take(lk_watch *watch, struct lk__request *request)
{
	size_t index = watch->record_at++;
	const lk_holder *holder = &watch->info.holders[index];
	char half[LK__CLIENT_HALF + 1];
	if (!request || request->code || !lk__owner_half(holder->field, holder->field_size, half))
		return;
	watch->record_of[watch->record_count] = index;
	watch->records[watch->record_count++] = lk__owner_read(half, request->reply);
}

/* ---- what comes of it ---- */

static int64_t first_end_ns(const struct lk__watched *watched)
{
	int64_t first_ns = LK__NEVER;
	for (size_t i = 0; i < watched->holders.count; i++)
		first_ns = lk__earlier(first_ns, watched->holders.of[i].high_ns);
	return first_ns == LK__NEVER ? first_ns : first_ns + BEHIND_NS;
}

static int look_end(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	int rc = watch_compare(watch);
	int64_t again_ns = watch->tracked ? ALIVE_NS : watch->poll_ms * LK__MS;
	int64_t soonest_ns = watch->received_ns + BEHIND_NS; /* a key stays behind its lease */
	int64_t end_ns = first_end_ns(watched);
	watched->due_ns = lk__earlier(watch->received_ns + again_ns,
				      end_ns > soonest_ns ? end_ns : soonest_ns);
	watched->flushed = false;
	watched->generation = watch->generation;
	watched_marked(watched);
	watch_forget_look(watch);
	return rc < 0 ? lk__fail(watch->error, rc, "watch: out of memory") : 0;
}

/* Waits, where a hold has ended, for what was published before the look. */
static int sync_step(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	int64_t now_ns = lk__now_ns();
	if (!watch->syncs) {
		watch->syncs = true;
		watch->sync_until_ns = now_ns + SYNC_NS;
		if (!watch_asks_how(watch) || !watched_sync(watched))
			return look_end(watch);
	}
	uint32_t generation = atomic_load(&watched->node->tracking.generation);
	watch->synced = watch->generation == generation && watched_synced(watched);
	if (watch->synced || now_ns >= watch->sync_until_ns)
		return look_end(watch);
	lk__op_wait(&watch->op, lk__earlier(watch->sync_until_ns, watch->until_ns));
	return LK__OP_WAITS;
}

/* ---- what was told ---- */

static int news_take(struct lk__watched *watched)
{
	unsigned news = atomic_exchange(&watched->news, 0);
	if (news & FLUSHED)
		watched->flushed = true;
	if (news)
		watched->due_ns = 0;
	if (!(news & (1u << LK__TRACKING_LOST)))
		return 0;
	watched->due_ns = settle_ns(watched);
	return watched->known && watched->told ? watch_gap(watched, LOST) : 0;
}

/* The name whose turn it is; NULL: none yet, and when. */
static struct lk__watched *watch_due(lk_watch *watch, int64_t *due_ns_out, int *rc_out)
{
	struct lk__watched *watched, *next, *due = NULL;
	int64_t now_ns = lk__now_ns();
	*due_ns_out = LK__NEVER;
	HASH_ITER(hh, watch->names, watched, next)
	{
		if (atomic_load(&watched->news))
			*rc_out |= news_take(watched);
		if (!due && watched->due_ns <= now_ns)
			due = watched;
		*due_ns_out = lk__earlier(*due_ns_out, watched->due_ns);
	}
	return due;
}

/* Looks at the next name, or sleeps. */
static int rest_step(lk_watch *watch)
{
	int64_t due_ns;
	int rc = 0;
	struct lk__watched *due = watch_due(watch, &due_ns, &rc);
	if (rc < 0)
		return lk__fail(watch->error, LK_ENOMEM, "watch: out of memory");
	if (watch->changes)
		return 0;
	if (due) {
		due->due_ns = 0;
		return look_begin(watch, due);
	}
	lk__op_wait(&watch->op, lk__earlier(due_ns, watch->until_ns));
	return LK__OP_WAITS;
}

/* ---- the operation ---- */

static int ask_step(lk_watch *watch)
{
	struct lk__request *answer = NULL;
	if (!watch_answered(watch, &answer))
		return LK__OP_WAITS;
	if (watch->stage == LK__WATCH_LOOK && !answer)
		return look_failed(watch, LK_EUNREACHABLE, "no answer within the command limit");
	if (watch->stage == LK__WATCH_LOOK)
		return look_take(watch, answer);
	record_take(watch, answer);
	lk__request_free(answer);
	return 0;
}

/* 0: there is more to do. */
static int stage_step(lk_watch *watch)
{
	if (watch->asks)
		return ask_step(watch);
	if (watch->stage == LK__WATCH_RECORD)
		return record_begin(watch);
	return watch->stage == LK__WATCH_SYNC ? sync_step(watch) : rest_step(watch);
}

static int watch_step(struct lk__op *op)
{
	lk_watch *watch = (lk_watch *)op;
	int rc = 0;
	while (rc == 0) {
		if (watch->changes && watch->stage == LK__WATCH_REST)
			return watch_end(watch, 0);
		rc = watch_over(watch);
		if (rc)
			break;
		rc = stage_step(watch);
	}
	return rc == LK__OP_WAITS ? rc : watch_end(watch, rc);
}

void lk__watch_begin(lk_watch *watch, struct lk__thread *thread, lk_cancel *cancel,
		     const _Atomic bool *stop, int64_t until_ns, lk_error *error)
{
	struct lk__watched *watched, *next;
	watch->stop = stop;
	watch->until_ns = until_ns;
	watch->error = error;
	lk__op_begin(&watch->op, watch_step, thread, cancel);
	atomic_store(&watch->thread, thread);
	HASH_ITER(hh, watch->names, watched, next)
	if (watched->node)
		watched_wakes(watched, thread);
}
