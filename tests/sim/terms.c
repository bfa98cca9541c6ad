#include "terms.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "commands.h"
#include "failovers.h"
#include "judge.h"
#include "mixture.h"
#include "replication.h"
#include "server.h"
#include "world.h"

#define FENCE "lockkeeper_fence:{" SIM_ELECTION "}"
#define RECORD "lockkeeper_election:{" SIM_ELECTION "}"
#define WAITERS "lockkeeper_candidates:{" SIM_ELECTION "}"
#define CHANNEL "redisson_lock__channel:{" SIM_ELECTION "}"
#define TERMS_MAX 1024
#define FORGOTTEN_MS 1000 /* after a loss of data so much later all that was granted is over */
#define REST_MS (SIM_WATCHDOG_MS / 10) /* that one which was told to stop has for it */
#define HEIR_MS 900                    /* for which a place is kept for who is to lead */
#define VALUE_LOOKS 20                 /* so many of these pauses later one leads with its value */
#define VALUE_PAUSE_MS 5

struct term {
	uint64_t number;
	char id[LK_FIELD_SIZE]; /* whose; empty: nobody has seen it */
	const struct sim_candidate *owner;
	int64_t since_ns;
	unsigned server;
	bool told; /* its candidate knows of it: no failover may undo it */
};

struct sim_candidate sim_candidates[SIM_CANDIDATES];
static struct term terms[TERMS_MAX];
static unsigned count;
static bool gives_time;
static int transfers;        /* such calls run now */
static unsigned retirements; /* of all who stood then */
static int retiring;         /* such calls run now */
static bool retires_late;    /* one more may come at any time */
static const struct sim_candidate *heir;
static int64_t heir_until_ns;
static unsigned heir_from; /* how many terms there were as that began */

static unsigned keeper(void)
{
	return sim_mixture_server(0, SIM_ELECTION);
}

static bool has_forgotten(void)
{
	for (unsigned i = 0; i < sim_servers(); i++)
		if (sim_server_forgot_ns(i) > INT64_MIN)
			return true;
	return false;
}

bool sim_terms_judged(void)
{
	for (unsigned i = 0; i < sim_servers(); i++)
		if (sim_server_forgot_ns(i) > sim_now_ns() - FORGOTTEN_MS * SIM_MS)
			return false;
	return sim_is_promised();
}

/* ---- what is on the server ---- */

static const char *field_of(const struct sim_key *key, const char *name)
{
	ssize_t at = key ? sim_item_find(key, sim_word(name)) : -1;
	return at < 0 ? "" : key->items[at].value;
}

/* The candidate that a value is of, or NULL. */
static struct sim_candidate *owner_of(const char *value)
{
	char *end;
	unsigned long number = strtoul(value, &end, 10);
	return end != value && *end == ':' && number < SIM_CANDIDATES ? &sim_candidates[number]
								      : NULL;
}

/* Whose the newest term is says the record, once its script has run. */
static void settle(void)
{
	struct term *last = count > 0 ? &terms[count - 1] : NULL;
	const struct sim_key *record = last ? sim_server_key(last->server, RECORD) : NULL;
	if (!record || last->id[0] || strtoull(field_of(record, "term"), NULL, 10) != last->number)
		return;
	snprintf(last->id, sizeof(last->id), "%s", field_of(record, "id"));
	last->owner = owner_of(field_of(record, "value"));
	if (heir && !heir->leaves && sim_now_ns() < heir_until_ns && sim_is_calm() &&
	    last->owner != heir)
		sim_fail("the place was transferred to candidate %d, and %s leads", heir->number,
			 field_of(record, "value"));
	heir = NULL;
}

/* Two masters may give one term, which is the time, at the same moment: then there are two, and
 * that of the owner is meant, or else the newest. */
static struct term *term_of(uint64_t number, const struct sim_candidate *owner)
{
	struct term *found = NULL;
	settle();
	for (unsigned i = count; i > 0; i--)
		if (terms[i - 1].number == number &&
		    (!found || (owner && terms[i - 1].owner == owner)))
			found = &terms[i - 1];
	return found;
}

static void term_begins(unsigned server, const char *number)
{
	uint64_t term = strtoull(number, NULL, 10);
	settle();
	if (count > 0 && term <= terms[count - 1].number && sim_is_promised() && server == keeper())
		sim_fail("term %" PRIu64 " begins behind term %" PRIu64, term,
			 terms[count - 1].number);
	if (count == TERMS_MAX)
		sim_fail("no room for a term");
	else
		terms[count++] = (struct term){
			.number = term, .since_ns = sim_now_ns(), .server = server};
}

/* ---- who gets the place ---- */

struct standing {
	int priority, standing;
	int64_t since_us, until_ms;
};

static bool read_standing(const char *text, struct standing *out)
{
	return sscanf(text, "%d %d %" SCNd64 " %" SCNd64, &out->priority, &out->standing,
		      &out->since_us, &out->until_ms) == 4;
}

static bool before(const struct standing *left, const struct standing *right)
{
	if (left->standing != right->standing)
		return left->standing < right->standing;
	if (left->priority != right->priority)
		return left->priority > right->priority;
	return left->since_us < right->since_us;
}

static bool listens(struct sim_redis *redis, const char *field)
{
	char channel[256];
	snprintf(channel, sizeof(channel), "%s:%s", CHANNEL, field);
	return sim_channels_listeners(&redis->channels, false, sim_word(channel)) > 0;
}

/* One that leads at once has left those that wait: since when it waited, nobody can say; and where
 * a request may come late, not how it stood when that was sent. */
static bool standing_of(const struct sim_key *waiters, const char *field, struct standing *out)
{
	const struct sim_key *record = sim_server_key(keeper(), RECORD);
	if (read_standing(field_of(waiters, field), out))
		return true;
	const struct sim_candidate *candidate = owner_of(field_of(record, "value"));
	if (strcmp(field_of(record, "id"), field) != 0 || !candidate || !candidate->stands_so ||
	    !sim_is_calm())
		return false;
	*out = (struct standing){.priority = candidate->options.priority,
				 .standing = candidate->options.standing,
				 .since_us = INT64_MIN};
	return true;
}

static void check_first(unsigned server, const char *field)
{
	struct sim_redis *redis = sim_server_redis(server);
	const struct sim_key *waiters = sim_server_key(server, WAITERS);
	struct standing own, other;
	if (!waiters || transfers > 0 || sim_is_cluster() || !standing_of(waiters, field, &own))
		return;
	for (size_t i = 0; i < waiters->count; i++) {
		const struct sim_item *item = &waiters->items[i];
		if (strcmp(item->bytes, field) != 0 && read_standing(item->value, &other) &&
		    other.until_ms >= sim_keys_now_ms(&redis->keys) && before(&other, &own) &&
		    listens(redis, item->bytes))
			sim_fail("%s gets the place, and %s is before it", field, item->bytes);
	}
}

static bool stands_as_wanted(const struct sim_candidate *candidate, const struct standing *stands)
{
	return stands->priority == candidate->options.priority &&
	       stands->standing == candidate->options.standing;
}

/* What one has said last of how it stands is not undone by what came before. Of one that has left,
 * a late try may still bring a place. */
static void check_standings(void)
{
	const struct sim_key *waiters = sim_server_key(keeper(), WAITERS);
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		const struct sim_candidate *each = &sim_candidates[i];
		const char *text = field_of(waiters, each->place);
		struct standing stands;
		if (each->stands_so && !each->leaves && each->place[0] &&
		    read_standing(text, &stands) && !stands_as_wanted(each, &stands))
			sim_fail("candidate %d stands as \"%s\", and wants %d %d", i, text,
				 each->options.priority, each->options.standing);
	}
}

/* A tenth of a lease lies between the end that a leader is told and that on the server. */
static void check_free(const char *field)
{
	for (int i = 0; i < SIM_CANDIDATES; i++) {
		const struct sim_candidate *other = &sim_candidates[i];
		if (other->leaves || strcmp(other->id, field) == 0)
			continue;
		bool had_time = other->led && !other->dead && gives_time;
		if (sim_now_ns() < other->until_ns)
			sim_fail("%s gets the place, and candidate %d leads for %.3f ms more",
				 field, i, (double)(other->until_ns - sim_now_ns()) / 1e6);
		else if (had_time && !other->stopped)
			sim_fail("%s gets the place, and candidate %d was not told to stop", field,
				 i);
		else if (had_time && sim_now_ns() < other->stopped_ns + REST_MS * SIM_MS)
			sim_fail("%s gets the place, and candidate %d has had %.3f ms to stop",
				 field, i, (double)(sim_now_ns() - other->stopped_ns) / 1e6);
	}
}

static void made(unsigned server, const struct sim_key *key, const struct sim_item *item)
{
	/* One that is about to be the master that is meant, or that was it, begins terms, too. */
	if (strcmp(key->name, FENCE) == 0)
		term_begins(server, item->bytes);
	/* What no replica has yet counts for nobody: then what candidates are told is judged. */
	bool counts = sim_is_calm() || !sim_is_replicated();
	if (strcmp(key->name, SIM_ELECTION) != 0 || server != keeper() || !counts ||
	    !sim_terms_judged())
		return;
	check_free(item->bytes);
	check_first(server, item->bytes);
	check_standings();
}

/* ---- candidates ---- */

void sim_candidate_begin(struct sim_candidate *candidate)
{
	candidate->leaves = candidate->led = candidate->stopped = false;
	candidate->stands_so = true;
	candidate->place[0] = '\0';
	candidate->id[0] = '\0';
	candidate->until_ns = 0;
}

void sim_retires(int more, bool known)
{
	retirements++;
	retiring += more;
	retires_late |= !known;
	for (int i = 0; i < SIM_CANDIDATES; i++)
		sim_candidates[i].stands_so = false;
}

void sim_stands_begin(struct sim_candidate *candidate)
{
	candidate->stands_so = false;
	candidate->place[0] = '\0';
	candidate->retired_before = retirements;
}

void sim_stands_end(struct sim_candidate *candidate, bool known)
{
	const struct sim_key *waiters = sim_server_key(keeper(), WAITERS);
	candidate->stands_so = known && candidate->retired_before == retirements && retiring == 0 &&
			       !retires_late;
	for (size_t i = 0; waiters && candidate->stands_so && i < waiters->count; i++) {
		const char *text = waiters->items[i].value, *value = strrchr(text, ' ');
		struct standing stands;
		if (value && owner_of(value + 1) == candidate && read_standing(text, &stands) &&
		    stands_as_wanted(candidate, &stands))
			snprintf(candidate->place, sizeof(candidate->place), "%s",
				 waiters->items[i].bytes);
	}
}

void sim_candidate_stands(struct sim_candidate *candidate)
{
	if (heir == candidate) /* it has left since */
		heir = NULL;
	candidate->leaves = false;
	candidate->until_ns = 0;
	candidate->id[0] = '\0';
	candidate->place[0] = '\0';
}

bool sim_candidate_leads(struct sim_candidate *candidate)
{
	int64_t left_ms = 0, asked_ns = sim_now_ns();
	uint64_t term = 0;
	lk_error error;
	if (lk_election_term(candidate->election, &term, &error) < 0 ||
	    lk_election_remaining_ms(candidate->election, &left_ms, &error) < 0 ||
	    asked_ns + left_ms * SIM_MS <= sim_now_ns())
		return false;
	struct term *told = term_of(term, candidate);
	if (!told) {
		if (sim_is_promised())
			sim_fail("candidate %d leads for term %" PRIu64 ", which never began",
				 candidate->number, term);
		return true;
	}
	told->told = true;
	snprintf(candidate->id, sizeof(candidate->id), "%s", told->id);
	candidate->until_ns = asked_ns + left_ms * SIM_MS;
	for (int i = 0; i < SIM_CANDIDATES; i++)
		if (i != candidate->number && !sim_candidates[i].leaves &&
		    sim_now_ns() < sim_candidates[i].until_ns && !candidate->leaves &&
		    sim_terms_judged())
			sim_fail("candidate %d leads, and so does candidate %d", candidate->number,
				 i);
	return true;
}

static void hears_leading(struct sim_candidate *candidate, const lk_event *event)
{
	struct term *told = term_of(event->fence, candidate);
	if (candidate->led)
		sim_fail("candidate %d is told again that it leads", candidate->number);
	if (event->fence <= candidate->term && sim_is_promised())
		sim_fail("candidate %d is told of an older term", candidate->number);
	if (sim_is_promised() && (!told || (told->id[0] && strcmp(told->id, event->field) != 0)))
		sim_fail("candidate %d is told of a term that is not its own", candidate->number);
	if (told)
		told->told = true;
	candidate->led = true;
	candidate->stopped = false;
	candidate->term = event->fence;
	if (!candidate->leaves)
		snprintf(candidate->id, sizeof(candidate->id), "%s", event->field);
}

void sim_candidate_hears(struct sim_candidate *candidate, const lk_event *event)
{
	switch (event->type) {
	case LK_EVENT_LEADING:
		hears_leading(candidate, event);
		break;
	case LK_EVENT_AT_RISK:
		if (!candidate->led || candidate->stopped)
			sim_fail("candidate %d is at risk, and does not lead", candidate->number);
		break;
	case LK_EVENT_STOP:
		if (!candidate->led || candidate->stopped)
			sim_fail("candidate %d is told to stop, and does not lead",
				 candidate->number);
		candidate->stopped = true;
		candidate->stopped_ns = sim_now_ns();
		candidate->until_ns = 0;
		break;
	case LK_EVENT_ASKED:
		if (!candidate->led)
			sim_fail("candidate %d is asked to hand over, and does not lead",
				 candidate->number);
		candidate->asked = true;
		break;
	case LK_EVENT_NOT_LEADING:
		if (!candidate->led && event->fence)
			sim_fail("candidate %d is told of an end that has no begin",
				 candidate->number);
		candidate->led = candidate->stopped = false;
		candidate->endings++;
		break;
	default:
		sim_fail("candidate %d is told %d", candidate->number, event->type);
	}
}

void sim_transfer_begins(void)
{
	transfers++;
	heir_from = count;
}

void sim_transfer_ends(const struct sim_candidate *to)
{
	transfers--;
	if (!to || count > heir_from) /* it leads already */
		return;
	heir = to;
	heir_until_ns = sim_now_ns() + HEIR_MS * SIM_MS;
}

/* ---- what the server says ---- */

/* A value of that candidate's, and which one; -1: it never had that. */
static int value_of(const struct sim_candidate *candidate, const lk_leader *leader)
{
	int which = leader->value_size > 2 ? atoi(leader->value + 2) : -1;
	return candidate && which >= 0 && which < candidate->values ? which : -1;
}

static void check_value(const lk_leader *leader)
{
	const struct sim_candidate *owner = owner_of(leader->value);
	const struct term *term = term_of(leader->term, owner);
	if (value_of(owner, leader) < 0 || (term && term->owner && term->owner != owner))
		sim_fail("term %" PRIu64 " has the value \"%s\", which its leader never gave it",
			 leader->term, leader->value);
}

void sim_check_leader(const struct sim_candidate *candidate, const lk_leader *leader)
{
	if (!sim_terms_judged())
		return;
	if (leader->vacant || strcmp(leader->id, candidate->id) != 0)
		sim_fail("candidate %d leads, and the server says: %s%s", candidate->number,
			 leader->vacant ? "nobody, before " : "", leader->id);
	else if (owner_of(leader->value) != candidate ||
		 value_of(candidate, leader) < candidate->confirmed)
		sim_fail("candidate %d leads with value %d, and the server says \"%s\"",
			 candidate->number, candidate->confirmed, leader->value);
	else if (candidate->stands_so && candidate->options.standing != LK_STAND_LEAVING &&
		 strncmp(leader->asked, "leav", 4) == 0)
		sim_fail("candidate %d does not leave, and is asked to", candidate->number);
}

void sim_check_value(struct sim_candidate *candidate)
{
	lk_leader leader = LK_LEADER_INIT;
	lk_error error = {.code = 0};
	for (int looks = 0; sim_is_calm() && looks < VALUE_LOOKS; looks++) {
		sim_sleep(VALUE_PAUSE_MS * SIM_MS);
		if (!sim_candidate_leads(candidate) ||
		    lk_election_leader(candidate->election, &leader, &error) < 0 ||
		    strcmp(leader.value, candidate->value) == 0)
			return;
	}
	if (sim_is_calm())
		sim_fail("candidate %d leads with %s, and has said %s", candidate->number,
			 leader.value, candidate->value);
}

/* A failover may undo a term of which no candidate knows yet, and an observer may. */
static bool may_be_undone(const struct term *term)
{
	return sim_is_replicated() && sim_had(SIM_ALL_TROUBLES) && term && !term->told;
}

/* How many terms began between the two; `certain`: which no failover has undone. */
static unsigned terms_between(uint64_t one, uint64_t other, bool certain)
{
	unsigned between = 0;
	for (unsigned i = 0; i < count; i++)
		between += terms[i].number > one && terms[i].number < other && terms[i].id[0] &&
			   !(certain && may_be_undone(&terms[i]));
	return between;
}

static void check_missed(const struct sim_observer *observer, const lk_leader *leader)
{
	const struct term *last = term_of(observer->last.term, owner_of(observer->last.value));
	unsigned certain = terms_between(observer->last.term, leader->term, true);
	bool some = terms_between(observer->last.term, leader->term, false) > 0;
	/* A master that was replaced goes on for a while, and does not know its heir's terms. */
	bool forked = may_be_undone(term_of(leader->term, owner_of(leader->value)));
	if (leader->term < observer->last.term && !(may_be_undone(last) && leader->missed))
		sim_fail("observer %d is told of an older term", observer->number);
	if (certain > 0 && !leader->missed && !forked)
		sim_fail("observer %d has missed %u terms, and is not told so", observer->number,
			 certain);
	if (!some && leader->missed && !may_be_undone(last) && !has_forgotten())
		sim_fail("observer %d has missed nothing, and is told so", observer->number);
}

/* Values of a term follow one another; a failover may undo one that nobody was told of. */
static void check_order(const struct sim_observer *observer, const lk_leader *leader)
{
	const lk_leader *last = &observer->last;
	const struct sim_candidate *owner = owner_of(leader->value);
	bool undone = sim_is_replicated() && sim_had(SIM_ALL_TROUBLES);
	if (leader->term == last->term && owner == owner_of(last->value) && !undone &&
	    value_of(owner, leader) < value_of(owner, last))
		sim_fail("observer %d is told of \"%s\", behind \"%s\"", observer->number,
			 leader->value, last->value);
}

void sim_observed(struct sim_observer *observer, const lk_leader *leader)
{
	if (sim_is_promised() && leader->term > 0) {
		if (!term_of(leader->term, NULL))
			sim_fail("observer %d is told of term %" PRIu64 ", which never began",
				 observer->number, leader->term);
		check_value(leader);
	}
	if (observer->has && sim_is_promised()) {
		check_missed(observer, leader);
		check_order(observer, leader);
	}
	observer->has = true;
	observer->last = *leader;
}

bool sim_observer_knows(const struct sim_observer *observer)
{
	const struct sim_key *record = sim_server_key(keeper(), RECORD);
	const struct sim_key *place = sim_server_key(keeper(), SIM_ELECTION);
	const lk_leader *last = &observer->last;
	bool leads = place && sim_item_find(place, sim_word(field_of(record, "id"))) >= 0;
	return observer->has && last->vacant == !leads &&
	       last->term == strtoull(field_of(record, "term"), NULL, 10) &&
	       strcmp(last->value, field_of(record, "value")) == 0;
}

/* ---- a run ---- */

unsigned sim_term_count(void)
{
	return count;
}

int64_t sim_term_since_ns(void)
{
	return count > 0 ? terms[count - 1].since_ns : INT64_MIN;
}

void sim_terms_check_left(void)
{
	const struct sim_key *place = sim_server_key(keeper(), SIM_ELECTION);
	const struct sim_key *waiters = sim_server_key(keeper(), WAITERS);
	if (place)
		sim_fail("all is over, and %s leads", place->items[0].bytes);
	if (waiters && sim_is_promised())
		sim_fail("all is over, and %s waits", waiters->items[0].bytes);
}

void sim_terms_begin(bool all_run)
{
	memset(sim_candidates, 0, sizeof(sim_candidates));
	count = 0;
	transfers = 0;
	retirements = 0;
	retiring = 0;
	retires_late = false;
	heir = NULL;
	gives_time = all_run;
	sim_server_watch(made);
}
