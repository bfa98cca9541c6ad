/*
 * Memory, descriptors and threads that run out at each request of the library in turn, once and
 * from there on: every call succeeds or says so, nothing leaks (ASan looks), and no lock is left
 * behind.
 */
#include "fixture.h"
#include "nomem_looped.h"
#include "nomem.h"

#define THEIRS "YWJjZGVmZ2hpamtsbW5vcHFy" /* python-redis-lock's, which has waiters to be told */

struct script {
	lk_config *config;
	lk_client *client, *other;
	lk_lock *lock, *busy, *asked, *fenced, *spin, *plain, *fair, *read, *write;
	lk_semaphore *semaphore;
	lk_permit_semaphore *permits;
	lk_latch *latch;
	lk_barrier *barrier;
	lk_election *election;
	lk_scan *scan;
	lk_watch *watch;
	lk_cancel *cancel;
	lk_queue *queue;
	lk_lock *queued;
	struct looped looped;
};

/* The call must answer `wanted` or be out of memory; in that case the script ends. */
#define attempt(wanted, call)                                                                      \
	do {                                                                                       \
		check_clear_error();                                                               \
		int attempt_code = (call);                                                         \
		if (attempt_code == LK_ENOMEM || attempt_code == LK_ESYSTEM)                       \
			return;                                                                    \
		check_code(attempt_code, (wanted), #call, __FILE__, __LINE__);                     \
	} while (0)

/* As attempt(), of a wait that ends: a server that is slower than its few ms has not said who
 * holds it. */
#define attempt_in_vain(call)                                                                      \
	do {                                                                                       \
		int vain_code = (call);                                                            \
		if (vain_code == LK_ENOMEM || vain_code == LK_ESYSTEM)                             \
			return;                                                                    \
		check(vain_code == LK_ETIMEDOUT || vain_code == LK_EMAYBEHELD ||                   \
		      vain_code == LK_EUNREACHABLE);                                               \
	} while (0)

/* What is asked about a hold, and done with its field. */
static void run_questions(struct script *script)
{
	lk_wait_info info = {.struct_size = sizeof(info)};
	char field[LK_FIELD_SIZE];
	int64_t number;
	int listeners, answer;
	attempt(0, lk_lock_new(&script->asked, script->client, "asked", 5, &err));
	attempt(0, lk_lock_acquire(script->asked, -1, NULL, &err));
	attempt(0, lk_lock_deadline_ns(script->asked, NULL, &number, &err));
	attempt(0, lk_lock_remaining_ms(script->asked, NULL, &number, &err));
	attempt(1, lk_lock_is_held(script->asked, NULL, &err));
	attempt(1, lk_lock_hold_count(script->asked, NULL, &err));
	attempt(0, lk_lock_server_ttl_ms(script->asked, &number, &err));
	attempt(0, lk_lock_export(script->asked, NULL, field, sizeof(field), &err));
	attempt(0, lk_lock_is_held_by(script->asked, field, &answer, &err));
	attempt(0, lk_lock_extend(script->asked, 60000, extend_of(field), &err));
	attempt(0, lk_lock_release(script->asked, release_of(field), &err));
	attempt(0, lk_lock_ask(script->asked, "why", &answer, &listeners, &err));
	attempt(0, lk_lock_force_release(script->asked, &err));
	attempt(LK_ELOST, lk_lock_release(script->asked, NULL, &err));
	attempt(0, lk_lock_wait_info(script->asked, &info, &err));
}

static void run_locks(struct script *script)
{
	int answer;
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	options.cancel = script->cancel;
	attempt(0, lk_lock_acquire(script->lock, -1, &options, &err));
	attempt(0, lk_lock_acquire(script->lock, 0, &options, &err));
	attempt(0, lk_lock_extend(script->lock, 40000, NULL, &err));
	attempt(0, lk_lock_is_locked(script->lock, &answer, &err));
	expect(0, lk_lock_release(script->lock, NULL, &err)); /* a re-entry: needs none */
	attempt(0, lk_lock_release(script->lock, NULL, &err));
	options.owner = release.owner = "named";
	options.lease_ms = 20000;
	attempt(0, lk_lock_acquire(script->lock, -1, &options, &err));
	release.no_wait = 1;
	attempt(0, lk_lock_release(script->lock, &release, &err));
	attempt(LK_EBUSY, lk_lock_acquire(script->busy, 0, NULL, &err));
	attempt_in_vain(lk_lock_acquire(script->busy, 5, &options, &err));
}

/* Kinds that make more of their own: keys beside the lock's, tokens at a resource. */
static void run_kinds(struct script *script)
{
	uint64_t token = 0;
	lk_release_options kept = LK_RELEASE_OPTIONS_INIT;
	kept.keep_ms = 1;
	attempt(0, lk_fenced_lock_new(&script->fenced, script->client, "kinds", 5, NULL, &err));
	attempt(0, lk_spin_lock_new(&script->spin, script->client, "kinds", 5, NULL, &err));
	attempt(0, lk_fair_lock_new(&script->fair, script->client, "kinds", 5, &err));
	attempt(0, lk_lock_acquire(script->fair, -1, NULL, &err));
	attempt(0, lk_lock_release(script->fair, NULL, &err));
	attempt(0, lk_lock_acquire(script->fenced, -1, NULL, &err));
	attempt(0, lk_lock_fence(script->fenced, NULL, &token, &err));
	attempt(0, lk_lock_release(script->fenced, NULL, &err));
	attempt(0, lk_fence_write(script->client, "report", 6, token, "x", 1, NULL, NULL, &err));
	attempt(0, lk_fence_check(script->client, "report", 6, token, NULL, NULL, &err));
	attempt(0, lk_lock_acquire(script->spin, -1, NULL, &err));
	attempt(0, lk_lock_release(script->spin, &kept, &err));
	/* Its first try is a batch of commands that ask what the server can do. */
	attempt(0, lk_plain_lock_new(&script->plain, script->client, "string", 6, NULL, &err));
	attempt(0, lk_lock_acquire(script->plain, -1, NULL, &err));
	attempt(0, lk_lock_extend(script->plain, 40000, NULL, &err));
	attempt(0, lk_lock_release(script->plain, &kept, &err));
}

/* A record and a term stay for 30 days: they are forgotten at the end. */
static void run_watch(struct script *script)
{
	lk_change change = LK_CHANGE_INIT;
	attempt(0, lk_watch_new(&script->watch, script->client, NULL, &err));
	attempt(0, lk_watch_add(script->watch, "lock:theirs", 11, &err));
	attempt(0, lk_watch_add(script->watch, "free", 4, &err));
	attempt(1, lk_watch_next(script->watch, 20000, NULL, &change, &err));
	attempt(1, lk_watch_remove(script->watch, "free", 4, &err));
}

static void run_election(struct script *script)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	lk_candidate candidate = LK_CANDIDATE_INIT;
	uint64_t term;
	int64_t left_ms;
	attempt(0, lk_election_new(&script->election, script->client, "elects", 6, NULL, &err));
	attempt(0, lk_election_campaign(script->election, -1, NULL, &term, &err));
	attempt(1, lk_election_is_leading(script->election, &err));
	attempt(0, lk_election_remaining_ms(script->election, &left_ms, &err));
	attempt(0, lk_election_term(script->election, &term, &err));
	attempt(0, lk_election_proclaim(script->election, "value", 5, &err));
	attempt(0, lk_election_progress(script->election, &err));
	attempt(0, lk_election_leader(script->election, &leader, &err));
	attempt(1, lk_election_observe(script->election, 0, NULL, &leader, &err));
	attempt(LK_EBUSY, lk_election_transfer(script->election, "nobody:1", &err));
	attempt(0, lk_election_candidates(script->election, &candidate, 1, &err));
	attempt(0, lk_election_ask(script->election, NULL, &err));
	attempt(0, lk_election_set_standing(script->election, 1, LK_STAND_BY, &err));
	attempt(1, lk_election_retire(script->election, &err));
	attempt(0, lk_election_resign(script->election, -1, &err));
	attempt(0, lk_election_join(script->election, &err));
	int code = lk_election_resign(script->election, -1, &err);
	check(code == 0 || code == LK_ENOTOWNER || code == LK_ENOMEM); /* a notice told of it */
}

static void run_permits(struct script *script)
{
	lk_permit some[3];
	int64_t ms;
	attempt(0,
		lk_permit_semaphore_new(&script->permits, script->client, "slots", 5, NULL, &err));
	attempt(0, lk_permit_semaphore_set(script->permits, 3, &err));
	memset(some, '-', sizeof(some));
	int code = lk_permit_semaphore_acquire(script->permits, 3, some, -1, NULL, &err);
	for (size_t i = 0; code < 0 && i < COUNT(some); i++)
		check(some[i].id[0] == '-'); /* what fails writes nothing */
	attempt(0, code);
	attempt(0, lk_permit_semaphore_remaining_ms(script->permits, some[0].id, &ms, &err));
	attempt(0, lk_permit_semaphore_update_lease(script->permits, some[0].id, 40000, &err));
	attempt(0, lk_permit_semaphore_server_ttl_ms(script->permits, some[0].id, &ms, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some, 1, &err));
	attempt(0, lk_permit_semaphore_acquire(script->permits, 1, some, 0, NULL, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some, 1, &err));
	attempt(0, lk_permit_semaphore_acquire(script->permits, 1, some, 1000, NULL, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some, 1, &err));
	attempt(0, lk_permit_semaphore_try_set(script->permits, 3, &err));
	attempt(0, lk_permit_semaphore_add(script->permits, 1, &err));
	attempt(0, lk_permit_semaphore_release(script->permits, some + 1, 2, &err));
	attempt(0, lk_permit_semaphore_count(script->permits, &ms, NULL, &err));
	attempt(1, lk_permit_semaphore_delete(script->permits, &err));
}

/* One party is all that meet. */
static void run_barrier(struct script *script)
{
	attempt(0, lk_barrier_new(&script->barrier, script->client, "step", 4, 1, NULL, &err));
	attempt(0, lk_barrier_await(script->barrier, -1, NULL, NULL, &err));
	attempt(0, lk_barrier_enter(script->barrier, 1000, NULL, NULL, &err));
	attempt(0, lk_barrier_leave(script->barrier, -1, NULL, &err));
}

static void run_counters(struct script *script)
{
	int64_t count;
	attempt(0, lk_semaphore_new(&script->semaphore, script->client, "pool", 4, NULL, &err));
	attempt(1, lk_semaphore_try_set(script->semaphore, 1, 0, &err));
	attempt(0, lk_semaphore_acquire(script->semaphore, 1, -1, NULL, &err));
	attempt_in_vain(lk_semaphore_acquire(script->semaphore, 1, 5, NULL, &err));
	attempt(0, lk_semaphore_release(script->semaphore, 1, NULL, &err));
	attempt(0, lk_semaphore_available(script->semaphore, &count, &err));
	attempt(0, lk_semaphore_add(script->semaphore, 1, &err));
	attempt(0, lk_semaphore_acquire(script->semaphore, 1, 0, NULL, &err));
	attempt(1, lk_semaphore_release(script->semaphore, 1, if_exists, &err));
	attempt(0, lk_semaphore_drain(script->semaphore, &count, &err));
	attempt(1, lk_semaphore_delete(script->semaphore, &err));
	attempt(0, lk_latch_new(&script->latch, script->client, "gate", 4, NULL, &err));
	attempt(1, lk_latch_try_set(script->latch, 2, &err));
	attempt(0, lk_latch_count_down(script->latch, 2, &count, &err));
	attempt(0, lk_latch_count(script->latch, &count, &err));
	attempt(0, lk_latch_await(script->latch, 1000, NULL, &err));
	attempt(0, lk_latch_await(script->latch, -1, NULL, &err));
	attempt(0, lk_latch_delete(script->latch, &err));
	run_permits(script);
	run_barrier(script);
}

/* Two sides of one key: down, and not up. */
static void run_sides(struct script *script)
{
	int answer;
	attempt(0, lk_read_lock_new(&script->read, script->client, "sides", 5, NULL, &err));
	attempt(0, lk_write_lock_new(&script->write, script->client, "sides", 5, NULL, &err));
	attempt(0, lk_lock_acquire(script->write, -1, NULL, &err));
	attempt(0, lk_lock_acquire(script->read, -1, NULL, &err));
	attempt(0, lk_lock_release(script->write, NULL, &err));
	attempt(LK_EUPGRADE, lk_lock_acquire(script->write, 0, NULL, &err));
	attempt(0, lk_lock_extend(script->read, 40000, NULL, &err));
	attempt(0, lk_lock_is_locked(script->read, &answer, &err));
	attempt(0, lk_lock_release(script->read, NULL, &err));
}

/* The next completion; a request that was started has one. A hold that an earlier part of
 * the script could not release may be lost meanwhile: its notice is not what is waited for. */
static lk_completion completion_of(const struct script *script)
{
	lk_completion completion = {.struct_size = sizeof(lk_completion),
				    .error = {.code = LK_EINTERNAL}};
	do
		check_int(lk_queue_take(script->queue, &completion, 1, 20000, NULL), ==, 1);
	while (completion.operation == LK_OP_NOTICE && completion.error.code == 0);
	return completion;
}

static int completed(const struct script *script)
{
	return completion_of(script).error.code;
}

static void on_ready(void *context)
{
}

static void run_asynchronous(struct script *script)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = release.owner = "task";
	attempt(0, lk_queue_new(&script->queue, 0, &err));
	check(lk_queue_fd(script->queue, &err) >= 0);
	attempt(0, lk_queue_on_ready(script->queue, on_ready, NULL, &err));
	attempt(0, lk_queue_start(script->queue, request_of(NOTICE, .client = script->client), NULL,
				  &err));
	attempt(0, lk_lock_new(&script->queued, script->client, "queued", 6, &err));
	attempt(0, lk_queue_start(script->queue,
				  request_of(ACQUIRE, .lock = script->queued, .wait_ms = -1,
					     .acquire = &options),
				  &id, &err));
	attempt(0, completed(script));
	attempt(0, lk_queue_start(script->queue,
				  request_of(EXTEND, .lock = script->queued, .lease_ms = 40000,
					     .extend = extend_by("task")),
				  NULL, &err));
	attempt(0, completed(script));
	attempt(0, lk_queue_cancel(script->queue, id, &err));
	attempt(0, lk_queue_start(script->queue,
				  request_of(RELEASE, .lock = script->queued, .release = &release),
				  NULL, &err));
	attempt(0, completed(script));
}

/* An asynchronous call whose start answers 0, and what its completion says. */
#define attempt_queued(script, start)                                                              \
	do {                                                                                       \
		attempt(0, start);                                                                 \
		attempt(0, completed(script));                                                     \
	} while (0)

static void run_queued_semaphore(struct script *script)
{
	lk_queue *queue = script->queue;
	lk_semaphore *pool;
	attempt(0, lk_semaphore_new(&script->semaphore, script->client, "pool", 4, NULL, &err));
	pool = script->semaphore;
	attempt_queued(script,
		       lk_queue_start(queue, request_of(TRY_SET, .semaphore = pool, .number = 1),
				      NULL, &err));
	attempt_queued(script, lk_queue_start(queue,
					      request_of(ACQUIRE, .semaphore = pool, .number = 1,
							 .wait_ms = -1),
					      NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(RELEASE, .semaphore = pool, .number = 1),
				      NULL, &err));
	attempt_queued(
		script,
		lk_queue_start(queue, request_of(ADD, .semaphore = pool, .number = 1), NULL, &err));
	attempt_queued(script, lk_queue_start(queue,
					      request_of(RELEASE, .semaphore = pool, .number = 1,
							 .semaphore_release = if_exists),
					      NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(COUNT, .semaphore = pool), NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(DRAIN, .semaphore = pool), NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(DELETE, .semaphore = pool), NULL, &err));
}

static void run_queued_latch(struct script *script)
{
	lk_queue *queue = script->queue;
	lk_latch *gate;
	attempt(0, lk_latch_new(&script->latch, script->client, "gate", 4, NULL, &err));
	gate = script->latch;
	attempt_queued(
		script,
		lk_queue_start(queue, request_of(TRY_SET, .latch = gate, .number = 1), NULL, &err));
	attempt(0,
		lk_queue_start(queue, request_of(AWAIT, .latch = gate, .wait_ms = 5), NULL, &err));
	attempt_in_vain(completed(script));
	attempt_queued(script, lk_queue_start(queue, request_of(COUNT, .latch = gate), NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(COUNT_DOWN, .latch = gate, .number = 1),
				      NULL, &err));
	attempt_queued(
		script,
		lk_queue_start(queue, request_of(AWAIT, .latch = gate, .wait_ms = -1), NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue, request_of(DELETE, .latch = gate), NULL, &err));
}

static void run_queued_permits(struct script *script)
{
	lk_queue *queue = script->queue;
	lk_permit_semaphore *slots;
	attempt(0,
		lk_permit_semaphore_new(&script->permits, script->client, "slots", 5, NULL, &err));
	slots = script->permits;
	attempt_queued(script,
		       lk_queue_start(queue,
				      request_of(TRY_SET, .permit_semaphore = slots, .number = 1),
				      NULL, &err));
	attempt_queued(script,
		       lk_queue_start(queue,
				      request_of(SET, .permit_semaphore = slots, .number = 2), NULL,
				      &err));
	attempt_queued(script,
		       lk_queue_start(queue,
				      request_of(ADD, .permit_semaphore = slots, .number = 1), NULL,
				      &err));
	attempt(0, lk_queue_start(queue,
				  request_of(ACQUIRE, .permit_semaphore = slots, .wait_ms = -1,
					     .number = 1),
				  NULL, &err));
	lk_completion got = completion_of(script);
	attempt(0, got.error.code);
	attempt_queued(script, lk_queue_start(queue,
					      request_of(EXTEND, .permit_semaphore = slots,
							 .permits = (const lk_permit *)got.field,
							 .number = 1, .lease_ms = 40000),
					      NULL, &err));
	attempt_queued(script, lk_queue_start(queue,
					      request_of(RELEASE, .permit_semaphore = slots,
							 .permits = (const lk_permit *)got.field,
							 .number = 1),
					      NULL, &err));
	attempt(0, lk_queue_start(queue,
				  request_of(RELEASE, .permit_semaphore = slots,
					     .permits = (const lk_permit *)got.field, .number = 1),
				  NULL, &err));
	int again = completed(script);
	attempt(0, again == LK_ENOTOWNER ? 0 : again);
	lk_permit some[3];
	attempt(0, lk_queue_start(queue,
				  request_of(ACQUIRE, .permit_semaphore = slots, .number = 3,
					     .wait_ms = -1),
				  NULL, &err));
	got = completion_of(script);
	attempt(0, got.error.code);
	attempt(3, lk_completion_permits(&got, some, 3, &err));
	attempt_queued(script, lk_queue_start(queue,
					      request_of(RELEASE, .permit_semaphore = slots,
							 .permits = some, .number = 3),
					      NULL, &err));
	attempt_queued(script, lk_queue_start(queue, request_of(DELETE, .permit_semaphore = slots),
					      NULL, &err));
}

static void run_queued_counters(struct script *script)
{
	attempt(0, lk_config_new(&script->config, &err));
	attempt(0, lk_config_set(script->config, "url", server.url_unix, &err));
	attempt(0, lk_config_set(script->config, "client_record", "off", &err));
	attempt(0, lk_client_new(&script->client, script->config, &err));
	attempt(0, lk_queue_new(&script->queue, 0, &err));
	run_queued_semaphore(script);
	run_queued_latch(script);
	run_queued_permits(script);
	attempt(0, lk_barrier_new(&script->barrier, script->client, "step", 4, 1, NULL, &err));
	attempt_queued(script,
		       lk_queue_start(script->queue,
				      request_of(AWAIT, .barrier = script->barrier, .wait_ms = -1),
				      NULL, &err));
}

static void end_asynchronous(const struct script *script)
{
	lk_completion completion = LK_COMPLETION_INIT;
	lk_lock_free(script->queued);
	if (!script->queue)
		return;
	while (lk_queue_take(script->queue, &completion, 1, 0, NULL) > 0)
		continue;
	expect(0, lk_queue_free(script->queue, &err));
}

/* What an earlier part could not release is held, and no failure of the drain. */
static int drained(const struct script *script)
{
	int rc = lk_client_drain(script->client, 0, NULL, &err);
	return rc == LK_EHELD ? 0 : rc;
}

static void run(struct script *script)
{
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	lk_event event = LK_EVENT_INIT;
	lk_stats stats = {.struct_size = sizeof(stats)};
	static char text[65536];
	size_t length;
	attempt(0, lk_config_new(&script->config, &err));
	attempt(0, lk_client_open(&script->other, server.url_unix, &err));
	attempt(0, lk_config_load_environment(script->config, &err));
	attempt(0, lk_config_set(script->config, "url", server.url_unix, &err));
	attempt(0, lk_config_set(script->config, "client_name", "nomem", &err));
	attempt(0, lk_config_set(script->config, "client_record", "off", &err));
	attempt(0, lk_client_new(&script->client, script->config, &err));
	attempt(0, lk_client_ping(script->client, &err));
	attempt(0, lk_cancel_new(&script->cancel, &err));
	attempt(0, lk_stats_declare(script->client, "free", 4, &err));
	attempt(0, lk_lock_new(&script->lock, script->client, "free", 4, &err));
	attempt(0, lk_lock_new(&script->busy, script->client, "busy", 4, &err));
	run_locks(script);
	run_questions(script);
	run_kinds(script);
	run_election(script);
	run_watch(script);
	run_sides(script);
	run_asynchronous(script);
	run_counters(script);
	attempt(0, lk_event_fd(script->client, &err) < 0 ? err.code : 0);
	attempt(0, lk_event_wait(script->client, &event, 0, NULL, &err) < 0 ? err.code : 0);
	attempt(0, lk_client_stats(script->client, &stats, &err));
	attempt(0, lk_client_held(script->client, NULL, 0, &err) < 0 ? err.code : 0);
	const lk_stats_source source = {script->client, NULL};
	attempt(0, lk_stats_write(&source, 1, 0, text, sizeof(text), &length, &err));
	attempt(0, lk_scan_new(&script->scan, script->client, "b*", &err));
	attempt(0, lk_scan_show(script->scan, "free", 4, &info, &err));
	attempt(0, lk_scan_force_release(script->scan, "none", 4, &err));
	attempt(1, lk_scan_force_release(script->scan, "lock:theirs", 11, &err));
	attempt(0, lk_scan_owner(script->scan, "x:1", 3, &owner, &err));
	int answer;
	while ((answer = lk_scan_next(script->scan, &info, &err)) == 1)
		check(!strcmp(info.name, "busy"));
	attempt(0, answer);
	attempt(0, drained(script));
	attempt(0, looped_run(&script->looped, script->config));
}

/* Work that failed without memory is done when there is memory again. A close that waits for that
 * and does not get it takes long: only some do. */
static void end(struct script *script, bool patient)
{
	lk_scan_free(script->scan);
	lk_watch_free(script->watch);
	lk_election_free(script->election);
	armed = patient;
	if (script->client) {
		int code = lk_client_close(script->client, LK_CLOSE_RELEASE, &err);
		check(code == 0 || code == LK_ENOMEM || code == LK_EMAYBEHELD);
		check(patient || code == 0);
	}
	armed = false;
	if (script->client)
		expect(0, lk_client_close(script->client, LK_CLOSE_RELEASE, &err));
	lk_lock_free(script->lock);
	lk_lock_free(script->busy);
	lk_lock_free(script->asked);
	lk_lock_free(script->fenced);
	lk_lock_free(script->spin);
	lk_lock_free(script->read);
	lk_lock_free(script->write);
	lk_lock_free(script->plain);
	lk_lock_free(script->fair);
	lk_semaphore_free(script->semaphore);
	lk_permit_semaphore_free(script->permits);
	lk_latch_free(script->latch);
	lk_barrier_free(script->barrier);
	lk_client_free(script->client);
	lk_client_free(script->other);
	end_asynchronous(script);
	looped_end(&script->looped);
	lk_cancel_free(script->cancel);
	lk_config_free(script->config);
	/* What tells a party what became of its wait lasts for a while. */
	if (script->barrier)
		redis_do(&server, "DEL step lockkeeper_fence:{step}");
}

/* Fails the n-th request; false when the script needed fewer. */
static bool run_failing(void (*run_script)(struct script *script), long n, bool ever_after)
{
	struct script script = {0};
	countdown = n;
	for_good = ever_after;
	armed = true;
	run_script(&script);
	end(&script, !ever_after || n % 16 == 0);
	return countdown <= 0;
}

static long long locks_left(void)
{
	return redis_integer(&server, "EXISTS free asked kinds sides queued looped");
}

static void sweep(void (*run_script)(struct script *script), bool for_ever)
{
	long n = 1;
	stranger_takes("busy", 3600000);
	redis_do(&server, "SET lock:theirs %s", THEIRS);
	while (run_failing(run_script, n, for_ever)) {
		int64_t end_ms = now_ms() + slow_ms(1000); /* one was kept for a moment */
		while (locks_left() && now_ms() < end_ms)
			sleep_ms(1);
		if (locks_left())
			check_fail(__FILE__, __LINE__, "request %ld: a lock is left behind", n);
		/* Without any memory a permit stays until its lease is over. */
		if (!for_ever && redis_integer(&server, "ZCARD {slots}:timeout"))
			check_fail(__FILE__, __LINE__, "request %ld: a permit is left", n);
		redis_do(&server, "DEL pool gate slots {slots}:timeout");
		redis_do(&server, "SET lock:theirs %s", THEIRS);
		check_int(++n, <, REQUESTS_MAX);
	}
	print_message("%ld requests\n", n - 1);
	check_int(n, >, 20);
	check_int(redis_integer(&server, "HLEN busy"), ==, 1);
	stranger_releases("busy");
	redis_do(&server, "DEL lock:theirs report lockkeeper_fence:{kinds} "
			  "lockkeeper_fence:{elects} lockkeeper_election:{elects}");
}

static void test_each_request_fails_once(void **state)
{
	sweep(run, false);
}

static void test_nothing_is_left_from_each_request_on(void **state)
{
	sweep(run, true);
}

static void test_asynchronous_counters(void **state)
{
	sweep(run_queued_counters, false);
	sweep(run_queued_counters, true);
}

/* Starts one of three permits, and one back, without memory: what it says is what Redis has. */
static bool permits_failing(long n)
{
	lk_client *client = open_client_with("command_timeout_ms=%lld", slow_ms(250));
	struct script script = {0};
	lk_permit_semaphore *slots = NULL;
	lk_permit ids[3];
	expect(0, lk_queue_new(&script.queue, 0, &err));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", 5, NULL, &err));
	expect(n == 1, lk_permit_semaphore_try_set(slots, 5, &err));
	countdown = n;
	for_good = false;
	armed = true;
	int code = lk_queue_start(
		script.queue,
		request_of(ACQUIRE, .permit_semaphore = slots, .number = 3, .wait_ms = -1), NULL,
		&err);
	lk_completion got = {.struct_size = sizeof(lk_completion), .error = {.code = code}};
	if (code == 0)
		got = completion_of(&script);
	if (got.error.code == 0) {
		expect(3, lk_completion_permits(&got, ids, 3, &err));
		check_int(redis_integer(&server, "ZCARD {slots}:timeout"), ==, 3);
		code = lk_queue_start(
			script.queue,
			request_of(RELEASE, .permit_semaphore = slots, .permits = ids, .number = 3),
			NULL, &err);
		code = code ? code : completed(&script);
	}
	armed = false;
	if (got.error.code == 0 && (code == LK_ENOMEM || code == LK_ESYSTEM)) {
		check_int(redis_integer(&server, "ZCARD {slots}:timeout"), ==, 3);
		expect(0, lk_permit_semaphore_release(slots, ids, 3, &err));
	}
	wait_until(redis_integer(&server, "GET slots") == 5, 20000);
	check_int(redis_integer(&server, "ZCARD {slots}:timeout"), ==, 0);
	check_int(stats_of(client).held, ==, 0);
	end_asynchronous(&script);
	lk_permit_semaphore_free(slots);
	close_client(client);
	return countdown <= 0;
}

static void test_no_permit_is_lost(void **state)
{
	long n = 1;
	while (permits_failing(n))
		check_int(++n, <, REQUESTS_MAX);
	print_message("%ld requests\n", n - 1);
	check_int(n, >, 20);
	redis_do(&server, "DEL slots {slots}:timeout");
}

/* A report is whole, or there is none. It is not to wait for messages that cannot come. */
static bool examine_failing(long n, bool ever_after)
{
	lk_client *client = ever_after ? open_client_with(
						 "command_timeout_ms=%lld connect_timeout_ms=%lld",
						 slow_ms(400), slow_ms(400))
				       : open_client();
	lk_doctor *doctor = NULL;
	countdown = n;
	for_good = ever_after;
	armed = true;
	int code = lk_doctor_new(&doctor, &client, 1, NULL, 0, &err);
	armed = false;
	check(code == 0 || code == LK_ENOMEM || code == LK_ESYSTEM);
	check((code == 0) == (doctor != NULL));
	if (doctor)
		check(!strcmp(lk_doctor_node_at(doctor, 0)->role, "master"));
	lk_doctor_free(doctor);
	close_client(client);
	return countdown <= 0;
}

static void test_doctor(void **state)
{
	for (int for_ever = 0; for_ever < 2; for_ever++) {
		long n = 1;
		while (examine_failing(n, for_ever))
			check_int(++n, <, REQUESTS_MAX);
		check_int(n, >, 20);
	}
}

/* A grant that a caller has is renewed, whatever its acquire could not allocate. */
static void test_every_grant_is_renewed(void **state)
{
	long n = 0;
	int granted = 0;
	do {
		lk_client *client = open_client_with("watchdog_ms=%lld", slow_ms(150));
		lk_lock *lock = NULL;
		countdown = ++n;
		for_good = false;
		armed = true;
		int code = lk_lock_new(&lock, client, "watched", 7, &err);
		if (code == 0)
			code = lk_lock_acquire(lock, -1, NULL, &err);
		armed = false;
		if (code == 0) {
			granted++;
			wait_until(stats_of(client).renewals > 0, 2000);
			expect(0, lk_lock_release(lock, NULL, &err));
		}
		lk_lock_free(lock);
		lk_client_close(client, LK_CLOSE_RELEASE, &err);
		lk_client_free(client);
		redis_do(&server, "DEL watched");
	} while (countdown <= 0);
	check_int(n, >, 5);
	check_int(granted, >, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		counter_test(test_each_request_fails_once),
		counter_test(test_nothing_is_left_from_each_request_on),
		counter_test(test_doctor),
		counter_test(test_asynchronous_counters),
		counter_test(test_no_permit_is_lost),
		counter_test(test_every_grant_is_renewed),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
