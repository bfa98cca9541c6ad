/*
 * Worlds in which two processes watch two locks that others take, release, leave to their leases,
 * break, delete, flush and write over. One watches by blocking calls, the other through a queue. By
 * the seed a world is calm, or somebody ends the connections that listen or track, or messages are
 * lost, or connections and the time of threads beside outages; every fourth is another deployment,
 * with failovers, or with slots that move.
 *
 * What a watch tells is held against the history of the server: the state told was so when the
 * watch looked, an end was as it is told, and each change follows from what was told before. Where
 * nothing is lost a change is told within TIMELY_MS, and connections that end are a gap within
 * GAP_MS; a gap that nothing caused is a failure. Everywhere no call outlives its bound, nobody is
 * told of an owner that never was, and once faults cease the last state told is the right one.
 */
#include "watches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "../harness/request.h"
#include "clients.h"
#include "cluster.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "mixture.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define NAMES 2
#define WORKERS 3
#define WATCHERS 2
#define ROUNDS 12
#define SPANS_MAX 1024
#define TIMELY_MS 400    /* a look, who it is, and whether it was released, of two names in turn */
#define GAP_MS 1000      /* a connection is missed, and another one made */
#define UNDER_WAY_MS 100 /* a message, behind a look */
#define ALIVE_MS 30000   /* a watch looks without being told */
#define FOUND_MS 5000    /* clients find the servers again */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[NAMES] = {"watched", "other"};

enum end { OPEN, RELEASED, BROKEN, DELETED, FLUSHED, EXPIRED };

/* A hold, by the clock of the server. */
struct span {
	char owner[LK_FIELD_SIZE];
	int64_t from_ms, to_ms, expires_ms;
	enum end end;
};

/* A watched name, as it was told. */
struct view {
	char owner[LK_FIELD_SIZE]; /* "": nobody */
	bool shown, in_gap, told;
	int64_t at_ms; /* of the server, when it was looked at */
	unsigned gaps;
	int64_t owed_by_ns; /* a gap is owed until then; 0 */
	unsigned gaps_then;
};

struct watcher {
	struct sim_client client;
	lk_watch *watch;
	lk_queue *queue; /* NULL: it is called */
	lk_cancel *cancel;
	bool over, renewals;
	struct sim_task *task;
	struct view views[NAMES];
};

struct worker {
	int number;
	struct sim_client *client;
	struct sim_task *task;
	lk_lock *locks[NAMES];
};

static struct span spans[NAMES][SPANS_MAX];
static size_t span_count[NAMES];
/* When a command last ran that may tell of such an end, whether it has ended anything or not. */
static int64_t told_ms[NAMES][EXPIRED + 1];
static struct watcher watchers[WATCHERS];
static struct worker workers[WORKERS];
static struct sim_client holders[2], breaker;
static int working;
static bool exact;       /* the history has all */
static bool timely;      /* nothing is lost */
static bool cuts, loses; /* connections that end; messages */
static bool silent;      /* no release of that kind is told */
static unsigned kind;

static int lock_open(lk_lock **lock_out, lk_client *client, const char *name)
{
	lk_error error;
	switch (kind) {
	case 0:
		return lk_fenced_lock_new(lock_out, client, name, LK_STRLEN, NULL, &error);
	case 1:
		return lk_fair_lock_new(lock_out, client, name, LK_STRLEN, &error);
	case 2:
		return lk_spin_lock_new(lock_out, client, name, LK_STRLEN, NULL, &error);
	case 3:
		return lk_plain_lock_new(lock_out, client, name, LK_STRLEN, NULL, &error);
	default:
		return lk_lock_new(lock_out, client, name, LK_STRLEN, &error);
	}
}

/* ---- the history ---- */

static int64_t server_ms(unsigned number)
{
	return sim_server_redis(number)->keys.now_us / 1000;
}

static struct span *span_last(int name)
{
	return span_count[name] ? &spans[name][span_count[name] - 1] : NULL;
}

static enum end end_of(const struct span *span, const char *what, int64_t now_ms)
{
	if (now_ms > span->expires_ms)
		return EXPIRED;
	if (strcmp(what, "FLUSHALL") == 0)
		return FLUSHED;
	if (strcmp(what, "SET") == 0 || strstr(what, "force") != NULL)
		return BROKEN;
	return strcmp(what, "DEL") == 0 ? DELETED : RELEASED;
}

static void span_follow(unsigned number, int name, const char *what)
{
	int64_t now_ms = server_ms(number);
	struct span *last = span_last(name);
	const struct sim_key *key = sim_server_key(number, names[name]);
	const char *owner = key && key->type == SIM_STRING
				    ? key->items[0].bytes
				    : sim_server_owner(number, names[name], NULL, NULL);
	if (last && last->end == OPEN && (!owner || strcmp(owner, last->owner) != 0)) {
		last->end = end_of(last, what, now_ms);
		last->to_ms = last->end == EXPIRED ? last->expires_ms + 1 : now_ms;
		sim_note("\"%s\" of %s has ended as %d, by %s", names[name], last->owner, last->end,
			 what);
	}
	if (!owner)
		return;
	if (!last || last->end != OPEN) {
		if (span_count[name] == SPANS_MAX) {
			sim_fail("the history is full");
			return;
		}
		last = &spans[name][span_count[name]++];
		*last = (struct span){.from_ms = now_ms, .to_ms = INT64_MAX};
		snprintf(last->owner, sizeof(last->owner), "%s", owner);
	}
	last->expires_ms = key->expires_ms;
}

static void ran(unsigned number, const char *what, const char *key)
{
	for (int i = 0; number == 0 && i < NAMES; i++) {
		span_follow(number, i, what);
		if (strcmp(what, "FLUSHALL") == 0)
			told_ms[i][FLUSHED] = server_ms(0);
		if (strcmp(key, names[i]) != 0)
			continue;
		if (strstr(what, "force") || strstr(what, "fair"))
			told_ms[i][BROKEN] = server_ms(0);
		if (strstr(what, "_") && !strstr(what, "renew"))
			told_ms[i][RELEASED] = server_ms(0);
	}
}

/* Any server has granted it. */
static void made(unsigned number, const struct sim_key *key, const struct sim_item *item)
{
	for (int i = 0; !exact && i < NAMES; i++) {
		if (strcmp(key->name, names[i]) != 0)
			continue;
		if (span_count[i] == SPANS_MAX) {
			sim_fail("the history is full");
			return;
		}
		snprintf(spans[i][span_count[i]++].owner, LK_FIELD_SIZE, "%s", item->bytes);
	}
}

static const struct span *span_of(int name, const char *owner)
{
	for (size_t i = span_count[name]; i > 0; i--)
		if (strcmp(spans[name][i - 1].owner, owner) == 0)
			return &spans[name][i - 1];
	return NULL;
}

/* Whether nobody has had it for some time between. */
static bool was_free(int name, int64_t from_ms, int64_t to_ms)
{
	int64_t free_ms = INT64_MIN;
	for (size_t i = 0; i < span_count[name]; i++) {
		const struct span *span = &spans[name][i];
		if (free_ms <= to_ms && span->from_ms >= from_ms && span->from_ms >= free_ms)
			return true;
		free_ms = span->to_ms;
	}
	return free_ms <= to_ms;
}

static bool ended_so(int name, enum end end, int64_t from_ms)
{
	if (told_ms[name][end] >= from_ms)
		return true;
	for (size_t i = 0; i < span_count[name]; i++)
		if (spans[name][i].end == end && spans[name][i].to_ms >= from_ms)
			return true;
	return false;
}

/* ---- what is told ---- */

static int name_of(const lk_change *change)
{
	for (int i = 0; i < NAMES; i++)
		if (strcmp(change->name, names[i]) == 0)
			return i;
	sim_fail("a watch tells of \"%s\"", change->name);
	return 0;
}

/* It was so between the look and now. */
static void check_truth(int name, const lk_change *change, const char *owner)
{
	const struct span *span = *owner ? span_of(name, owner) : NULL;
	int64_t now_ms = server_ms(0), at_ms = change->at_ms - 1;
	if (*owner && !span)
		sim_fail("%s is told to have it, and never had", owner);
	if (!exact)
		return;
	if (span ? span->to_ms < at_ms || span->from_ms > now_ms : !was_free(name, at_ms, now_ms))
		sim_fail("\"%s\" is told to be %s at %lld, and was not", names[name],
			 *owner ? owner : "free", (long long)change->at_ms);
}

/* Where messages come, and when they come, an end is what it was. */
static void check_end(int name, const struct view *view, const lk_change *change)
{
	static const struct {
		int kind;
		enum end end;
	} ends[] = {{LK_CHANGE_RELEASED, RELEASED},
		    {LK_CHANGE_BROKEN, BROKEN},
		    {LK_CHANGE_LOST, FLUSHED}};
	const struct span *span = span_of(name, view->owner);
	for (size_t i = 0; i < COUNT(ends); i++)
		if (change->kind == ends[i].kind &&
		    !ended_so(name, ends[i].end, view->at_ms - UNDER_WAY_MS))
			sim_fail("%s is told to have ended as %d, and nothing has", view->owner,
				 change->kind);
	if (change->kind == LK_CHANGE_EXPIRED && span->to_ms < span->expires_ms - UNDER_WAY_MS)
		sim_fail("%s is told to have expired, and has not", view->owner);
	bool told = !cuts && view->told;
	if (change->kind == LK_CHANGE_UNKNOWN && told && !silent && span->end == RELEASED)
		sim_fail("%s was released, and that is not told", view->owner);
	if (change->kind == LK_CHANGE_UNKNOWN && told && span->end == FLUSHED)
		sim_fail("%s was flushed, and that is not told", view->owner);
}

static void check_follows(const struct view *view, const lk_change *change)
{
	const char *owner = change->owner ? change->owner : "";
	const char *was = change->was ? change->was : "";
	bool state = change->kind == LK_CHANGE_STATE;
	if (state != (!view->shown || view->in_gap))
		sim_fail("a change %d, and it is %s", change->kind,
			 view->in_gap ? "behind a gap" : "in none");
	if (change->initial != (state && !view->shown))
		sim_fail("a state says that it is initial, or not, and it is not so");
	if (change->holder_count != (*owner != '\0'))
		sim_fail("a change tells of %zu holders", change->holder_count);
	bool same = strcmp(owner, view->owner) == 0;
	bool is_before = strcmp(was, view->owner) == 0;
	if (change->kind == LK_CHANGE_ACQUIRED && (same || !*owner || !is_before))
		sim_fail("%s has it, and before %s, and %s had", owner, was, view->owner);
	else if (change->kind == LK_CHANGE_RENEWED && !same)
		sim_fail("%s has renewed it, and %s had it", owner, view->owner);
	else if (!state && change->kind != LK_CHANGE_ACQUIRED &&
		 change->kind != LK_CHANGE_RENEWED && (*owner || !*was || !is_before))
		sim_fail("%s has lost it, and %s had it", was, view->owner);
}

static void see(struct watcher *watcher, const lk_change *change)
{
	int name = name_of(change);
	struct view *view = &watcher->views[name];
	sim_note("watcher %d: \"%s\" %d, owner %s, was %s%s%s", (int)(watcher - watchers),
		 names[name], change->kind, change->owner ? change->owner : "nobody",
		 change->was ? change->was : "nobody", change->reason ? ", " : "",
		 change->reason ? change->reason : "");
	if (change->kind == LK_CHANGE_GAP) {
		if (view->in_gap || !view->shown || (timely && !cuts))
			sim_fail("a gap without a break");
		view->in_gap = true;
		view->gaps++;
		return;
	}
	check_follows(view, change);
	check_truth(name, change, change->owner ? change->owner : "");
	if (timely && change->was && change->kind >= LK_CHANGE_RELEASED &&
	    change->kind <= LK_CHANGE_UNKNOWN)
		check_end(name, view, change);
	snprintf(view->owner, sizeof(view->owner), "%s", change->owner ? change->owner : "");
	view->shown = true;
	view->in_gap = false;
	view->told = change->told;
	view->at_ms = change->at_ms;
}

/* ---- those who watch ---- */

static int next_queued(struct watcher *watcher, lk_change *change, lk_error *error)
{
	lk_completion got = LK_COMPLETION_INIT;
	int rc = lk_watch_next(watcher->watch, 0, NULL, change, error);
	if (rc != 0)
		return rc;
	uint64_t id = 0;
	rc = lk_queue_start(watcher->queue, request_of(WATCH, .watch = watcher->watch), &id, error);
	if (rc < 0)
		return rc;
	while ((rc = lk_queue_take(watcher->queue, &got, 1, 100, error)) == 0)
		if (watcher->over)
			lk_queue_cancel(watcher->queue, id, NULL);
	*error = got.error;
	return rc < 0 ? rc : got.error.code;
}

static int next_called(struct watcher *watcher, lk_change *change, lk_error *error)
{
	int64_t wait_ms = sim_chance(300) ? sim_between(0, 200) : -1;
	struct sim_call call = sim_call("lk_watch_next");
	int rc = lk_watch_next(watcher->watch, wait_ms, watcher->cancel, change, error);
	if (wait_ms >= 0)
		sim_check_limit(&call, wait_ms);
	if (wait_ms == 0)
		sim_sleep(SIM_MS);
	return rc;
}

static void *watcher_main(void *argument)
{
	struct watcher *watcher = argument;
	while (!watcher->over) {
		lk_change change = LK_CHANGE_INIT;
		lk_error error = {.code = 0};
		int rc = watcher->queue ? next_queued(watcher, &change, &error)
					: next_called(watcher, &change, &error);
		if (rc < 0 && (rc != LK_ECANCELLED || !watcher->over))
			sim_fail("a watch: %s", error.message);
		else if (rc == 1)
			see(watcher, &change);
	}
	return NULL;
}

static void watcher_begin(struct watcher *watcher, const char *url)
{
	lk_watch_options options = LK_WATCH_OPTIONS_INIT;
	lk_error error = {.code = 0};
	bool queued = watcher == &watchers[1];
	*watcher = (struct watcher){.renewals = sim_chance(300)};
	options.renewals = watcher->renewals;
	sim_client_open(&watcher->client, url, queued && sim_chance(500));
	int rc = lk_watch_new(&watcher->watch, watcher->client.client, &options, &error);
	for (int i = 0; i < NAMES && rc == 0; i++)
		rc = lk_watch_add(watcher->watch, names[i], LK_STRLEN, &error);
	rc = rc < 0 ? rc : lk_cancel_new(&watcher->cancel, &error);
	if (rc == 0 && queued)
		rc = lk_queue_new(&watcher->queue, 0, &error);
	if (rc < 0)
		sim_fail("a watch: %s", error.message);
	watcher->task = sim_spawn(watcher_main, watcher);
}

static void client_close(struct sim_client *client)
{
	lk_error error;
	int rc = sim_client_close(client, LK_CLOSE_RELEASE, &error);
	if (rc < 0 && rc != LK_EMAYBEHELD)
		sim_fail("close: %s", error.message);
	sim_client_free(client);
}

static void watcher_end(struct watcher *watcher)
{
	lk_error error;
	struct sim_call call = sim_call("the end of a watch");
	watcher->over = true;
	lk_cancel_now(watcher->cancel);
	sim_wait(sim_ended, watcher->task, SIM_NEVER);
	sim_check_limit(&call, 100);
	if (watcher->queue && lk_queue_free(watcher->queue, &error) < 0)
		sim_fail("a queue: %s", error.message);
	lk_watch_free(watcher->watch);
	lk_cancel_free(watcher->cancel);
	client_close(&watcher->client);
}

/* ---- who holds ---- */

static void hold(struct worker *worker, lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	int64_t held_ms = sim_between(0, sim_chance(500) ? 10 : 1500);
	options.lease_ms = sim_chance(300) ? 500 : 0; /* it may end by itself */
	int rc = lk_lock_acquire(lock, 3000, &options, &error);
	sim_note("worker %d: acquire: %s", worker->number, sim_outcome(rc));
	if (rc < 0)
		return;
	sim_sleep(held_ms * SIM_MS);
	rc = lk_lock_release(lock, NULL, &error);
	sim_note("worker %d: release: %s", worker->number, sim_outcome(rc));
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	for (int i = 0; i < NAMES; i++)
		if (lock_open(&worker->locks[i], worker->client->client, names[i]) < 0)
			sim_fail("a lock");
	for (int i = 0; i < ROUNDS; i++) {
		lk_lock *lock = worker->locks[sim_random(NAMES)];
		if (sim_happens())
			hold(worker, lock);
		sim_sleep(sim_between(0, sim_chance(500) ? 5 : 700) * SIM_MS);
	}
	for (int i = 0; i < NAMES; i++)
		lk_lock_free(worker->locks[i]);
	working--;
	return NULL;
}

/* ---- who ends what others hold ---- */

static void end_hold(lk_lock *lock, const char *name)
{
	const char *const del[] = {"DEL", name}, *const set[] = {"SET", name, "something else"};
	const char *const flush[] = {"FLUSHALL"};
	unsigned server = sim_keeper(name);
	lk_error error;
	switch (sim_random(4)) {
	case 0:
		lk_lock_force_release(lock, &error);
		return;
	case 1:
		if (exact)
			sim_server_do(0, flush, 1);
		return;
	case 2:
		if (!sim_server_is_down(server) && !sim_server_hangs(server))
			sim_server_do(server, del, 2);
		return;
	default:
		if (!exact)
			return;
		sim_server_do(0, set, 3);
		sim_sleep(sim_between(0, 300) * SIM_MS);
		sim_server_do(0, del, 2);
	}
}

static void *breaker_main(void *argument)
{
	lk_lock *locks[NAMES];
	for (int i = 0; i < NAMES; i++)
		lock_open(&locks[i], breaker.client, names[i]);
	while (working > 0) {
		int name = (int)sim_random(NAMES);
		sim_sleep(sim_between(10, 3000) * SIM_MS);
		if (working > 0 && sim_happens())
			end_hold(locks[name], names[name]);
	}
	for (int i = 0; i < NAMES; i++)
		lk_lock_free(locks[i]);
	return NULL;
}

/* ---- time ---- */

/* Who has it now, if that has been so for so long; NULL: it has not. */
static const char *owner_for(int name, int64_t ms)
{
	const struct span *last = span_last(name);
	int64_t now_ms = server_ms(0);
	if (!last)
		return "";
	if (last->end != OPEN)
		return last->to_ms < now_ms - ms ? "" : NULL;
	if (last->expires_ms < now_ms)
		return last->expires_ms < now_ms - ms ? "" : NULL;
	return last->from_ms < now_ms - ms ? last->owner : NULL;
}

static bool knows(const struct view *view, const char *owner)
{
	return view->shown && !view->in_gap && strcmp(view->owner, owner) == 0;
}

static bool is_settled(const struct watcher *watcher, int name)
{
	const struct view *view = &watcher->views[name];
	const char *owner = owner_for(name, TIMELY_MS);
	return owner && knows(view, owner) && view->told && view->owed_by_ns == 0 &&
	       sim_server_trackers(0, names[name], false) >= WATCHERS;
}

static void check_view(const struct watcher *watcher, struct view *view, int name)
{
	const char *owner = owner_for(name, TIMELY_MS);
	if (view->owed_by_ns && view->gaps > view->gaps_then && !view->in_gap)
		view->owed_by_ns = 0;
	if (view->owed_by_ns) {
		if (sim_now_ns() > view->owed_by_ns)
			sim_fail("watcher %d is not told of the break", (int)(watcher - watchers));
		return;
	}
	if (owner && view->shown && !view->in_gap && view->told && strcmp(owner, view->owner) != 0)
		sim_fail("watcher %d is not told within %d ms that \"%s\" is %s",
			 (int)(watcher - watchers), TIMELY_MS, names[name],
			 *owner ? owner : "free");
}

static void cut(void)
{
	bool listening = sim_chance(500);
	for (int i = 0; i < WATCHERS * NAMES; i++)
		if (!is_settled(&watchers[i / NAMES], i % NAMES))
			return;
	for (int i = 0; i < WATCHERS * NAMES; i++) {
		struct view *view = &watchers[i / NAMES].views[i % NAMES];
		view->owed_by_ns = sim_now_ns() + GAP_MS * SIM_MS;
		view->gaps_then = view->gaps;
	}
	sim_server_kill(0, listening);
}

/* Looks at what should be known, and cuts. */
static void *judge_main(void *argument)
{
	int64_t cut_ns = sim_now_ns() + sim_between(1000, 3000) * SIM_MS;
	while (working > 0) {
		sim_sleep(10 * SIM_MS);
		for (int i = 0; i < WATCHERS * NAMES; i++)
			check_view(&watchers[i / NAMES], &watchers[i / NAMES].views[i % NAMES],
				   i % NAMES);
		if (!cuts || sim_now_ns() < cut_ns)
			continue;
		cut_ns = sim_now_ns() + sim_between(0, 2000) * SIM_MS;
		if (sim_happens())
			cut();
	}
	return NULL;
}

/* ---- the end ---- */

static bool all_know(const void *owner)
{
	for (int i = 0; i < WATCHERS; i++)
		if (!knows(&watchers[i].views[0], owner))
			return false;
	return true;
}

static void check_known(const char *owner, int64_t bound_ms)
{
	sim_wait(all_know, owner, sim_now_ns() + bound_ms * SIM_MS);
	for (int i = 0; i < WATCHERS; i++)
		if (!knows(&watchers[i].views[0], owner))
			sim_fail("watcher %d knows of %s, and it is %s", i,
				 watchers[i].views[0].owner, *owner ? owner : "free");
}

/* Once faults have ceased, what is told is what is. */
static void check_last(void)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char field[LK_FIELD_SIZE] = "";
	lk_lock *lock = NULL;
	lk_error error = {.code = 0};
	sim_sleep((timely && !cuts ? TIMELY_MS : ALIVE_MS + FOUND_MS) * SIM_MS);
	check_known("", TIMELY_MS);
	lock_open(&lock, holders[0].client, names[0]);
	int rc = lk_lock_acquire(lock, 20000, &options, &error);
	if (rc == 0)
		rc = lk_lock_export(lock, NULL, field, sizeof(field), &error);
	if (rc < 0)
		sim_fail("the last one: %s", error.message);
	else
		check_known(field, TIMELY_MS);
	if (rc == 0 && lk_lock_release(lock, NULL, &error) == 0)
		check_known("", TIMELY_MS);
	lk_lock_free(lock);
}

/* ---- a run ---- */

static void begin(void)
{
	char url[512];
	sim_mixture_url(url, sizeof(url), 0);
	size_t used = strlen(url);
	snprintf(url + used, sizeof(url) - used, "?" SIM_OPTIONS);
	for (int i = 0; i < 2; i++) {
		sim_belong((unsigned)i + 1);
		sim_client_open(&holders[i], url, false);
	}
	for (int i = 0; i < WATCHERS; i++) {
		sim_belong((unsigned)i + 3);
		watcher_begin(&watchers[i], url);
	}
	working = WORKERS;
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.number = i, .client = &holders[i / 2]};
		sim_belong(1 + (unsigned)i / 2);
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	sim_belong(0);
	sim_client_open(&breaker, url, false);
}

static void *run_main(void *argument)
{
	begin();
	sim_mixture_outages(false);
	struct sim_task *breaks = sim_spawn(breaker_main, NULL);
	struct sim_task *judges = timely ? sim_spawn(judge_main, NULL) : NULL;
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].task, SIM_NEVER);
	sim_wait(sim_ended, breaks, SIM_NEVER);
	if (judges)
		sim_wait(sim_ended, judges, SIM_NEVER);
	sim_mixture_settle();
	sim_server_lose_messages(0);
	check_last();
	for (int i = 0; i < WATCHERS; i++)
		watcher_end(&watchers[i]);
	client_close(&breaker);
	for (int i = 0; i < 2; i++)
		client_close(&holders[i]);
	sim_sleep(1000 * SIM_MS);
	sim_server_close();
	sim_failovers_rest();
	return NULL;
}

void sim_watches_run(uint64_t seed, bool verbose)
{
	bool mixed = seed % 4 == 3, troubled = seed % 4 == 2;
	unsigned troubles = (unsigned)(seed / 4 % 16) | (mixed ? SIM_MOVES : 0);
	sim_begin(seed, mixed || troubled ? troubles : 0, verbose);
	cuts = seed % 4 == 1;
	loses = !cuts && (mixed || sim_chance(troubled ? 500 : 300));
	exact = !mixed && !sim_has(SIM_OUTAGES);
	timely = exact && sim_is_calm() && !loses;
	kind = (unsigned)sim_random(10);
	silent = kind == 1 || kind == 2;
	memset(span_count, 0, sizeof(span_count));
	memset(told_ms, 0, sizeof(told_ms));
	sim_door_begin();
	sim_network_begin();
	sim_mixture_begin(1, mixed, false, names[0]);
	sim_server_lose_messages(loses ? 300 : 0);
	sim_server_watch(made);
	if (exact)
		sim_server_follow(ran);
	sim_mixture_run(run_main);
}
