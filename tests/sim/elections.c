/*
 * Worlds with an election, on one server that hangs, stops, vanishes and starts again with its data
 * or without, or by the seed in another deployment (mixture.h). Three processes, the first with two
 * candidates, and a fourth that only observes; the first observes, too. Candidates campaign with
 * and without a limit, join and hear of it by notices, proclaim, resign, transfer to one that waits
 * or to one that does not, and are freed while they wait or lead. Processes are suspended for
 * longer than their lease, or die: from outside that is a suspension whose connections end.
 *
 * What must hold is said in terms.h. No call lasts longer than its limit. When the troubles are
 * over each candidate gets in, within a bound; and when the process of a leader dies, or that of
 * its heir, another leads within one lease, and what it takes those behind to look. Then each
 * observer knows what the server has, and a leader may be drained. Then nobody leads or waits.
 */
#include "elections.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#include "clients.h"
#include "clocks.h"
#include "failovers.h"
#include "happens.h"
#include "judge.h"
#include "mixture.h"
#include "network.h"
#include "observers.h"
#include "replication.h"
#include "server.h"
#include "simulated_door.h"
#include "terms.h"
#include "world.h"

#define PROCESSES 4
#define ROUNDS 5
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LATE_MS 1000  /* after so long no command may run any more that takes something */
#define FOUND_MS 3500 /* until clients ask a server again where nobody was, and so find a master */
#define GRANT_MS 4000 /* in which all candidates lead in turn, once the troubles are over */
#define KEPT_MS SIM_WATCHDOG_MS /* for which the server keeps the place of a leader */
#define APART_MS 200            /* between the looks of those who wait at the end of a lease */
#define ANSWER_MS 100           /* a look, where nothing is lost */
#define REACHED_MS 40           /* less than a leader has to stop */
#define ONCE_MS 700             /* what one try may take */
#define BRIEF_MS 30             /* short for a first connection, or for what a replica has to say */
#define FOREVER_MS 100000
#define DRAIN_MS 3000
#define PROGRESS_MS (10 * SIM_WATCHDOG_MS) /* a leader shows it more often */

struct process {
	struct sim_client client;
	struct sim_task *listener;
	bool over;
	int drained; /* what its drain has answered */
};

static struct process processes[PROCESSES];
static struct sim_task *tasks[SIM_CANDIDATES];
static bool calm, gives_time;

static struct process *process_of(const struct sim_candidate *candidate)
{
	return &processes[candidate->number > 0 ? candidate->number - 1 : 0];
}

/* As sim_belong() has it. */
static unsigned process_number(const struct sim_candidate *candidate)
{
	return 1 + (unsigned)(process_of(candidate) - processes);
}

/* ---- notices ---- */

static void *listener_main(void *argument)
{
	const struct process *process = argument;
	lk_error error;
	while (!process->over) {
		lk_event event = LK_EVENT_INIT;
		int rc = lk_event_wait(process->client.client, &event, 50, NULL, &error);
		if (rc < 0 && rc != LK_ECLOSED)
			sim_fail("lk_event_wait: %s", error.message);
		if (rc < 0)
			break;
		if (rc == 0)
			continue;
		struct sim_candidate *candidate = &sim_candidates[event.tag % SIM_CANDIDATES];
		sim_note("candidate %d is told %d, term %llu %s", candidate->number, event.type,
			 (unsigned long long)event.fence, event.reason);
		if (event.tag == candidate->options.tag) /* its handle was not freed meanwhile */
			sim_candidate_hears(candidate, &event);
	}
	return NULL;
}

/* ---- a leader ---- */

static const int asked[] = {0, LK_EUNREACHABLE, LK_EUNAVAILABLE};
static const int written[] = {0, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};

static void proclaim(struct sim_candidate *candidate, bool leads)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("proclaim");
	snprintf(candidate->value, sizeof(candidate->value), "%d:%d", candidate->number,
		 candidate->values++);
	int rc = lk_election_proclaim(candidate->election, candidate->value,
				      strlen(candidate->value), &error);
	sim_note("candidate %d proclaims %s: %s", candidate->number, candidate->value,
		 sim_outcome(rc));
	sim_check_limit(&call, 0);
	if (rc == LK_ELOST && leads && lk_election_is_leading(candidate->election, &error))
		sim_fail("candidate %d was told that it is over, and leads", candidate->number);
	sim_check_code("proclaim", rc, written, calm ? 1 : COUNT(written), false, &error);
	if (rc == 0 && leads)
		candidate->confirmed = candidate->values - 1;
}

static void ask_leader(struct sim_candidate *candidate)
{
	lk_leader leader = LK_LEADER_INIT;
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("leader");
	int rc = lk_election_leader(candidate->election, &leader, &error);
	sim_check_limit(&call, 0);
	sim_check_code("leader", rc, asked, calm ? 1 : COUNT(asked), false, &error);
	sim_note("candidate %d asks who leads: %s %s", candidate->number, leader.value,
		 leader.asked);
	if (rc == 0 && sim_candidate_leads(candidate))
		sim_check_leader(candidate, &leader);
}

/* How many wait: a leader does not. */
static int ask_candidates(struct sim_candidate *candidate, lk_candidate *found)
{
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("candidates");
	found[0] = (lk_candidate)LK_CANDIDATE_INIT;
	int rc = lk_election_candidates(candidate->election, found, SIM_CANDIDATES, &error);
	sim_check_limit(&call, 0);
	sim_check_code("candidates", rc < 0 ? rc : 0, asked, calm ? 1 : COUNT(asked), false,
		       &error);
	for (int i = 0; i < rc && i < SIM_CANDIDATES; i++)
		if (strcmp(found[i].id, candidate->id) == 0 && sim_candidate_leads(candidate) &&
		    sim_terms_judged())
			sim_fail("candidate %d leads, and waits", candidate->number);
	return rc > SIM_CANDIDATES ? SIM_CANDIDATES : rc;
}

static struct sim_candidate *candidate_of(const lk_candidate *found)
{
	int number = found->value[0] - '0';
	return number >= 0 && number < SIM_CANDIDATES ? &sim_candidates[number] : NULL;
}

/* Whether it does not lead any more. */
static bool transfer_to(struct sim_candidate *candidate, const lk_candidate *to)
{
	static const int expected[] = {
		0, LK_EBUSY, LK_ELOST, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("transfer");
	if (!sim_candidate_leads(candidate))
		return false;
	candidate->leaves = true;
	sim_transfer_begins();
	int rc = lk_election_transfer(candidate->election, to ? to->id : "nobody:1", &error);
	sim_transfer_ends(rc == 0 && to ? candidate_of(to) : NULL);
	sim_note("candidate %d transfers to %s: %s", candidate->number, to ? to->value : "nobody",
		 sim_outcome(rc));
	sim_check_limit(&call, 0);
	sim_check_code("transfer", rc, expected, calm ? 2 : COUNT(expected), false, &error);
	if (rc == 0 && !to)
		sim_fail("candidate %d has transferred to nobody", candidate->number);
	if (rc == LK_EBUSY) {
		candidate->leaves = false;
		if (!sim_candidate_leads(candidate) && calm)
			sim_fail("candidate %d leads no more, and could not transfer",
				 candidate->number);
	}
	bool over = rc == 0 || rc == LK_ELOST || rc == LK_EMAYBEHELD;
	if (over && lk_election_is_leading(candidate->election, &error))
		sim_fail("candidate %d may have transferred, and leads", candidate->number);
	return rc == 0 || rc == LK_EMAYBEHELD;
}

/* To one that waits, or to nobody. */
static bool transfer(struct sim_candidate *candidate)
{
	lk_candidate found[SIM_CANDIDATES];
	int some = ask_candidates(candidate, found);
	return transfer_to(candidate,
			   some > 0 && sim_chance(800) ? &found[sim_random(some)] : NULL);
}

static void ask_to_leave(struct sim_candidate *candidate)
{
	static const int expected[] = {
		0, LK_ENOTOWNER, LK_EBUSY, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	lk_error error = {.code = 0};
	int rc = lk_election_ask(candidate->election, NULL, &error);
	sim_check_code("ask", rc, expected, calm ? 2 : COUNT(expected), false, &error);
}

/* It changes its place in the order, or that of all. */
static void stand_otherwise(struct sim_candidate *candidate)
{
	static const int expected[] = {0, LK_EMAYBEHELD, LK_EUNREACHABLE, LK_EUNAVAILABLE};
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("set_standing");
	int rc, all = sim_chance(200);
	lk_election_options *stands = &candidate->options;
	if (all) {
		sim_retires(1, true);
		rc = lk_election_retire(candidate->election, &error);
		sim_retires(-1, rc >= 0);
	} else {
		stands->priority = (int)sim_between(-1, 1);
		stands->standing = (int)sim_random(3);
		sim_stands_begin(candidate);
		rc = lk_election_set_standing(candidate->election, stands->priority,
					      stands->standing, &error);
		sim_stands_end(candidate, rc == 0);
	}
	sim_note("candidate %d stands otherwise%s: %s", candidate->number, all ? ", as all do" : "",
		 sim_outcome(rc < 0 ? rc : 0));
	sim_check_limit(&call, 0);
	sim_check_code("set_standing", rc < 0 ? rc : 0, expected, calm ? 1 : COUNT(expected), false,
		       &error);
}

/* Whether it still stands. */
static bool lead(struct sim_candidate *candidate)
{
	lk_candidate found[SIM_CANDIDATES];
	sim_check_value(candidate);
	for (int64_t steps = sim_between(0, 3); steps > 0; steps--) {
		sim_sleep(sim_between(0, sim_chance(300) ? 2 * SIM_WATCHDOG_MS : 50) * SIM_MS);
		if (!sim_candidate_leads(candidate)) {
			if (calm)
				sim_fail("candidate %d has lost it", candidate->number);
			return true;
		}
		lk_election_progress(candidate->election, NULL);
		switch (sim_random(8)) {
		case 0:
			proclaim(candidate, true);
			break;
		case 2:
			ask_leader(candidate);
			break;
		case 3:
			ask_candidates(candidate, found);
			break;
		case 4:
			ask_to_leave(candidate);
			break;
		case 5:
			stand_otherwise(candidate);
			break;
		case 6:
			if (transfer(candidate))
				return false;
		}
	}
	return true;
}

/* ---- to stand, and to leave ---- */

static void candidate_open(struct sim_candidate *candidate)
{
	lk_error error;
	uint64_t tag = candidate->options.tag;
	candidate->options = (lk_election_options)LK_ELECTION_OPTIONS_INIT;
	candidate->options.priority = (int)sim_between(-1, 1);
	candidate->options.standing = sim_chance(700) ? LK_STAND_NORMAL : (int)sim_random(3);
	candidate->options.progress_ms = sim_chance(300) ? PROGRESS_MS : 0;
	candidate->options.tag = tag + SIM_CANDIDATES;
	candidate->options.on_drain = tag & 1 ? LK_DRAIN_RESIGN : LK_DRAIN_ASK;
	snprintf(candidate->value, sizeof(candidate->value), "%d:%d", candidate->number,
		 candidate->values);
	candidate->confirmed = candidate->values++;
	candidate->options.value = candidate->value;
	candidate->options.value_size = LK_STRLEN;
	sim_candidate_begin(candidate);
	if (lk_election_new(&candidate->election, process_of(candidate)->client.client,
			    SIM_ELECTION, LK_STRLEN, &candidate->options, &error) < 0)
		sim_fail("lk_election_new: %s", error.message);
}

/* What a resignation waits for: its limit, or the end of the lease. */
static void resign(struct sim_candidate *candidate, bool may_be_lost)
{
	static const int expected[] = {0, LK_ENOTOWNER, LK_ELOST, LK_EMAYBEHELD};
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("resign");
	int64_t limit_ms = sim_chance(300) ? sim_between(0, 500) : -1;
	candidate->leaves = true;
	int rc = lk_election_resign(candidate->election, limit_ms, &error);
	sim_note("candidate %d resigns within %lld: %s", candidate->number, (long long)limit_ms,
		 sim_outcome(rc));
	sim_check_limit(&call, limit_ms < 0 ? KEPT_MS : limit_ms);
	sim_check_code("resign", rc, expected, COUNT(expected), false, &error);
	if (calm && !may_be_lost && rc < 0 && rc != LK_ENOTOWNER && limit_ms < 0)
		sim_fail("resign: %s", error.message);
	if (lk_election_is_leading(candidate->election, &error))
		sim_fail("candidate %d has resigned, and leads", candidate->number);
	candidate->until_ns = 0;
}

static void cancel_now(void *cancel)
{
	lk_cancel_now(cancel);
}

/* Whether it leads. */
static bool campaign(struct sim_candidate *candidate)
{
	static const int expected[] = {0,
				       LK_ETIMEDOUT,
				       LK_ECANCELLED,
				       LK_EBUSY,
				       LK_ELOST,
				       LK_ENOTOWNER,
				       LK_EMAYBEHELD,
				       LK_ENOTDURABLE,
				       LK_EUNREACHABLE,
				       LK_EUNAVAILABLE};
	static const int64_t limits_ms[] = {0, BRIEF_MS, 400, 3000, -1};
	int64_t wait_ms = limits_ms[sim_random(COUNT(limits_ms))];
	lk_cancel *cancel = NULL;
	lk_error error = {.code = 0};
	uint64_t term = 0;
	int64_t cancelled_ns = sim_now_ns() + sim_between(0, 4000) * SIM_MS;
	lk_cancel_new(&cancel, &error);
	struct sim_call call = sim_call("campaign");
	if (wait_ms < 0)
		sim_at(cancelled_ns, cancel_now, cancel);
	sim_candidate_stands(candidate);
	int rc = lk_election_campaign(candidate->election, wait_ms, cancel, &term, &error);
	sim_note("candidate %d campaigns within %lld: %s", candidate->number, (long long)wait_ms,
		 sim_outcome(rc));
	sim_check_limit(&call, wait_ms < 0   ? (cancelled_ns - call.begun_ns) / SIM_MS
			       : wait_ms > 0 ? wait_ms
					     : ONCE_MS);
	bool enough = calm && wait_ms != BRIEF_MS;
	sim_check_code("campaign", rc, expected, enough ? 4 : COUNT(expected), false, &error);
	if ((rc == LK_EBUSY && wait_ms > 0) || (rc == LK_ECANCELLED && wait_ms >= 0))
		sim_fail("campaign: %s", error.message);
	candidate->leaves = rc < 0;
	if (rc == LK_ELOST) /* it led, and its thread got no time */
		resign(candidate, true);
	if (wait_ms < 0 && sim_now_ns() <= cancelled_ns)
		sim_sleep(cancelled_ns - sim_now_ns() + SIM_MS);
	lk_cancel_free(cancel);
	return rc == 0;
}

static bool is_told(const void *subject)
{
	const struct sim_candidate *candidate = subject;
	return candidate->led || candidate->endings > 0;
}

static void join(struct sim_candidate *candidate, int64_t wait_ms)
{
	lk_error error = {.code = 0};
	sim_candidate_stands(candidate);
	candidate->endings = 0;
	sim_note("candidate %d joins", candidate->number);
	int rc = lk_election_join(candidate->election, &error);
	if (rc < 0)
		sim_fail("join: %s", error.message);
	for (int changes = sim_chance(150) ? 3 : 0; changes > 0; changes--)
		stand_otherwise(candidate);
	if (sim_chance(300)) { /* perhaps while its first try is under way */
		sim_sleep(sim_random(3) * SIM_MS);
		proclaim(candidate, false);
	}
	sim_wait(is_told, candidate, sim_now_ns() + wait_ms * SIM_MS);
	if (sim_chance(200))
		proclaim(candidate, false);
}

/* Its notices are deleted with it. */
static void free_it(struct sim_candidate *candidate)
{
	sim_note("candidate %d is freed", candidate->number);
	candidate->leaves = true;
	candidate->election = lk_election_free(candidate->election);
	candidate_open(candidate);
}

/* One that has joined stands, or was told why it does not. */
static void check_stands(struct sim_candidate *candidate)
{
	lk_error error;
	if (is_told(candidate) || !gives_time)
		return;
	candidate->leaves = true;
	int rc = lk_election_resign(candidate->election, -1, &error);
	sim_note("candidate %d leaves: %s", candidate->number, sim_outcome(rc));
	sim_sleep(SIM_MS);
	if (rc == LK_ENOTOWNER && candidate->endings == 0)
		sim_fail("candidate %d has joined, and does not stand", candidate->number);
}

static bool has_ended(const void *subject)
{
	return !((const struct sim_candidate *)subject)->led;
}

/* What it was told has an end within a bound, and so may the next begin. */
static void await_end(struct sim_candidate *candidate)
{
	sim_wait(has_ended, candidate, sim_now_ns() + FOREVER_MS * SIM_MS);
	if (candidate->led)
		sim_fail("candidate %d is not told that its term is over", candidate->number);
}

static void take_part(struct sim_candidate *candidate)
{
	bool stands = true;
	if (sim_chance(500)) {
		join(candidate, sim_between(0, sim_chance(500) ? 100 : 3000));
		if (sim_chance(500))
			check_stands(candidate);
		stands = !candidate->led || lead(candidate);
	} else if (campaign(candidate)) {
		if (!sim_candidate_leads(candidate) && calm)
			sim_fail("candidate %d was elected, and does not lead", candidate->number);
		stands = lead(candidate);
	} else {
		return;
	}
	if (stands && sim_chance(150))
		free_it(candidate);
	else if (stands)
		resign(candidate, false);
	else
		candidate->until_ns = 0;
	await_end(candidate);
}

static void *candidate_main(void *argument)
{
	struct sim_candidate *candidate = argument;
	for (int i = 0; i < ROUNDS; i++) {
		if (sim_happens())
			take_part(candidate);
		sim_sleep(sim_between(0, sim_chance(200) ? 400 : 50) * SIM_MS);
	}
	return NULL;
}

/* ---- the end ---- */

/* All stand, and each leads in its turn. */
static void *turn_main(void *argument)
{
	struct sim_candidate *candidate = argument;
	join(candidate, GRANT_MS);
	if (!candidate->led)
		sim_fail("candidate %d does not get in", candidate->number);
	sim_sleep(sim_between(0, 20) * SIM_MS);
	resign(candidate, false);
	await_end(candidate);
	return NULL;
}

static void run_all(void *(*main)(void *))
{
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		sim_belong(process_number(&sim_candidates[i]));
		tasks[i] = sim_spawn(main, &sim_candidates[i]);
	}
	sim_belong(0);
	for (int i = 0; i < SIM_CANDIDATES; i++)
		sim_wait(sim_ended, tasks[i], SIM_NEVER);
}

static struct sim_candidate *leader(void)
{
	for (int i = 0; i < SIM_CANDIDATES; i++)
		if (sim_candidates[i].led && !sim_candidates[i].leaves)
			return &sim_candidates[i];
	return NULL;
}

static bool is_led(const void *nothing)
{
	return leader() != nothing; /* it has no subject */
}

static bool is_led_by_another(const void *term)
{
	return sim_term_count() > *(const unsigned *)term;
}

/* All stand, and one leads for a while; NULL: nobody does. */
static struct sim_candidate *all_stand(void)
{
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		sim_belong(process_number(&sim_candidates[i]));
		join(&sim_candidates[i], 0);
	}
	sim_belong(0);
	sim_wait(is_led, NULL, sim_now_ns() + GRANT_MS * SIM_MS);
	struct sim_candidate *first = leader();
	if (!first)
		sim_fail("nobody leads");
	sim_sleep(sim_between(0, 2 * SIM_WATCHDOG_MS) * SIM_MS);
	return first;
}

static void all_leave(void)
{
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		sim_candidates[i].dead = false;
		sim_belong(process_number(&sim_candidates[i]));
		resign(&sim_candidates[i], true);
		await_end(&sim_candidates[i]);
	}
	sim_belong(0);
}

static bool has_stopped(const void *subject)
{
	return ((const struct sim_candidate *)subject)->stopped || has_ended(subject);
}

/* The process of who leads runs, and reaches no server: until about the moment at which it is told
 * to stop, when it must not be in the way of its own last tenth, or for longer than its place is
 * kept. */
static void check_isolated(void)
{
	const struct sim_candidate *victim = all_stand();
	if (!victim)
		return;
	unsigned process = process_number(victim);
	sim_note("process %u reaches no server", process);
	sim_network_isolate(process);
	sim_wait(has_stopped, victim, sim_now_ns() + KEPT_MS * SIM_MS);
	if (gives_time && !has_stopped(victim))
		sim_fail("candidate %d is not told to stop", victim->number);
	sim_sleep(sim_between(0, sim_chance(500) ? REACHED_MS : KEPT_MS) * SIM_MS);
	sim_note("process %u reaches all again", process);
	sim_network_isolate(0);
	sim_sleep(2 * SIM_WATCHDOG_MS * SIM_MS);
	all_leave();
}

/* Its process dies, with all that stand in it. For how long nobody may lead. */
static int64_t die(const struct sim_candidate *victim)
{
	unsigned process = process_number(victim), dead = 0;
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		sim_candidates[i].dead |= process_of(&sim_candidates[i]) == process_of(victim);
		dead += sim_candidates[i].dead;
	}
	int64_t bound_ms = KEPT_MS * 101 / 100 + (dead - 1) * APART_MS + ANSWER_MS;
	/* A connection that was made before may still fall silent. */
	bound_ms += sim_had(SIM_LOSSES) ? 2 * (SIM_COMMAND_MS + ANSWER_MS) : 0;
	sim_note("process %u dies", process);
	sim_suspend(process, sim_now_ns() + (bound_ms + SIM_WATCHDOG_MS) * SIM_MS);
	sim_network_die(process);
	return bound_ms;
}

static void die_now(void *heir)
{
	die(heir);
}

/* Who leads transfers to one whose process dies at about that moment. For how long nobody may lead;
 * 0: it still does. */
static int64_t leave_it_to_the_dying(struct sim_candidate *leads)
{
	lk_candidate found[SIM_CANDIDATES];
	sim_belong(process_number(leads));
	int some = ask_candidates(leads, found), at = 0;
	while (at < some && process_of(candidate_of(&found[at])) == process_of(leads))
		at++;
	if (at < some)
		sim_at(sim_now_ns() + sim_between(0, 500) * SIM_US, die_now,
		       candidate_of(&found[at]));
	bool over = at < some && transfer_to(leads, &found[at]);
	sim_belong(0);
	sim_sleep(SIM_MS);
	return over ? LATE_MS + SIM_CANDIDATES * APART_MS + 2 * (SIM_COMMAND_MS + ANSWER_MS) : 0;
}

/* All stand, and who leads hangs, or its process dies, or that of its heir. */
static void check_end_of_leader(void)
{
	struct sim_candidate *victim = all_stand();
	if (!victim)
		return;
	unsigned before = sim_term_count();
	int64_t bound_ms = sim_chance(300) ? leave_it_to_the_dying(victim) : 0;
	if (!bound_ms && (!victim->options.progress_ms || sim_chance(300)))
		bound_ms = die(victim);
	else if (!bound_ms)
		bound_ms = victim->options.progress_ms + KEPT_MS + SIM_CANDIDATES * APART_MS +
			   2 * (SIM_COMMAND_MS + ANSWER_MS);
	sim_wait(is_led_by_another, &before, sim_now_ns() + bound_ms * SIM_MS);
	if (sim_term_count() == before)
		sim_fail("nobody leads %lld ms after the leader", (long long)bound_ms);
	sim_sleep(2 * SIM_WATCHDOG_MS * SIM_MS);
	all_leave();
}

/* Only one stands, and its process dies: observers hear of it without a message. */
static void check_vacancy(void)
{
	struct sim_candidate *victim = &sim_candidates[SIM_CANDIDATES - 1];
	unsigned process = process_number(victim);
	join(victim, GRANT_MS);
	sim_sleep(sim_between(0, 2 * SIM_WATCHDOG_MS) * SIM_MS);
	victim->dead = true;
	sim_note("process %u dies, and nobody else stands", process);
	sim_suspend(process, sim_now_ns() + 4 * KEPT_MS * SIM_MS);
	sim_network_die(process);
	sim_sleep(KEPT_MS * 101 / 100 * SIM_MS);
	sim_observers_check(calm);
	sim_sleep(5 * KEPT_MS * SIM_MS);
	victim->dead = false;
	resign(victim, true);
	await_end(victim);
}

static void *drain_main(void *argument)
{
	struct process *process = argument;
	lk_error error = {.code = 0};
	process->drained = lk_client_drain(process->client.client, DRAIN_MS, NULL, &error);
	sim_note("drained: %s", sim_outcome(process->drained));
	return NULL;
}

static bool is_asked(const void *subject)
{
	const struct sim_candidate *candidate = subject;
	return candidate->asked || !candidate->led;
}

/* A leader that is asked hands over; one that need not be is not asked. */
static void hand_over(struct sim_candidate *candidate)
{
	if (candidate->options.on_drain == LK_DRAIN_RESIGN)
		return;
	sim_wait(is_asked, candidate, sim_now_ns() + ANSWER_MS * SIM_MS);
	if (gives_time && !is_asked(candidate))
		sim_fail("candidate %d is drained, and is not asked", candidate->number);
	resign(candidate, true);
}

/* Behind a drain nothing is held, and nothing is granted. */
static void check_is_drained(struct process *process, struct sim_candidate *candidate)
{
	lk_error error = {.code = 0};
	if (calm && process->drained < 0)
		sim_fail("drain: %s", sim_outcome(process->drained));
	if (process->drained == 0 && lk_client_held(process->client.client, NULL, 0, &error) != 0)
		sim_fail("candidate %d is drained, and something is held", candidate->number);
	int rc = lk_election_campaign(candidate->election, 0, NULL, NULL, &error);
	if (rc != LK_EDRAINING)
		sim_fail("campaign behind a drain: %s", sim_outcome(rc));
}

/* All stand, and the process of who leads is drained: one of another leads. */
static void check_drained(void)
{
	const struct sim_candidate *first = all_stand();
	struct sim_candidate *victim = &sim_candidates[first->number];
	struct process *process = process_of(victim);
	unsigned before = sim_term_count();
	if (!victim->led || victim->stopped) {
		all_leave();
		return;
	}
	for (int i = 0; i < SIM_CANDIDATES; i++)
		if (process_of(&sim_candidates[i]) == process)
			sim_candidates[i].leaves = true;
	sim_note("the process of candidate %d is drained", victim->number);
	sim_belong(process_number(victim));
	struct sim_task *task = sim_spawn(drain_main, process);
	hand_over(victim);
	sim_wait(sim_ended, task, SIM_NEVER);
	sim_belong(0);
	sim_wait(is_led_by_another, &before,
		 sim_now_ns() + (KEPT_MS + APART_MS + 2 * (SIM_COMMAND_MS + ANSWER_MS)) * SIM_MS);
	if (sim_term_count() == before)
		sim_fail("nobody leads behind a leader that was drained");
	sim_belong(process_number(victim));
	check_is_drained(process, victim);
	sim_belong(0);
	all_leave();
}

static void check_end(void)
{
	sim_sleep((calm ? 0 : LATE_MS + KEPT_MS + sim_clocks_back_ms()) * SIM_MS);
	sim_sleep((sim_is_replicated() && !calm ? FOUND_MS : 0) * SIM_MS);
	run_all(turn_main);
	sim_observers_check(calm);
	if (sim_chance(500))
		check_isolated();
	if (sim_chance(700))
		check_end_of_leader();
	else
		check_vacancy();
	sim_observers_check(calm);
	if (sim_chance(500)) {
		check_drained();
		sim_observers_check(calm);
	}
}

/* ---- a run ---- */

static void begin(void)
{
	char url[512];
	sim_mixture_url(url, sizeof(url), 0);
	size_t used = strlen(url);
	snprintf(url + used, sizeof(url) - used, "?" SIM_OPTIONS "&look_again_ms=%d",
		 SIM_LOOK_AGAIN_MS);
	for (unsigned i = 0; i < PROCESSES; i++) {
		processes[i] = (struct process){.over = false};
		sim_belong(i + 1);
		sim_client_open(&processes[i].client, url, false);
		processes[i].listener = sim_spawn(listener_main, &processes[i]);
	}
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		sim_candidates[i].number = i;
		sim_candidates[i].options.tag = (uint64_t)i;
		sim_belong(process_number(&sim_candidates[i]));
		candidate_open(&sim_candidates[i]);
		tasks[i] = sim_spawn(candidate_main, &sim_candidates[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		const unsigned process = i * (PROCESSES - 1);
		sim_belong(1 + process);
		sim_observer_begin(i, processes[process].client.client);
	}
	sim_belong(0);
}

static void end(void)
{
	lk_error error;
	sim_observers_end();
	for (int i = 0; i < SIM_CANDIDATES; i++)
		lk_election_free(sim_candidates[i].election);
	for (int i = 0; i < PROCESSES; i++) {
		int rc = sim_client_close(&processes[i].client, LK_CLOSE_RELEASE, &error);
		if (rc < 0 && (rc != LK_EMAYBEHELD || calm))
			sim_fail("close: %s", error.message);
		processes[i].over = true;
		sim_wait(sim_ended, processes[i].listener, SIM_NEVER);
		sim_client_free(&processes[i].client);
	}
}

static void *run_main(void *argument)
{
	begin();
	sim_mixture_outages(!sim_is_mixed() && sim_chance(300));
	sim_clocks_begin(sim_servers(), PROCESSES);
	for (int i = 0; i < SIM_CANDIDATES; i++)
		sim_wait(sim_ended, tasks[i], SIM_NEVER);
	sim_mixture_settle();
	sim_clocks_settle();
	check_end();
	end();
	sim_sleep(LATE_MS * SIM_MS);
	sim_server_close();
	sim_failovers_rest();
	sim_terms_check_left();
	return NULL;
}

/* Every fourth in another deployment. */
void sim_elections_run(uint64_t seed, bool verbose)
{
	static const unsigned more[] = {0, SIM_CLOCKS, SIM_SUSPENDS, SIM_CLOCKS | SIM_SUSPENDS};
	bool mixed = seed % 4 == 3;
	sim_begin(seed, (unsigned)(seed / 4 % 16) | (mixed ? 0 : more[seed / 64 % 4]), verbose);
	calm = sim_is_calm();
	gives_time = !sim_has(SIM_STALLS | SIM_PREEMPTS | SIM_SUSPENDS);
	sim_door_begin();
	sim_network_begin();
	sim_mixture_begin(1, mixed, true, SIM_ELECTION);
	sim_terms_begin(gives_time);
	sim_mixture_run(run_main);
}
