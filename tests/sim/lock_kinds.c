/*
 * What workers do with a lock of any kind on one server, and what must hold.
 *
 * No two owners may believe at once that they hold, unless both read. What a holder believes is
 * true on the server: its field is there, for as long as it was told, and whoever asks is told so.
 * To enter again is granted at once, and counts. Tokens rise with the grants. What is released is
 * gone; what a release keeps is granted to nobody meanwhile, by the server's clock, nor what is
 * abandoned, but to one who adopts it. Who frees what
 * another holds says so, and in a world without troubles the holder is told within a third of its
 * lease. A notice that a hold is lost is true, and comes only where somebody has ended the hold, or
 * trouble.
 */
#include <stdio.h>
#include <string.h>

#include "cluster.h"
#include "failovers.h"
#include "judge.h"
#include "kind.h"
#include "replication.h"
#include "server.h"
#include "world.h"

#define KEEP_MOST_MS 300  /* for which a release keeps it */
#define TELL_MS 320       /* until a holder is told that another has ended its hold */
#define LONG_WAIT_MS 9000 /* in which each waiter gets in, in a world without troubles */
#define ONCE_MS 700       /* what one try may take, or one question */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the judges ---- */

/* While somebody frees what others hold, nobody knows who holds. */
static bool is_judged(void)
{
	return sim_stage.breaking == 0 && !sim_stage.unjudged && sim_is_promised();
}

static bool can_share(enum sim_side side, enum sim_side other)
{
	return side == SIM_READS && other == SIM_READS;
}

static bool holds_now(const struct sim_worker *worker)
{
	return worker->side && !worker->broken && sim_now_ns() < worker->held_until_ns;
}

static void claim(struct sim_worker *worker, enum sim_side side, int64_t deadline_ns)
{
	for (int i = 0; i < SIM_WORKERS; i++) {
		const struct sim_worker *other = &sim_stage.workers[i];
		if (other != worker && holds_now(other) && !can_share(side, other->side) &&
		    is_judged())
			sim_fail("worker %d has the lock, and so does worker %d", worker->number,
				 i);
	}
	if (sim_now_ns() < sim_stage.kept_until_ns && is_judged())
		sim_fail("worker %d has the lock, which is kept", worker->number);
	worker->side = side;
	worker->held_until_ns = deadline_ns;
}

/* No server that may be asked gives it to anybody else before the deadline. */
static void check_firm(const struct sim_worker *worker, int64_t deadline_ns)
{
	for (unsigned i = 0; i < sim_servers(); i++) {
		int64_t until_ns = 0;
		if (!sim_must_have(i, deadline_ns))
			continue;
		if (!sim_server_has(i, SIM_KEY, worker->field, &until_ns))
			sim_fail("worker %d has the lock for %.3f ms more, and server %u does not "
				 "know it",
				 worker->number, (double)(deadline_ns - sim_now_ns()) / 1e6, i);
		else if (until_ns < deadline_ns)
			sim_fail("worker %d has the lock for %.3f ms longer than server %u",
				 worker->number, (double)(deadline_ns - until_ns) / 1e6, i);
	}
}

/* Of one that somebody else has freed: within that time it is told. */
static void check_told(const struct sim_worker *worker)
{
	if (sim_stage.calm && is_judged() && worker->broken_ns != SIM_NEVER &&
	    sim_now_ns() > worker->broken_ns + TELL_MS * SIM_MS)
		sim_fail("worker %d is not told that its lock was freed %.3f ms ago",
			 worker->number, (double)(sim_now_ns() - worker->broken_ns) / 1e6);
}

/* Whether it still holds, by what the library says. */
static bool keep(struct sim_worker *worker, lk_lock *lock, enum sim_side side)
{
	int64_t deadline_ns = 0;
	sim_check_over(&worker->caller, lock);
	if (!sim_deadline(&worker->caller, lock, &deadline_ns))
		return false;
	if (worker->client->closing)
		return true; /* the close has released it */
	/* A thread that gets no time looks once more, behind the notice. */
	if (worker->lost_tag == worker->tag && sim_deadline(&worker->caller, lock, &deadline_ns))
		sim_fail("worker %d was told that it has lost the lock, and holds it",
			 worker->number);
	if (worker->broken) {
		check_told(worker);
		return true;
	}
	if (is_judged())
		check_firm(worker, deadline_ns);
	claim(worker, side, deadline_ns);
	return true;
}

static void read_notices(const struct sim_worker *worker)
{
	lk_event event = LK_EVENT_INIT;
	lk_error error;
	while (lk_event_wait(worker->client->client, &event, 0, NULL, &error) == 1) {
		struct sim_worker *holder = &sim_stage.workers[event.tag % 16 % SIM_WORKERS];
		if (event.type != LK_EVENT_LOST)
			continue;
		sim_note("a notice: worker %d has lost it: %s", holder->number, event.reason);
		if (sim_stage.calm && !sim_stage.breaks && !worker->client->closing)
			sim_fail("worker %d has lost it, and nothing has happened: %s",
				 holder->number, event.reason);
		holder->lost_tag = event.tag;
	}
}

/*
 * Compares the token of a hold with that of the newest hold before. A thread that gets no time
 * behind the library's last look at the clock is told the token of a hold that is over by now:
 * another may have been granted a newer one meanwhile. So the hold is looked at once more, behind
 * the answer.
 */
static void check_token(const struct sim_worker *worker)
{
	uint64_t token = 0;
	int64_t deadline_ns;
	lk_error error;
	if (lk_lock_fence(worker->writing, sim_owner(&worker->caller), &token, &error) < 0)
		return; /* it is over */
	if (worker->side != SIM_WRITES ||
	    !sim_deadline(&worker->caller, worker->writing, &deadline_ns))
		return;
	/* Others may have freed it while this worker did not run. */
	if (worker->broken || !is_judged())
		return;
	if (token <= sim_stage.newest)
		sim_fail("worker %d was told token %llu, and another %llu before", worker->number,
			 (unsigned long long)token, (unsigned long long)sim_stage.newest);
	sim_stage.newest = token;
}

void sim_lock_close(struct sim_worker *worker)
{
	worker->side = SIM_NOTHING;
}

/* ---- what a holder asks ---- */

static const int asked[] = {0, LK_EUNREACHABLE, LK_EUNAVAILABLE};

/* A question needs a thread that waits for its answer. */
static bool may_ask(const struct sim_worker *worker, const char *question, int code,
		    const lk_error *error)
{
	if (worker->client->threadless && code != LK_EBLOCKING && code != LK_ECLOSED)
		sim_fail("%s: a client without a thread waits", question);
	if (!worker->client->threadless)
		sim_check_code(question, code, asked, sim_stage.calm ? 1 : COUNT(asked),
			       sim_stage.closes, error);
	return code == 0;
}

/* Who holds from before the question to behind the answer. */
static void ask(struct sim_worker *worker, lk_lock *lock, enum sim_side side)
{
	struct sim_call call = sim_call("a question");
	int locked = 1, held = 1;
	int64_t ttl_ms = 1;
	lk_error error = {.code = 0};
	may_ask(worker, "is locked", lk_lock_is_locked(lock, &locked, &error), &error);
	may_ask(worker, "is held by", lk_lock_is_held_by(lock, worker->field, &held, &error),
		&error);
	may_ask(worker, "ttl", lk_lock_server_ttl_ms(lock, &ttl_ms, &error), &error);
	sim_check_limit(&call, 3 * ONCE_MS);
	sim_note("worker %d asks: locked %d, held %d, ttl %lld", worker->number, locked, held,
		 (long long)ttl_ms);
	if (!keep(worker, lock, side) || worker->broken || worker->client->closing || !is_judged())
		return;
	if (!locked || !held || ttl_ms < 0)
		sim_fail("worker %d holds, and the server says: locked %d, held %d, ttl %lld",
			 worker->number, locked, held, (long long)ttl_ms);
}

/* ---- what ends, or lengthens, the hold of another ---- */

/* A hold that was there before the call is over behind it, unless it is that of a reader. */
static void break_holds(int64_t begun_ns, bool may_run_later)
{
	sim_stage.unjudged |= may_run_later;
	sim_stage.broken_ns = sim_now_ns();
	sim_stage.kept_until_ns = 0;
	for (int i = 0; i < SIM_WORKERS; i++) {
		struct sim_worker *worker = &sim_stage.workers[i];
		worker->broken = true;
		bool ended = worker->side == SIM_WRITES && worker->granted_ns < begun_ns;
		worker->broken_ns = ended ? sim_now_ns() : SIM_NEVER;
	}
}

/* A field that somebody exported. */
static const struct sim_worker *holder_of_field(void)
{
	const struct sim_worker *worker = &sim_stage.workers[sim_random(SIM_WORKERS)];
	return worker->side && worker->field[0] ? worker : NULL;
}

static void break_lock(struct sim_worker *worker)
{
	static const int expected[] = {
		0, 1, LK_ENOTOWNER, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	const struct sim_worker *holder = holder_of_field();
	struct sim_call call = sim_call("to free it");
	lk_error error = {.code = 0};
	bool by_field = holder && sim_chance(500);
	if (worker->client->threadless)
		return;
	sim_stage.breaking++;
	int rc = by_field ? lk_lock_release(worker->writing, release_of(holder->field), &error)
			  : lk_lock_force_release(worker->writing, &error);
	sim_note("worker %d frees it%s: %s", worker->number, by_field ? " by its field" : "",
		 sim_outcome(rc));
	sim_check_limit(&call, 2 * ONCE_MS);
	/* An answer may be late enough for its connection to be given up for a new one. */
	sim_check_code("to free it", rc, expected,
		       sim_stage.calm ? (size_t)3 + sim_is_replicated() : COUNT(expected),
		       sim_stage.closes, &error);
	sim_stage.breaking--;
	if (rc != LK_ENOTOWNER)
		break_holds(call.begun_ns, rc < 0);
}

static void extend_by_field(struct sim_worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ENOTOWNER, LK_EMAYBEHELD, LK_EUNREACHABLE,
				       LK_EUNAVAILABLE};
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("extend by field");
	if (worker->client->threadless)
		return;
	int rc = lk_lock_extend(lock, sim_between(LK_LEASE_MIN_MS, SIM_LEASE_MOST_MS),
				extend_of(worker->field), &error);
	sim_note("worker %d extends by its field: %s", worker->number, sim_outcome(rc));
	sim_check_limit(&call, 2 * ONCE_MS);
	sim_check_code("extend by field", rc, expected,
		       sim_stage.calm && !sim_stage.breaks ? 1 : COUNT(expected), sim_stage.closes,
		       &error);
}

/* ---- a hold ---- */

static void extend_hold(const struct sim_worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE,
				       LK_EUNAVAILABLE};
	lk_error error = {.code = 0};
	if (!sim_stage.breaks) {
		/* The last: a slot is on its way, or the cluster down. */
		sim_extend_hold(&worker->caller, lock, SIM_LEASE_MOST_MS, expected,
				COUNT(expected) - !sim_is_cluster());
		return;
	}
	int rc = sim_extend(&worker->caller, lock, SIM_LEASE_MOST_MS, &error);
	sim_note("worker %d: extend: %s", worker->number, sim_outcome(rc));
	sim_check_code("extend", rc, expected, COUNT(expected), sim_stage.closes, &error);
}

/* What the release may take: to the end of the hold. That is later than it was before the call if
 * the call is the first to read the answer to a renewal. */
static int64_t left_ms(const struct sim_call *call, int64_t deadline_ns)
{
	int64_t known_ms = sim_left_ms(call, deadline_ns);
	return !sim_stage.calm && known_ms < SIM_WATCHDOG_MS ? SIM_WATCHDOG_MS : known_ms;
}

/* What was released is gone, unless a copy of a try may come behind, or another worker of the
 * client has it now. */
static void check_gone(const struct sim_worker *worker, const char *field, int code)
{
	int64_t until_ns;
	bool alone = worker->number == SIM_WORKERS - 1;
	bool kept = !sim_is_replicated() || sim_stage.calm; /* no failover undoes it */
	if (alone && kept && code == 0 && sim_resent(worker->client->client) == 0 &&
	    !worker->client->closing &&
	    sim_server_has(sim_keeper(SIM_KEY), SIM_KEY, field, &until_ns))
		sim_fail("worker %d has released, and %s is there", worker->number, field);
}

static int release(struct sim_worker *worker, lk_lock *lock, int64_t keep_ms, lk_error *error)
{
	bool no_wait = sim_chance(200);
	char field[LK_FIELD_SIZE];
	if (keep_ms > 0)
		return sim_keep(&worker->caller, lock, keep_ms, error);
	memcpy(field, worker->field, sizeof(field));
	int rc = sim_release(&worker->caller, lock, no_wait, error);
	/* A writer that reads too has one field for both. */
	if (!no_wait && !sim_has_trait(SIM_SIDES))
		check_gone(worker, field, rc);
	return rc;
}

static void let_go(struct sim_worker *worker, lk_lock *lock, bool may_keep)
{
	static const int expected[] = {0, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	int64_t deadline_ns = 0;
	int64_t keep_ms = may_keep && worker->side == SIM_WRITES && sim_chance(100)
				  ? sim_between(1, KEEP_MOST_MS)
				  : 0;
	sim_deadline(&worker->caller, lock, &deadline_ns);
	struct sim_call call = sim_call("release");
	sim_note("worker %d releases%s", worker->number, keep_ms ? ", and it is kept" : "");
	worker->side = SIM_NOTHING;
	int rc = release(worker, lock, keep_ms, &error);
	sim_note("worker %d: release: %s", worker->number, sim_outcome(rc));
	if (rc == 0 && keep_ms && !worker->broken && !worker->client->closing)
		sim_stage.kept_until_ns = call.begun_ns +
					  keep_ms * SIM_MS * (sim_had(SIM_CLOCKS) ? 99 : 100) / 100;
	if (keep_ms)
		sim_stage.left_until_ns = sim_now_ns() + KEEP_MOST_MS * SIM_MS;
	sim_check_limit(&call, left_ms(&call, deadline_ns) + (keep_ms ? SIM_COMMAND_MS : 0));
	sim_check_code("release", rc, expected, sim_stage.calm && !sim_stage.breaks ? 1 : 3,
		       sim_stage.closes, &error);
	if (!keep_ms && rc < 0 && strstr(error.message, "OOM "))
		sim_fail("a release needs memory: %s", error.message);
}

/* Again, by the same owner: no round trip, and a release more. */
static void enter_again(struct sim_worker *worker, lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	int64_t before_ns = 0, behind_ns = 0;
	if (!sim_deadline(&worker->caller, lock, &before_ns))
		return;
	bool queued = worker->caller.named;
	worker->caller.sure = true;
	int rc = sim_acquire(&worker->caller, lock, 0, queued, &options, &error);
	worker->caller.sure = false;
	if (rc == LK_ELOST || rc == LK_ECLOSED || rc == LK_ECANCELLED || rc == LK_EMAYBEHELD ||
	    (rc == LK_ENOTDURABLE && sim_is_replicated()))
		return;
	if (rc < 0)
		sim_fail("to enter again: %s", error.message);
	if (lk_lock_hold_count(lock, sim_owner(&worker->caller), &error) != 2 &&
	    !worker->client->closing)
		sim_fail("entered again, and the count is not 2");
	rc = sim_release(&worker->caller, lock, false, &error);
	if (rc < 0 && rc != LK_ELOST && rc != LK_ECLOSED)
		sim_fail("a release of the second hold: %s", error.message);
	if (rc == 0 && sim_deadline(&worker->caller, lock, &behind_ns) && behind_ns < before_ns)
		sim_fail("entered again, and the hold ends sooner");
}

/* Who has lost it is told so, whatever is free by now, and whatever a server still says. */
static void look_behind_a_loss(struct sim_worker *worker, lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	for (int i = 0; i < 10; i++) {
		sim_sleep(sim_between(1, 5000) * SIM_US);
		sim_check_over(&worker->caller, lock);
	}
	if (worker->client->closing || !sim_chance(200))
		return;
	worker->caller.sure = true;
	int rc = sim_acquire(&worker->caller, lock, 0, worker->caller.named, &options, &error);
	worker->caller.sure = false;
	if (rc == 0 && !worker->client->closing)
		sim_fail("worker %d has lost the lock, and enters it again", worker->number);
}

static void use(struct sim_worker *worker, lk_lock *lock, enum sim_side side)
{
	for (int64_t steps = sim_between(0, 2); steps > 0; steps--) {
		sim_sleep(sim_between(0, SIM_WATCHDOG_MS / 2) * SIM_MS);
		read_notices(worker);
		/* A thread that gets no time within its look judges what it has read before. */
		bool holds = keep(worker, lock, side) || keep(worker, lock, side);
		switch (holds ? sim_random(8) : 8) {
		case 0:
		case 1:
			extend_hold(worker, lock);
			break;
		case 2:
			ask(worker, lock, side);
			break;
		case 3:
			extend_by_field(worker, lock);
			break;
		case 4:
			enter_again(worker, lock);
			break;
		case 8:
			look_behind_a_loss(worker, lock);
			break;
		}
		keep(worker, lock, side);
	}
	/* Whose hold somebody else has ended waits until it must have been told. */
	if (sim_stage.calm && worker->broken && worker->broken_ns != SIM_NEVER &&
	    keep(worker, lock, side)) {
		sim_sleep(worker->broken_ns + (TELL_MS + 1) * SIM_MS - sim_now_ns());
		keep(worker, lock, side);
	}
}

/* A writer goes on as a reader, which nobody can come before. Whether it does. */
static bool go_on_reading(struct sim_worker *worker)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	int64_t begun_ns = sim_now_ns();
	options.tag = worker->tag + 16;
	sim_draw_lease(&options, SIM_LEASE_MOST_MS);
	worker->caller.sure = true;
	int rc = sim_acquire(&worker->caller, worker->reading, 300, worker->caller.named, &options,
			     &error);
	worker->caller.sure = false;
	sim_note("worker %d: acquire to read, too: %s", worker->number, sim_outcome(rc));
	bool drained = rc == LK_EDRAINING && worker->client->draining; /* it is a new grant */
	if (rc < 0 && rc != LK_ECANCELLED && !drained && sim_stage.calm &&
	    !worker->client->closing && !sim_stage.breaks)
		sim_fail("a writer may not read: %s", error.message);
	/* A grant of its own: what was done to the write lock before is not done to it. */
	if (rc == 0 && worker->broken_ns < begun_ns && sim_stage.breaking == 0)
		worker->broken = false;
	else
		worker->broken_ns = SIM_NEVER;
	return rc == 0;
}

/* ---- from one to the next ---- */

/* Leaves it to who adopts it: nobody else has the lock before its lease is over. */
static void abandon(struct sim_worker *worker, lk_lock *lock)
{
	static const int expected[] = {0, LK_ELOST};
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	int64_t deadline_ns = 0;
	bool holds = sim_deadline(&worker->caller, lock, &deadline_ns) && !worker->broken &&
		     !worker->client->closing;
	options.owner = sim_owner(&worker->caller);
	options.abandon = 1;
	worker->side = SIM_NOTHING;
	int rc = lk_lock_release(lock, &options, &error);
	sim_note("worker %d abandons it: %s", worker->number, sim_outcome(rc));
	sim_check_code("abandon", rc, expected, sim_stage.calm && !sim_stage.breaks ? 1 : 2,
		       sim_stage.closes, &error);
	memcpy(sim_stage.handed, worker->field, sizeof(sim_stage.handed));
	sim_stage.kept_until_ns = sim_stage.handed_until_ns = rc == 0 && holds ? deadline_ns : 0;
	/* A renewal, or a copy of its acquire, may come behind. */
	sim_stage.left_until_ns = sim_now_ns() + (2 * SIM_CALM_LEASE_MS + SIM_COMMAND_MS) * SIM_MS;
}

/* Takes over what another has abandoned. */
static int adopt(struct sim_worker *worker, lk_lock *lock)
{
	static const int expected[] = {0,
				       LK_ENOTOWNER,
				       LK_EBUSY,
				       LK_EMAYBEHELD,
				       LK_EUNREACHABLE,
				       LK_EUNAVAILABLE,
				       LK_ENOTDURABLE,
				       LK_ELOST,
				       LK_EREFUSED,
				       LK_EDENIED};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	char field[LK_FIELD_SIZE];
	struct sim_call call = sim_call("adopt");
	int64_t handed_until_ns = sim_stage.handed_until_ns;
	bool alone = sim_stage.adopting++ == 0;
	int adoptions = ++sim_stage.adoptions;
	memcpy(field, sim_stage.handed, sizeof(field));
	sim_stage.kept_until_ns = sim_stage.handed_until_ns =
		0; /* it may be given back, or have a shorter lease */
	worker->tag += 16;
	options.tag = worker->tag;
	options.field = field;
	sim_draw_lease(&options, SIM_LEASE_MOST_MS);
	worker->caller.sure = true;
	int rc = sim_acquire(&worker->caller, lock, 0, sim_queues(&worker->caller), &options,
			     &error);
	worker->caller.sure = false;
	sim_stage.adopting--;
	sim_note("worker %d adopts %s: %s", worker->number, field, sim_outcome(rc));
	sim_check_limit(&call, ONCE_MS);
	sim_check_code("adopt", rc, expected,
		       sim_stage.calm ? (size_t)3 + sim_is_replicated() : COUNT(expected),
		       sim_stage.closes, &error);
	if (rc == LK_ENOTOWNER && alone && adoptions == sim_stage.adoptions && is_judged() &&
	    !sim_stage.broken_ns && sim_now_ns() < handed_until_ns)
		sim_fail("%s has the lock, and is not held when it is adopted", field);
	return rc;
}

/* ---- a round ---- */

static int64_t draw_wait_ms(void)
{
	if (sim_chance(100))
		return LONG_WAIT_MS;
	return sim_chance(200) ? 0 : sim_between(1, 1500);
}

static int acquire(struct sim_worker *worker, lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("acquire");
	bool queued = sim_chance(400) || worker->client->threadless;
	int64_t wait_ms = draw_wait_ms();
	worker->tag += 16;
	options.tag = worker->tag;
	sim_draw_lease(&options, SIM_LEASE_MOST_MS);
	int rc = sim_acquire(&worker->caller, lock, wait_ms, queued, &options, &error);
	sim_note("worker %d: acquire to %s%s within %lld: %s", worker->number,
		 lock == worker->reading ? "read" : "write", queued ? " asynchronously" : "",
		 (long long)wait_ms, sim_outcome(rc));
	sim_check_limit(&call, wait_ms ? wait_ms : ONCE_MS);
	sim_check_patience(&call, wait_ms, rc, &error);
	sim_check_acquire(rc, sim_stage.closes, &error);
	if (rc == LK_ETIMEDOUT && wait_ms == LONG_WAIT_MS && sim_stage.calm &&
	    sim_has_trait(SIM_TURNS) && !sim_stage.hands)
		sim_fail("worker %d has waited for %d ms", worker->number, LONG_WAIT_MS);
	return rc;
}

static bool begin_hold(struct sim_worker *worker, lk_lock *lock, enum sim_side side)
{
	lk_error error;
	worker->field[0] = '\0';
	worker->granted_ns = sim_now_ns();
	/* What was lost before its owner knew of it was tried for again, under the same tag. */
	worker->lost_tag = 0;
	lk_lock_export(lock, sim_owner(&worker->caller), worker->field, sizeof(worker->field),
		       &error);
	return keep(worker, lock, side);
}

void sim_lock_round(struct sim_worker *worker)
{
	enum sim_side side = sim_has_trait(SIM_SIDES) && sim_chance(600) ? SIM_READS : SIM_WRITES;
	lk_lock *lock = side == SIM_READS ? worker->reading : worker->writing;
	read_notices(worker);
	if (sim_stage.breaks && sim_chance(200))
		break_lock(worker);
	/* Until somebody frees it; or has freed what was granted, and waited for replicas. */
	worker->broken = sim_is_replicated() && sim_stage.broken_ns > 0 &&
			 sim_now_ns() < sim_stage.broken_ns + ONCE_MS * SIM_MS;
	worker->broken_ns = SIM_NEVER;
	bool adopts = sim_stage.handed[0] && sim_chance(500);
	if ((adopts ? adopt(worker, lock) : acquire(worker, lock)) < 0)
		return;
	if (!begin_hold(worker, lock, side) && !sim_has(SIM_PREEMPTS) && !worker->client->closing &&
	    !worker->broken)
		sim_fail("a grant was over when the call returned");
	if (sim_has_trait(SIM_TOKENS))
		check_token(worker);
	use(worker, lock, side);
	if (sim_stage.hands && sim_chance(500)) {
		abandon(worker, lock);
		return;
	}
	bool reads = sim_has_trait(SIM_SIDES) && side == SIM_WRITES && sim_chance(300) &&
		     go_on_reading(worker);
	let_go(worker, lock, !reads);
	if (!reads)
		return;
	worker->tag += 16;
	begin_hold(worker, worker->reading, SIM_READS);
	use(worker, worker->reading, SIM_READS);
	let_go(worker, worker->reading, false);
}

int sim_lock_open(struct sim_worker *worker, lk_error *error)
{
	worker->tag = (uint64_t)worker->number;
	return sim_stage.kind->make(&worker->writing, worker->client->client, error);
}

int sim_sides_open(struct sim_worker *worker, lk_error *error)
{
	lk_client *client = worker->client->client;
	worker->tag = (uint64_t)worker->number;
	int rc = lk_write_lock_new(&worker->writing, client, SIM_KEY, LK_STRLEN, NULL, error);
	return rc < 0 ? rc
		      : lk_read_lock_new(&worker->reading, client, SIM_KEY, LK_STRLEN, NULL, error);
}

int sim_lock_last(struct sim_worker *worker, lk_error *error)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	worker->caller.sure = true;
	int rc = sim_acquire(&worker->caller, worker->writing, SIM_GRANT_MS,
			     worker->client->threadless, &options, error);
	worker->caller.sure = false;
	return rc < 0 ? rc : sim_release(&worker->caller, worker->writing, false, error);
}

void sim_lock_check_left(void)
{
	const char *owner = sim_server_owner(sim_keeper(SIM_KEY), SIM_KEY, NULL, NULL);
	if (owner)
		sim_fail("all is over, and the lock is %s's", owner);
}
