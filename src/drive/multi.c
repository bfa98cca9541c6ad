/* SPDX-License-Identifier: MIT */
#include "drive/multi.h"

#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/random.h"
#include "conf/config.h"
#include "drive/loop.h"
#include "drive/multi_ask.h"

#define SENDS_MAX 3   /* of a try, each on new connections */
#define CALM_ROUNDS 2 /* lost races before it pauses as well */
#define PAUSE_MAX_NS (20 * LK__MS)

/* ---- the order ---- */

static int part_compare(const struct lk__entry *a, const struct lk__entry *b)
{
	int order = strcmp(a->client->config->url, b->client->config->url);
	if (order == 0)
		order = (a->client->config->database > b->client->config->database) -
			(a->client->config->database < b->client->config->database);
	if (order == 0)
		order = strcmp(a->client->id, b->client->id);
	if (order)
		return order;
	size_t common = a->target.key_size < b->target.key_size ? a->target.key_size
								: b->target.key_size;
	order = memcmp(a->target.key, b->target.key, common);
	return order ? order
		     : (a->target.key_size > b->target.key_size) -
			       (a->target.key_size < b->target.key_size);
}

/* Whether both are one key of one server, as far as their URLs tell. */
static bool part_same(const struct lk__entry *a, const struct lk__entry *b)
{
	return strcmp(a->client->config->url, b->client->config->url) == 0 &&
	       a->client->config->database == b->client->config->database &&
	       a->target.key_size == b->target.key_size &&
	       memcmp(a->target.key, b->target.key, a->target.key_size) == 0;
}

int lk__multi_sort(struct lk__multi *multi, lk_error *error)
{
	for (size_t i = 1; i < multi->count; i++) {
		struct lk__entry *part = multi->part[i];
		size_t j = i;
		for (; j > 0 && part_compare(multi->part[j - 1], part) > 0; j--)
			multi->part[j] = multi->part[j - 1];
		multi->part[j] = part;
	}
	for (size_t i = 1; i < multi->count; i++)
		for (size_t j = 0; j < i; j++)
			if (part_same(multi->part[i], multi->part[j]))
				return lk__fail(error, LK_EINVAL,
						"lk_multi_lock_new: \"%.100s\" on %.100s is named "
						"twice",
						multi->part[i]->name,
						multi->part[i]->client->config->url);
	return 0;
}

void lk__multi_keep(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++) {
		lk__entry_ref(multi->part[i]);
		lk__client_ref(multi->part[i]->client);
	}
}

void lk__multi_let_go(const struct lk__multi *multi)
{
	for (size_t i = 0; i < multi->count; i++) {
		lk_client *client = multi->part[i]->client;
		lk__entry_unref(multi->part[i]);
		lk__client_unref(client);
	}
}

/* ---- acquire ---- */

static bool multi_closed(const struct lk__multi_ask *ask)
{
	for (size_t i = 0; i < ask->multi->count; i++)
		if (atomic_load(&ask->multi->part[i]->client->state) != LK__CLIENT_OPEN)
			return true;
	return false;
}

static int multi_over(const struct lk__multi_ask *ask)
{
	if (multi_closed(ask))
		return LK_ECLOSED;
	if (lk__cancelled(ask->want->cancel))
		return LK_ECANCELLED;
	if (ask->until_ns != LK__NEVER && lk__now_ns() >= ask->until_ns)
		return LK_ETIMEDOUT;
	return 0;
}

static int multi_fail(const struct lk__multi_ask *ask, size_t part, int code)
{
	if (ask->error->code == code)
		return code; /* with the reason */
	return lk__fail(ask->error, code, "acquire %zu locks, \"%.100s\": %s", ask->multi->count,
			ask->multi->part[part]->name, lk_error_text(code));
}

/* Waits for one part alone, as its own lock would, and takes it. */
static int multi_await(struct lk__multi_ask *ask, size_t part)
{
	struct lk__want want = *ask->want;
	int64_t now_ns = lk__now_ns();
	want.owner = lk__multi_owner(ask->threads[part], &ask->want->owner);
	want.wait_ms = -1;
	if (ask->until_ns != LK__NEVER)
		want.wait_ms = now_ns < ask->until_ns ? (ask->until_ns - now_ns) / LK__MS + 1 : 1;
	int rc = lk__caller_acquire(ask->multi->part[part], ask->threads[part], &want, ask->error);
	ask->taken[part] = rc == 0;
	return rc;
}

/* Others are after the same locks: an uneven pause lets one of us be first. */
static void multi_pause(struct lk__multi_ask *ask, unsigned round)
{
	if (round < CALM_ROUNDS)
		return;
	uint32_t random = 0;
	lk__random_bytes(&random, sizeof(random));
	int64_t until_ns = lk__now_ns() + (int64_t)random % PAUSE_MAX_NS;
	while (lk__now_ns() < until_ns && !multi_over(ask))
		lk__park_wait(&ask->threads[0]->park, until_ns);
}

/* Everything is ours: whether it still is, and may be, seen last. */
static bool multi_stands(const struct lk__multi_ask *ask)
{
	struct lk__multi_hold hold;
	return !multi_closed(ask) && lk__multi_hold_of(ask->multi, &ask->want->owner, &hold) == 0;
}

/* Gives back what there is; why we do is not to be forgotten over it. A server that is silent by
 * now would keep us to the end of the lease. */
static void multi_give_up(struct lk__multi_ask *ask)
{
	lk_error *error = ask->error;
	int64_t limit_ms = ask->multi->part[0]->client->config->command_timeout_ms;
	ask->error = NULL;
	lk__multi_give_back(ask, lk__after_ms(lk__now_ns(), limit_ms));
	ask->error = error;
}

static int multi_rounds(struct lk__multi_ask *ask)
{
	bool waits = false;
	for (unsigned round = 0;; round++) {
		int rc = waits ? multi_await(ask, ask->busy) : 0;
		size_t awaited = ask->busy;
		bool once = ask->want->wait_ms == 0;
		if (rc < 0)
			return rc;
		if (rc == 0)
			rc = lk__multi_ask(ask);
		if (rc == LK__MULTI_ALL && multi_stands(ask))
			return 0;
		ask->unknown |= ask->code == LK_EMAYBEHELD;
		bool again = rc == LK__MULTI_BUSY && ask->again;
		multi_give_up(ask);
		if (rc < 0)
			return rc;
		if (rc == LK__MULTI_ALL) {
			ask->busy = awaited < ask->multi->count ? awaited : 0;
			ask->code = LK_EMAYBEHELD; /* it came later than its lease */
			ask->unknown = true;
		}
		if (multi_closed(ask))
			return multi_fail(ask, ask->busy, LK_ECLOSED);
		if (once && again && round + 1 < SENDS_MAX && !multi_over(ask))
			continue; /* an idle connection that was closed, or a clock, fails no try */
		if (once)
			return multi_fail(ask, ask->busy, ask->code);
		waits = true;
		rc = multi_over(ask);
		if (rc < 0)
			return multi_fail(ask, ask->busy,
					  rc == LK_ETIMEDOUT && ask->code != LK_EBUSY ? ask->code
										      : rc);
		multi_pause(ask, round);
	}
}

/* What is still being compensated may be held, whatever the last round ended with. */
static int multi_verdict(const struct lk__multi_ask *ask, int rc)
{
	if (rc >= 0 || !ask->unknown || rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return rc;
	for (size_t i = 0; i < ask->multi->count; i++)
		if (atomic_load(&ask->multi->part[i]->compensating) > 0)
			return multi_fail(ask, i, LK_EMAYBEHELD);
	return rc;
}

static int multi_threads(const struct lk__multi *multi, struct lk__thread **threads)
{
	for (size_t i = 0; i < multi->count; i++) {
		threads[i] = lk__client_thread(multi->part[i]->client);
		if (!threads[i])
			return LK_ENOMEM;
	}
	return 0;
}

int lk__multi_acquire(const struct lk__multi *multi, const struct lk__want *want, lk_error *error)
{
	lk_error own = {.code = 0};
	struct lk__multi_ask ask = {.multi = multi,
				    .want = want,
				    .error = error ? error : &own,
				    .busy = multi->count,
				    .until_ns = LK__NEVER};
	ask.error->code = 0;
	int64_t now_ns = lk__now_ns();
	if (want->wait_ms > 0)
		ask.until_ns = lk__after_ms(now_ns, want->wait_ms);
	int rc = lk__multi_begin(&ask);
	if (rc < 0)
		lk__fail(error, rc, "acquire: out of memory");
	for (size_t i = 0; i < multi->count && rc == 0; i++)
		rc = lk__loop_start(multi->part[i]->client, error);
	if (rc == 0)
		rc = multi_verdict(&ask, multi_rounds(&ask));
	lk__multi_end(&ask);
	return rc;
}

/* ---- what is held ---- */

struct lk__owner lk__multi_owner(const struct lk__thread *thread, const struct lk__owner *owner)
{
	return owner->name ? *owner : (struct lk__owner){.serial = thread->serial};
}

int lk__multi_hold_of(const struct lk__multi *multi, const struct lk__owner *owner,
		      struct lk__multi_hold *hold_out)
{
	struct lk__multi_hold hold = {.deadline_ns = LK__NEVER, .count = UINT32_MAX};
	struct lk__thread *threads[LK__MULTI_MAX];
	int rc = multi_threads(multi, threads);
	for (size_t i = 0; i < multi->count && rc != LK_ENOMEM && rc != LK_ENOTOWNER; i++) {
		struct lk__entry *entry = multi->part[i];
		struct lk__owner own = lk__multi_owner(threads[i], owner);
		pthread_mutex_lock(&entry->mutex);
		const struct lk__hold *part = lk__entry_hold_of(entry, &own);
		int64_t deadline_ns = part ? lk__hold_deadline(part) : 0;
		if (!part)
			rc = LK_ENOTOWNER;
		else if (part->lost || lk__now_ns() >= deadline_ns)
			rc = LK_ELOST;
		if (part && part->count < hold.count)
			hold.count = part->count;
		pthread_mutex_unlock(&entry->mutex);
		if (deadline_ns < hold.deadline_ns)
			hold.deadline_ns = deadline_ns;
	}
	if (rc == 0 || rc == LK_ELOST)
		*hold_out = hold;
	return rc;
}

int lk__multi_release(const struct lk__multi *multi, const struct lk__owner *owner, lk_error *error)
{
	struct lk__want want = {.owner = *owner};
	struct lk__multi_ask ask = {.multi = multi, .want = &want, .error = error};
	if (lk__multi_begin(&ask) < 0)
		return lk__fail(error, LK_ENOMEM, "release: out of memory, still held");
	for (size_t i = 0; i < multi->count; i++)
		ask.taken[i] = true;
	int rc = lk__multi_give_back(&ask, LK__NEVER);
	lk__multi_end(&ask);
	return rc;
}

int lk__multi_extend(const struct lk__multi *multi, const struct lk__owner *owner, int64_t lease_ms,
		     lk_error *error)
{
	struct lk__thread *threads[LK__MULTI_MAX];
	if (multi_threads(multi, threads) < 0)
		return lk__fail(error, LK_ENOMEM, "extend: out of memory");
	int rc = 0;
	for (size_t i = 0; i < multi->count && rc == 0; i++) {
		struct lk__owner own = lk__multi_owner(threads[i], owner);
		rc = lk__caller_extend(multi->part[i], threads[i], &own, lease_ms, error);
	}
	return rc;
}
