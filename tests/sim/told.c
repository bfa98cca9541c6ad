/*
 * Worlds in which a program of others deletes a lock, or writes over it, and in which its holder is
 * asked for it. Three processes compete for one lock of a kind that the seed draws, and a fourth
 * asks. In some that are calm the holder's process dies, alone or with that of who waits at the
 * front. A quarter of the worlds loses messages, and a quarter connections and the time of threads,
 * beside a server that hangs and stops.
 *
 * Where nothing is lost, a holder hears within TOLD_MS that its lock is gone, and that somebody
 * asks for it; and one of those that wait is granted what was deleted. Where only messages are
 * lost, that takes a third of the lease more. What a dead process held goes to the front at the end
 * of the lease, or if that is dead, to the one behind it a second later, of a fair lock three.
 * Everywhere each request is told at most once, to a hold that wants to hear it, which the lock was
 * when the request came; and who holds until its hold could be renewed three times is told.
 */
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "clients.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "network.h"
#include "order.h"
#include "outages.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define KEY "told"
#define ASK_KEY "lockkeeper_ask:{" KEY "}"
#define WORKERS 3
#define ROUNDS 6
#define ASKS_MAX 256
#define YOUNG_MS 250 /* before that, a hold need not be watched yet, nor a waiter, */
#define DEAF_MS 150  /* nor the channel of requests heard */
#define TOLD_MS 100  /* three trips of at most 20 ms each way, and the jitter of 2 ms */
#define LONG_LEASE_MS 4000
#define FRONT_MS 1000   /* a waiter's question is behind it */
#define WATCHED_MS 1200 /* in which the next one may come */
#define BEHIND_MS 1000  /* that the one behind the front leaves the lock to it */
#define SILENT_MS 3000  /* that the server waits for a fair lock's front (sync/fair/queue.lua) */
#define APART_MS 200    /* who has begun to wait so much later is behind, whatever the clocks */
#define PROCESS_OF(worker) (1 + (unsigned)(worker)->number)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct worker {
	int number;
	struct sim_client client;
	lk_lock *lock;
	struct sim_task *task, *listener;
	bool turns;       /* who waits is in an order */
	bool holds, lost; /* `lost`: it was told so */
	bool hears;
	char field[LK_FIELD_SIZE];
	uint64_t tag;
	int64_t begun_ns;             /* its last acquire */
	int64_t granted_ns, waits_ns; /* since then; 0: it does not */
	int64_t gone_ns, gone_by_ns;  /* somebody has ended it; it is to be told until then; 0 */
};

/* A request, by the number in its reason. */
struct request {
	char fields[LK_FIELD_SIZE]; /* who had the lock as it came; "": nobody */
	int64_t came_ns;
	unsigned told;
};

static struct worker workers[WORKERS];
static struct sim_client asker;
static struct request requests[ASKS_MAX];
static int asked_count, ended, grants;
static bool calm, loses;
static bool asks;        /* somebody does */
static int64_t ended_ns; /* when somebody last ended a hold, whoever's */
static int64_t lease_ms;
static bool looks_late; /* none who waits looks in between, unless it is told to */

static const struct kind {
	const char *name;
	bool turns;
	int64_t behind_ms; /* for which a dead front may keep the lock free */
} kinds[] = {{"reentrant", true, BEHIND_MS},
	     {"fenced", true, BEHIND_MS},
	     {"fair", true, SILENT_MS},
	     {"plain", false, 0},
	     {"spin", false, 0}};
static const struct kind *kind;

static int lock_open(lk_lock **lock_out, lk_client *client, lk_error *error)
{
	switch (kind - kinds) {
	case 1:
		return lk_fenced_lock_new(lock_out, client, KEY, LK_STRLEN, NULL, error);
	case 2:
		return lk_fair_lock_new(lock_out, client, KEY, LK_STRLEN, error);
	case 3:
		return lk_plain_lock_new(lock_out, client, KEY, LK_STRLEN, NULL, error);
	case 4:
		return lk_spin_lock_new(lock_out, client, KEY, LK_STRLEN, NULL, error);
	default:
		return lk_lock_new(lock_out, client, KEY, LK_STRLEN, error);
	}
}

/* ---- what a holder is told ---- */

/* "why-<number>". */
static struct request *request_of(const char *reason)
{
	int number = strncmp(reason, "why-", 4) == 0 ? atoi(reason + 4) : ASKS_MAX;
	return number < asked_count ? &requests[number] : NULL;
}

static void hears_request(const struct worker *worker, const lk_event *event)
{
	struct request *request = request_of(event->reason);
	if (!request || !request->came_ns)
		sim_fail("worker %d is asked \"%s\", which nobody did", worker->number,
			 event->reason);
	else if (strcmp(request->fields, event->field) != 0)
		sim_fail("worker %d is asked as %s, and %s was", worker->number, event->field,
			 request->fields);
	else if (request->told++ > 0)
		sim_fail("worker %d is asked \"%s\" twice", worker->number, event->reason);
	else if (worker->tag == event->tag && worker->holds && !worker->hears)
		sim_fail("worker %d is asked, and did not want to hear of it", worker->number);
}

static void *listener_main(void *argument)
{
	struct worker *worker = argument;
	lk_error error;
	while (ended < WORKERS) {
		lk_event event = LK_EVENT_INIT;
		if (lk_event_wait(worker->client.client, &event, 50, NULL, &error) != 1)
			continue;
		sim_note("worker %d is told %d %s", worker->number, event.type, event.reason);
		if (event.type == LK_EVENT_ASKED)
			hears_request(worker, &event);
		if (event.type == LK_EVENT_LOST && event.tag == worker->tag) {
			worker->lost = true;
			if (calm && !worker->gone_ns && ended_ns < worker->begun_ns)
				sim_fail("worker %d has lost it, and nobody has ended it",
					 worker->number);
		}
	}
	return NULL;
}

/* ---- the judges ---- */

/* Until a renewal has looked. */
static int64_t look_ms(void)
{
	return lease_ms / 3 + TOLD_MS;
}

/* How long it takes at most that it is told; `young`: it may have to be found by a renewal. */
static int64_t bound_ns(bool young)
{
	return (calm ? young || loses ? look_ms() : TOLD_MS : 3 * lease_ms) * SIM_MS;
}

/* A newer request takes the place of one that was not told yet, whoever has the lock by then. */
static void check_requests(const struct worker *worker)
{
	const struct request *newest = NULL;
	for (int i = 0; i < asked_count; i++)
		if (requests[i].came_ns && (!newest || requests[i].came_ns > newest->came_ns))
			newest = &requests[i];
	if (!newest || newest->told || !worker->field[0] ||
	    strcmp(newest->fields, worker->field) != 0)
		return;
	/* A fair lock may be its own before it hears so. */
	int64_t from_ns = newest->came_ns > worker->granted_ns ? newest->came_ns
							       : worker->granted_ns;
	bool young = newest->came_ns < worker->granted_ns + DEAF_MS * SIM_MS;
	if (sim_now_ns() > from_ns + bound_ns(young))
		sim_fail("worker %d holds, and is not told of request %d", worker->number,
			 (int)(newest - requests));
}

/* Where more is lost than messages, nothing renews what is gone: its lease ends it. */
static void check_told(const struct worker *worker)
{
	if (worker->gone_ns && calm && !worker->lost && sim_now_ns() > worker->gone_by_ns)
		sim_fail("worker %d is not told that its lock went %.3f ms ago", worker->number,
			 (double)(sim_now_ns() - worker->gone_ns) / 1e6);
	if (worker->hears && !worker->gone_ns)
		check_requests(worker);
}

static void made(unsigned server, const struct sim_key *key, const struct sim_item *item)
{
	const char *line = strchr(item->bytes, '\n'), *why = strstr(item->bytes, "\n\nwhy-");
	int number = why ? atoi(why + 6) : ASKS_MAX;
	if (strcmp(key->name, ASK_KEY) != 0 || !line || number >= ASKS_MAX)
		return;
	if (requests[number].came_ns)
		sim_fail("request %d comes again, for another holder", number);
	requests[number].came_ns = sim_now_ns();
	snprintf(requests[number].fields, sizeof(requests[number].fields), "%.*s",
		 why > line ? (int)(why - line - 1) : 0, line + 1);
}

/* ---- a holder ---- */

static void hold(struct worker *worker)
{
	int64_t until_ns = sim_now_ns() +
			   sim_between(0, sim_chance(300) ? 100 : 3 * lease_ms / 2) * SIM_MS;
	lk_error error;
	while (sim_now_ns() < until_ns && !worker->lost) {
		int64_t left_ms = 0;
		sim_sleep(sim_between(1, 20) * SIM_MS);
		if (lk_lock_remaining_ms(worker->lock, NULL, &left_ms, &error) < 0)
			break;
		check_told(worker);
	}
}

static void take(struct worker *worker)
{
	static const int expected[] = {
		0, LK_ETIMEDOUT, LK_EWRONGTYPE, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	static const int released[] = {0, LK_ELOST, LK_ENOTOWNER, LK_EWRONGTYPE, LK_EMAYBEHELD};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	worker->tag += WORKERS;
	worker->lost = false;
	worker->field[0] = '\0';
	worker->gone_ns = 0;
	worker->hears = sim_chance(700);
	options.hears_asks = worker->hears;
	options.tag = worker->tag;
	worker->waits_ns = worker->begun_ns = sim_now_ns();
	int rc = lk_lock_acquire(worker->lock, 20000, &options, &error);
	worker->waits_ns = 0;
	sim_note("worker %d: acquire: %s", worker->number, sim_outcome(rc));
	sim_check_code("acquire", rc, expected, calm ? 3 : COUNT(expected), false, &error);
	if (rc < 0)
		return;
	grants++;
	worker->granted_ns = sim_now_ns();
	worker->holds = true;
	lk_lock_export(worker->lock, NULL, worker->field, sizeof(worker->field), &error);
	hold(worker);
	worker->holds = false;
	rc = lk_lock_release(worker->lock, NULL, &error);
	sim_note("worker %d: release: %s", worker->number, sim_outcome(rc));
	sim_check_code("release", rc, released,
		       calm && ended_ns < worker->begun_ns ? 1 : COUNT(released), false, &error);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	lk_error error;
	if (lock_open(&worker->lock, worker->client.client, &error) < 0)
		sim_fail("a lock: %s", error.message);
	for (int i = 0; i < ROUNDS; i++) {
		if (sim_happens())
			take(worker);
		sim_sleep(sim_between(0, sim_chance(300) ? 600 : 20) * SIM_MS);
	}
	worker->lock = lk_lock_free(worker->lock);
	ended++;
	return NULL;
}

/* ---- a program of others ---- */

static struct worker *holder(void)
{
	int64_t until_ns;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].holds && !workers[i].gone_ns && workers[i].field[0] &&
		    sim_server_has(0, KEY, workers[i].field, &until_ns))
			return &workers[i];
	return NULL;
}

/* Whether somebody waits, and all who do have for long enough to be told. */
static bool waits(void)
{
	bool any = false;
	for (int i = 0; i < WORKERS; i++) {
		if (!workers[i].waits_ns)
			continue;
		any = true;
		if (sim_now_ns() < workers[i].waits_ns + FRONT_MS * SIM_MS)
			return false;
	}
	return any;
}

static bool is_granted(const void *before)
{
	return grants > *(const int *)before;
}

static bool are_watched(const void *nothing)
{
	return sim_server_trackers(0, KEY, false) >= 2 && sim_server_trackers(0, KEY, true) >= 1;
}

/* Its holder and who waits at the front both watch it. Who was told of a change within a second of
 * its last question does not, for a while. */
static bool front_is_judged(void)
{
	if (!calm || loses || asks || !kind->turns || lease_ms < LONG_LEASE_MS || !waits() ||
	    !holder() || sim_now_ns() < holder()->granted_ns + YOUNG_MS * SIM_MS)
		return false;
	const struct worker *same = holder();
	sim_wait(are_watched, NULL, sim_now_ns() + WATCHED_MS * SIM_MS);
	/* Of other locks the next one learns with its next try that the front was granted it. */
	bool is_fair = kind->behind_ms == SILENT_MS;
	if (is_fair && same == holder() && calm && waits() && !are_watched(NULL))
		sim_fail("worker %d holds it, others wait, and not both watch it", same->number);
	return are_watched(NULL) && holder() && waits();
}

/* The one at the front of those that wait, or behind it; NULL when that is not certain. */
static struct worker *waiter(int rank)
{
	struct worker *first = NULL, *second = NULL;
	for (int i = 0; i < WORKERS; i++) {
		struct worker *worker = &workers[i];
		if (!worker->waits_ns)
			continue;
		if (!first || worker->waits_ns < first->waits_ns) {
			second = first;
			first = worker;
		} else {
			second = worker;
		}
	}
	bool apart = second && second->waits_ns > first->waits_ns + APART_MS * SIM_MS;
	return apart ? rank ? second : first : NULL;
}

static void die(const struct worker *worker, int64_t until_ns)
{
	sim_note("the process of worker %d dies", worker->number);
	sim_suspend(PROCESS_OF(worker), until_ns);
	sim_network_die(PROCESS_OF(worker));
}

/* From outside, who is dead is suspended, and its connections end. When it goes on it has lost more
 * than a calm world takes: that is over. Who looks again at the very end of the lease may have it
 * before the front. */
static void holder_dies(void)
{
	bool front_dies = sim_chance(500);
	const struct worker *dead = holder(), *next = waiter(front_dies);
	int64_t end_ns, dies_ns = sim_now_ns();
	int before = grants;
	if (!next || !sim_server_has(0, KEY, dead->field, &end_ns))
		return;
	calm = false;
	end_ns += ((front_dies ? kind->behind_ms : 0) + TOLD_MS) * SIM_MS;
	if (front_dies)
		die(waiter(0), end_ns + SIM_MS);
	die(dead, end_ns + SIM_MS);
	sim_wait(is_granted, &before, end_ns);
	if (grants == before || (looks_late && next->granted_ns < dies_ns))
		sim_fail("worker %d is not granted what the dead one had", next->number);
}

/* Behind a renewal it is looked at once more: what was written over meanwhile is there. The front
 * may watch it, too. */
static void goes(struct worker *worker, bool deleted)
{
	bool young = sim_now_ns() < worker->granted_ns + YOUNG_MS * SIM_MS;
	unsigned fronts = 0;
	for (int i = 0; i < WORKERS; i++)
		fronts |= workers[i].waits_ns != 0;
	bool watched = sim_server_trackers(0, KEY, false) > fronts;
	worker->gone_ns = sim_now_ns();
	worker->gone_by_ns = sim_now_ns() + bound_ns(young || (!deleted && !watched));
}

static void end_hold(void)
{
	static const char *const del[] = {"DEL", KEY};
	static const char *const set[] = {"SET", KEY, "something else"};
	bool deletes = sim_chance(600), front = deletes && front_is_judged();
	struct worker *worker = holder();
	int before = grants;
	if (front && sim_chance(500)) {
		holder_dies();
		return;
	}
	if (sim_server_is_down(0) || sim_server_hangs(0))
		return;
	sim_note("somebody %s the key of worker %d", deletes ? "deletes" : "writes over",
		 worker ? worker->number : -1);
	ended_ns = sim_now_ns();
	if (worker)
		goes(worker, deletes);
	sim_server_do(0, deletes ? del : set, deletes ? 2 : 3);
	if (front) {
		sim_wait(is_granted, &before, sim_now_ns() + TOLD_MS * SIM_MS);
		if (grants == before)
			sim_fail("nobody is granted what was deleted");
	}
	if (!deletes) {
		sim_sleep(sim_between(0, 2 * look_ms()) * SIM_MS);
		sim_server_do(0, del, 2);
	}
}

static void *other_main(void *argument)
{
	while (ended < WORKERS) {
		sim_sleep(sim_between(50, 2 * lease_ms) * SIM_MS);
		if (ended < WORKERS && sim_happens())
			end_hold();
	}
	return NULL;
}

/* ---- who asks ---- */

static void ask(lk_lock *lock)
{
	static const int expected[] = {0, LK_EWRONGTYPE, LK_EMAYBEHELD, LK_EUNREACHABLE,
				       LK_EUNAVAILABLE};
	char why[16];
	int owners = -1, listeners = -1, number = asked_count++;
	lk_error error = {.code = 0};
	const struct worker *before = holder();
	int64_t since_ns = before ? before->granted_ns : 0, asked_ns = sim_now_ns();
	snprintf(why, sizeof(why), "why-%d", number);
	struct sim_call call = sim_call("ask");
	int rc = lk_lock_ask(lock, why, &owners, &listeners, &error);
	sim_note("request %d: %s, %d owners, %d listen", number, sim_outcome(rc), owners,
		 listeners);
	sim_check_limit(&call, 0);
	sim_check_code("ask", rc, expected, calm ? 2 : COUNT(expected), false, &error);
	if (rc < 0 || !before || before != holder() || before->granted_ns != since_ns)
		return;
	if (owners != 1)
		sim_fail("worker %d holds, and a request finds %d owners", before->number, owners);
	if (calm && !loses && before->hears && listeners == 0 &&
	    asked_ns > since_ns + DEAF_MS * SIM_MS)
		sim_fail("worker %d wants to hear, and nobody listens", before->number);
}

static void *asker_main(void *argument)
{
	lk_lock *lock = NULL;
	lk_error error;
	if (lk_lock_new(&lock, asker.client, KEY, LK_STRLEN, &error) < 0)
		sim_fail("a lock: %s", error.message);
	while (ended < WORKERS && asked_count < ASKS_MAX) {
		sim_sleep(sim_between(10, 800) * SIM_MS);
		if (ended < WORKERS && asks && sim_happens())
			ask(lock);
	}
	lk_lock_free(lock);
	return NULL;
}

/* ---- a run ---- */

static void client_close(struct sim_client *client)
{
	lk_error error;
	int rc = sim_client_close(client, LK_CLOSE_RELEASE, &error);
	if (rc < 0 && (rc != LK_EMAYBEHELD || calm))
		sim_fail("close: %s", error.message);
	sim_client_free(client);
}

static void *run_main(void *argument)
{
	char url[256];
	snprintf(url, sizeof(url),
		 "redis://server?watchdog_ms=%lld&command_timeout_ms=%d&connect_timeout_ms=400"
		 "&backoff_min_ms=5&backoff_max_ms=100&client_record=off&look_again_ms=%d",
		 (long long)lease_ms, SIM_COMMAND_MS, looks_late ? 30000 : 5000);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.number = i, .tag = (uint64_t)i};
		sim_belong(PROCESS_OF(&workers[i]));
		sim_client_open(&workers[i].client, url, false);
		workers[i].listener = sim_spawn(listener_main, &workers[i]);
		workers[i].task = sim_spawn(worker_main, &workers[i]);
	}
	sim_belong(0);
	sim_client_open(&asker, url, false);
	sim_outages_begin(0, 1, false);
	struct sim_task *asking = sim_spawn(asker_main, NULL);
	struct sim_task *other = sim_spawn(other_main, NULL);
	for (int i = 0; i < WORKERS; i++)
		sim_wait(sim_ended, workers[i].listener, SIM_NEVER);
	sim_wait(sim_ended, asking, SIM_NEVER);
	sim_wait(sim_ended, other, SIM_NEVER);
	sim_outages_end();
	for (int i = 0; i < WORKERS; i++)
		client_close(&workers[i].client);
	client_close(&asker);
	sim_sleep(2 * lease_ms * SIM_MS);
	sim_server_close();
	if (sim_server_owner(0, KEY, NULL, NULL))
		sim_fail("the lock is left");
	return NULL;
}

void sim_told_run(uint64_t seed, bool verbose)
{
	sim_begin(seed, seed % 4 == 3 ? (unsigned)(seed / 4 % 16) : 0, verbose);
	calm = sim_is_calm();
	loses = seed % 4 == 2;
	asks = sim_chance(600);
	lease_ms = sim_chance(500) ? SIM_WATCHDOG_MS : LONG_LEASE_MS;
	looks_late = sim_chance(500);
	kind = &kinds[sim_random(COUNT(kinds))];
	sim_note("a %s lock%s", kind->name, loses ? ", whose messages get lost" : "");
	memset(requests, 0, sizeof(requests));
	asked_count = ended = grants = 0;
	ended_ns = 0;
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(1, false);
	sim_failovers_begin(1, 0);
	sim_order_begin(NULL);
	sim_server_watch(made);
	sim_server_lose_messages(loses ? 300 : 0);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_network_end();
	sim_end();
}
