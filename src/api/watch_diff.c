/* SPDX-License-Identifier: MIT */
/* The differences between two looks at a name, as changes. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "api/watch.h"
#include "base/clock.h"
#include "base/fail.h"

#define LATE_NS (2000 * LK__MS) /* a look so long after the end of a lease says nothing of it */

/* ---- what is known ---- */

void lk__watched_forget(struct lk__watched *watched)
{
	for (size_t i = 0; i < watched->holder_count; i++) {
		free(watched->holders[i].field);
		lk__owner_free(watched->holders[i].record);
	}
	free(watched->holders);
	watched->holders = NULL;
	watched->holder_count = 0;
}

struct lk__watch_holder *lk__watched_find(struct lk__watched *watched, const char *field,
					  size_t size)
{
	for (size_t i = 0; i < watched->holder_count; i++) {
		struct lk__watch_holder *holder = &watched->holders[i];
		if (holder->size == size && memcmp(holder->field, field, size) == 0)
			return holder;
	}
	return NULL;
}

static bool is_kept(const struct lk__watch_holder *holder)
{
	return memmem(holder->field, holder->size, ":kept:", 6) != NULL;
}

static const lk_holder *seen_find(const lk_lock_info *info, const struct lk__watch_holder *holder)
{
	for (size_t i = 0; i < info->holder_count; i++) {
		const lk_holder *seen = &info->holders[i];
		if (seen->field_size == holder->size &&
		    memcmp(seen->field, holder->field, holder->size) == 0)
			return seen;
	}
	return NULL;
}

/* ---- items ---- */

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
	change->holder_count = watched->holder_count;
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
	if (watch->look.time && kind != LK_CHANGE_GAP)
		change->at_ms = lk__look_time_ms(&watch->look);
	DL_APPEND(watch->changes, item);
	return 0;
}

int lk__watch_gap(struct lk__watched *watched, const char *reason)
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
	if (atomic_fetch_and(&watched->news, ~(unsigned)LK__NEWS_FLUSHED) & LK__NEWS_FLUSHED) {
		atomic_fetch_or(&watched->news, LK__NEWS_TOUCHED);
		watched->flushed = true;
	}
	return watched->flushed;
}

static int how_ended(const lk_watch *watch, const struct lk__watch_holder *was)
{
	struct lk__watched *watched = watch->at;
	if (watch->overwritten || lk__watch_ear_heard(watched, &watched->broken))
		return LK_CHANGE_BROKEN;
	if (lk__watch_ear_heard(watched, &watched->release))
		return LK_CHANGE_RELEASED;
	if (has_expired(watch, was))
		return LK_CHANGE_EXPIRED;
	return was_flushed(watched) ? LK_CHANGE_LOST : LK_CHANGE_UNKNOWN;
}

bool lk__watch_asks_how(const lk_watch *watch)
{
	const struct lk__watched *watched = watch->at;
	for (size_t i = 0; watched->known && i < watched->holder_count; i++) {
		const struct lk__watch_holder *was = &watched->holders[i];
		if (!seen_find(&watch->info, was) && !is_kept(was) &&
		    !lk__watch_ear_heard(watched, &watched->release))
			return true;
	}
	return false;
}

/* ---- what differs ---- */

static int64_t end_ns(int64_t from_ns, int64_t ttl_ms)
{
	return ttl_ms < 0 ? LK__NEVER : lk__after_ms(from_ns, ttl_ms);
}

static struct lk__known_client *record_take(lk_watch *watch, size_t holder)
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
static int holders_new(lk_watch *watch, struct lk__watch_holder **holders_out)
{
	const lk_lock_info *info = &watch->info;
	struct lk__watch_holder *holders = calloc(info->holder_count + 1, sizeof(*holders));
	if (!holders)
		return LK_ENOMEM;
	for (size_t i = 0; i < info->holder_count; i++) {
		const lk_holder *seen = &info->holders[i];
		struct lk__watch_holder *holder = &holders[i];
		holder->field = malloc(seen->field_size + 1);
		if (!holder->field) {
			while (i--)
				free(holders[i].field);
			free(holders);
			return LK_ENOMEM;
		}
		memcpy(holder->field, seen->field, seen->field_size);
		holder->size = seen->field_size;
		holder->role = seen->role;
		holder->low_ns = end_ns(watch->sent_ns, seen->ttl_ms);
		holder->high_ns = end_ns(watch->received_ns, seen->ttl_ms);
	}
	for (size_t i = 0; i < info->holder_count; i++) {
		struct lk__watch_holder *was = lk__watched_find(watch->at, holders[i].field,
								holders[i].size);
		holders[i].record = was ? was->record : record_take(watch, i);
		if (was)
			was->record = NULL;
	}
	*holders_out = holders;
	return 0;
}

/* The name as it was, and is. */
struct step {
	struct lk__watched *watched;
	struct lk__watch_holder *before;
	size_t before_count;
	struct lk__watch_holder *sole_gone, *sole_come; /* NULL: none, or several */
	size_t gone, come;
};

static struct lk__watch_holder *before_find(const struct step *step,
					    const struct lk__watch_holder *holder)
{
	for (size_t i = 0; i < step->before_count; i++) {
		struct lk__watch_holder *was = &step->before[i];
		if (was->size == holder->size && memcmp(was->field, holder->field, was->size) == 0)
			return was;
	}
	return NULL;
}

static bool is_exclusive(const struct lk__watch_holder *holder)
{
	return holder->role == LK_HOLDER_OWNER || holder->role == LK_HOLDER_WRITER;
}

static void step_count(struct step *step)
{
	struct lk__watched *watched = step->watched;
	for (size_t i = 0; i < step->before_count; i++) {
		if (lk__watched_find(watched, step->before[i].field, step->before[i].size))
			continue;
		step->sole_gone = step->gone++ ? NULL : &step->before[i];
	}
	for (size_t i = 0; i < watched->holder_count; i++) {
		if (before_find(step, &watched->holders[i]))
			continue;
		step->sole_come = step->come++ ? NULL : &watched->holders[i];
	}
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
	for (size_t i = 0; i < step->before_count && rc == 0; i++) {
		const struct lk__watch_holder *was = &step->before[i];
		if (!lk__watched_find(step->watched, was->field, was->size))
			rc = change_add(step->watched, how_ended(watch, was), NULL, was, NULL);
	}
	return rc;
}

static int step_begins(const struct step *step, const lk_watch *watch)
{
	int rc = 0;
	for (size_t i = 0; i < step->watched->holder_count && rc == 0; i++) {
		const struct lk__watch_holder *owner = &step->watched->holders[i];
		const struct lk__watch_holder *was = before_find(step, owner);
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
	const struct lk__watch_holder *was = step->before_count == 1 ? step->before : NULL;
	struct lk__change_item *first = watched->watch->changes ? watched->watch->changes->prev
								: NULL;
	int rc = 0;
	if (was && lk__watched_find(watched, was->field, was->size))
		was = NULL;
	for (size_t i = 0; i < watched->holder_count && rc == 0; i++)
		rc = change_add(watched, LK_CHANGE_STATE, &watched->holders[i], was, NULL);
	if (watched->holder_count == 0)
		rc = change_add(watched, LK_CHANGE_STATE, NULL, was, NULL);
	if (rc == 0 && !watched->shown) {
		struct lk__change_item *item = first ? first->next : watched->watch->changes;
		for (; item; item = item->next)
			item->change.initial = 1;
		watched->shown = true;
	}
	return rc;
}

int lk__watch_compare(lk_watch *watch)
{
	struct lk__watched *watched = watch->at;
	const lk_lock_info *info = &watch->info;
	struct lk__watch_holder *holders;
	int64_t count = watched->count;
	bool counted = watched->is_counter;
	if (holders_new(watch, &holders) != 0)
		return LK_ENOMEM;
	struct step step = {.watched = watched,
			    .before = watched->holders,
			    .before_count = watched->holder_count};
	bool known = watched->known;
	watched->holders = holders;
	watched->holder_count = info->holder_count;
	watched->is_counter = info->is_counter;
	watched->count = info->count;
	watched->fence = info->fence;
	if (strcmp(info->type, "none") != 0)
		watched->type = info->type;
	int rc = known ? step_changes(&step, watch) : step_state(&step);
	watched->told = watch->tracked;
	if (rc == 0 && known && info->is_counter && (!counted || count != info->count))
		rc = change_add(watched, LK_CHANGE_COUNT, NULL, NULL, NULL);
	watched->known = rc == 0;
	for (size_t i = 0; i < step.before_count; i++) {
		free(step.before[i].field);
		lk__owner_free(step.before[i].record);
	}
	free(step.before);
	lk__watched_kind(watched, info->type);
	return rc;
}
