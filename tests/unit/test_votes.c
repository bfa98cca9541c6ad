/* What the votes of a quorum's nodes come to: tables, and random votes against a plain model. */
#include "unit.h"

#include <stdlib.h>

#include <lockkeeper/error.h>

#include "sync/red/votes.h"

#define NODES_MAX 7
#define RANDOM_ROUNDS 200000

/* What the letter stands for. */
static struct lk__vote vote_of(char letter)
{
	switch (letter) {
	case 'G': /* granted, and counts */
		return (struct lk__vote){.type = LK__VOTE_GRANTED, .tried = true, .granted = true};
	case 'N': /* granted, and does not count */
		return (struct lk__vote){.type = LK__VOTE_NO_VOTE,
					 .tried = true,
					 .granted = true,
					 .code = LK_EUNAVAILABLE};
	case 'Q': /* it has no vote, and was not tried */
		return (struct lk__vote){.type = LK__VOTE_NO_VOTE, .code = LK_EUNAVAILABLE};
	case 'C': /* granted on a connection that was lost since */
		return (struct lk__vote){.type = LK__VOTE_NO_VOTE,
					 .tried = true,
					 .granted = true,
					 .cut_off = true,
					 .code = LK_EUNREACHABLE};
	case 'B':
		return (struct lk__vote){
			.type = LK__VOTE_BUSY, .tried = true, .code = LK_EBUSY, .ttl_ms = 700};
	case 'L':
		return (struct lk__vote){
			.type = LK__VOTE_LATE, .tried = true, .code = LK_EUNAVAILABLE};
	case 'W':
		return (struct lk__vote){
			.type = LK__VOTE_REFUSED, .tried = true, .code = LK_EWRONGTYPE};
	case 'R': /* cannot be reached */
		return (struct lk__vote){.type = LK__VOTE_REFUSED, .code = LK_EUNREACHABLE};
	case 'U':
		return (struct lk__vote){
			.type = LK__VOTE_UNKNOWN, .tried = true, .code = LK_EMAYBEHELD};
	case 'X': /* an error that it would give again */
		return (struct lk__vote){.type = LK__VOTE_UNKNOWN,
					 .tried = true,
					 .lasting = true,
					 .code = LK_EMAYBEHELD};
	case 'D': /* has not the right */
		return (struct lk__vote){
			.type = LK__VOTE_REFUSED, .lasting = true, .code = LK_EDENIED};
	case 'A':
		return (struct lk__vote){.type = LK__VOTE_UNASKED, .code = LK_EUNREACHABLE};
	case 'o': /* tried, no answer yet */
		return (struct lk__vote){.type = LK__VOTE_NONE, .tried = true};
	default: /* has not said yet who it is */
		return (struct lk__vote){.type = LK__VOTE_NONE};
	}
}

static struct lk__verdict verdict_of(const struct lk__vote *vote, size_t nodes, bool worth)
{
	return lk__votes_judge(vote, nodes, nodes / 2 + 1, worth);
}

static struct lk__verdict verdict_in(const char *letters, bool worth)
{
	struct lk__vote vote[NODES_MAX];
	size_t nodes = 0;
	for (; letters[nodes]; nodes++)
		vote[nodes] = vote_of(letters[nodes]);
	return verdict_of(vote, nodes, worth);
}

static void test_decided(void **state)
{
	static const struct {
		const char *votes;
		bool decided;
	} cases[] = {
		{"o", false},
		{"G", true},
		{"B", true},
		{"Goo", false},
		{"GGo", true},
		{"BBo", true},
		{"GBo", false},
		{"NNo", true},
		{"NG.", false},
		{"G..", false},
		{"GGooo", false},
		{"GGGoo", true},
		{"UUUoo", true},
		{"AAooo", false},
		{"GGBB.", false},
		{"GGBBQ", true},
		/* No majority any more: do others have it? */
		{"BRo", false},
		{"BR.", false},
		{"BUo", false},
		{"LRo", false},
		{"RRo", true},
		{"WWo", true},
		{"BBRRo", false},
		{"BBGUo", false},
		{"BBGU.", true},
		{"BBBoo", true},
		{"RRRoo", true},
		{"XXo", true},
		{"DD.", true},
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(verdict_in(cases[i].votes, true).decided, cases[i].decided);
}

static void test_what_the_attempt_is_told(void **state)
{
	static const struct {
		const char *votes;
		enum lk__attempt_event_type type;
		int code;
		bool retryable;
	} cases[] = {
		{"GGo", LK__ATTEMPT_GRANTED, 0, false},
		{"GGGWB", LK__ATTEMPT_GRANTED, 0, false},
		{"BBB", LK__ATTEMPT_BUSY, 0, false},
		{"GBR", LK__ATTEMPT_BUSY, 0, false},
		{"LBR", LK__ATTEMPT_BUSY, 0, false},
		{"LLR", LK__ATTEMPT_LATE, 0, false},
		{"GLR", LK__ATTEMPT_LATE, 0, false},
		{"WWG", LK__ATTEMPT_FAILED, LK_EWRONGTYPE, false},
		{"WGR", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"BRR", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"NNR", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"QQG", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"AA.", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"oU.", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, true},
		{"GCR", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, true},
		{"GoB", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, true},
		{"UUB", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, true},
		{"BXR", LK__ATTEMPT_FAILED, LK_ENOQUORUM, true},
		{"BXB", LK__ATTEMPT_BUSY, 0, false},
		{"GXG", LK__ATTEMPT_GRANTED, 0, false},
		{"XXB", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, false},
		{"XX.", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, false},
		{"XDB", LK__ATTEMPT_FAILED, LK_ENOQUORUM, false},
		{"DDG", LK__ATTEMPT_FAILED, LK_ENOQUORUM, false},
		{"XXGG", LK__ATTEMPT_FAILED, LK_EMAYBEHELD, false},
		{"WWX", LK__ATTEMPT_FAILED, LK_EWRONGTYPE, false},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lk__attempt_event event = verdict_in(cases[i].votes, true).event;
		assert_int_equal(event.type, cases[i].type);
		assert_int_equal(event.code, cases[i].code);
		assert_int_equal(event.retryable, cases[i].retryable);
		assert_int_equal(event.ttl_ms, event.type == LK__ATTEMPT_BUSY ? 700 : 0);
	}
}

/* Its lease is nearly over: it goes back, and until it has it may be held. */
static void test_a_grant_that_is_not_worth_it(void **state)
{
	struct lk__attempt_event event = verdict_in("GGB", false).event;
	assert_int_equal(event.type, LK__ATTEMPT_FAILED);
	assert_int_equal(event.code, LK_EMAYBEHELD);
	assert_true(event.retryable);
}

static void test_who_is_asked_again(void **state)
{
	static const struct {
		char vote;
		bool wants_more, unsure, may_stay;
	} cases[] = {
		{'G', false, false, false}, {'N', false, false, false}, {'C', false, false, true},
		{'Q', true, false, false},  {'B', false, false, false}, {'L', true, false, false},
		{'W', false, false, false}, {'R', true, false, false},  {'U', true, true, true},
		{'A', true, false, false},  {'o', false, true, true},   {'.', true, false, false},
		{'X', true, true, true},    {'D', false, false, false},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lk__vote vote = vote_of(cases[i].vote);
		struct lk__vote_means means = lk__vote_means(&vote);
		assert_int_equal(means.wants_more, cases[i].wants_more);
		assert_int_equal(means.unsure, cases[i].unsure);
		assert_int_equal(means.may_stay, cases[i].may_stay);
		vote.copies = vote.tried; /* one of them may still run, whatever this one said */
		means = lk__vote_means(&vote);
		assert_int_equal(means.unsure, vote.tried);
		assert_int_equal(means.may_stay, vote.tried);
	}
}

/* ---- a plain model: node by node, every way in which it can go on ---- */

static unsigned random_below(unsigned bound)
{
	return (unsigned)random() % bound;
}

static size_t random_votes(struct lk__vote *vote)
{
	static const char letters[] = "GGGNQCBBLWRUXDAoo.";
	size_t nodes = 1 + random_below(NODES_MAX);
	for (size_t i = 0; i < nodes; i++) {
		vote[i] = vote_of(letters[random_below(sizeof(letters) - 1)]);
		if (vote[i].tried && random_below(8) == 0)
			vote[i].copies = true;
		if (vote[i].granted && random_below(8) == 0)
			vote[i].cut_off = true;
		if (vote[i].type == LK__VOTE_BUSY)
			vote[i].ttl_ms = random_below(1000);
	}
	return nodes;
}

/* More than half of them. */
static bool most(size_t some, size_t nodes)
{
	return 2 * some > nodes;
}

/* Whether there is a majority when those that are silent answer as the bits say. */
static bool model_granted(const struct lk__vote *vote, size_t nodes, unsigned answers)
{
	size_t granted = 0;
	for (size_t i = 0; i < nodes; i++) {
		bool silent = vote[i].type == LK__VOTE_NONE;
		granted += silent ? answers >> i & 1 : vote[i].type == LK__VOTE_GRANTED;
	}
	return most(granted, nodes);
}

/* Whether a majority may have the lock though everything known of was released. */
static bool model_may_be_held(const struct lk__vote *vote, size_t nodes)
{
	size_t may = 0;
	for (size_t i = 0; i < nodes; i++) {
		bool counts = vote[i].type == LK__VOTE_GRANTED;
		bool silent = vote[i].tried && vote[i].type == LK__VOTE_NONE;
		bool unknown = vote[i].type == LK__VOTE_UNKNOWN;
		may += counts || silent || unknown || vote[i].copies ||
		       (vote[i].granted && vote[i].cut_off);
	}
	return most(may, nodes);
}

static size_t model_count(const struct lk__vote *vote, size_t nodes, enum lk__vote_type type)
{
	size_t count = 0;
	for (size_t i = 0; i < nodes; i++)
		count += vote[i].type == type;
	return count;
}

/* Whether a majority could be had as soon as those who are busy let go, and the clock is known. */
static bool model_others_only(const struct lk__vote *vote, size_t nodes)
{
	return most(model_count(vote, nodes, LK__VOTE_GRANTED) +
			    model_count(vote, nodes, LK__VOTE_BUSY) +
			    model_count(vote, nodes, LK__VOTE_LATE),
		    nodes);
}

/* Whether others have it, if those that are silent say so or nothing at all, as the bits tell. */
static bool model_busy(const struct lk__vote *given, size_t nodes, unsigned answers)
{
	struct lk__vote vote[NODES_MAX];
	size_t wrong = 0;
	for (size_t i = 0; i < nodes; i++) {
		bool copies = given[i].copies;
		vote[i] = given[i];
		if (given[i].type == LK__VOTE_NONE && (answers >> i & 1)) {
			vote[i] = vote_of('B');
			vote[i].copies = copies;
		}
		wrong += vote[i].code == LK_EWRONGTYPE;
	}
	return model_others_only(vote, nodes) && model_count(vote, nodes, LK__VOTE_BUSY) > 0 &&
	       !model_may_be_held(vote, nodes) && most(nodes - wrong, nodes);
}

/* Whether it is the same whatever they answer: granted or not, and if not, that others have it or
 * that this cannot be known. */
static bool model_decided(const struct lk__vote *vote, size_t nodes)
{
	bool first = model_granted(vote, nodes, 0);
	for (unsigned answers = 1; answers < 1u << nodes; answers++)
		if (model_granted(vote, nodes, answers) != first)
			return false;
	if (first || model_busy(vote, nodes, 0))
		return true;
	for (unsigned answers = 1; answers < 1u << nodes; answers++)
		if (model_busy(vote, nodes, answers))
			return false;
	return true;
}

static void check_verdict(const struct lk__vote *vote, size_t nodes, bool worth)
{
	const struct lk__verdict verdict = verdict_of(vote, nodes, worth);
	const struct lk__attempt_event event = verdict.event;
	bool granted = most(model_count(vote, nodes, LK__VOTE_GRANTED), nodes);
	size_t busy = model_count(vote, nodes, LK__VOTE_BUSY), wrong = 0;
	int64_t ttl_ms = 0;
	for (size_t i = 0; i < nodes; i++) {
		wrong += vote[i].code == LK_EWRONGTYPE;
		if (vote[i].ttl_ms > ttl_ms)
			ttl_ms = vote[i].ttl_ms;
	}
	assert_int_equal(verdict.granted, model_count(vote, nodes, LK__VOTE_GRANTED));
	assert_int_equal(verdict.decided, model_decided(vote, nodes));
	assert_int_equal(event.type == LK__ATTEMPT_GRANTED, granted && worth);
	if (event.type == LK__ATTEMPT_GRANTED)
		return;
	size_t lasting = 0;
	for (size_t i = 0; i < nodes; i++)
		lasting += vote[i].lasting;
	if (event.code == LK_EMAYBEHELD || event.code == LK_ENOQUORUM)
		assert_int_equal(event.retryable, most(nodes - lasting, nodes));
	assert_int_equal(event.code == LK_EMAYBEHELD, model_may_be_held(vote, nodes));
	if (event.code == LK_EMAYBEHELD)
		return;
	bool hopeless = !most(nodes - wrong, nodes);
	bool others_only = !hopeless && model_others_only(vote, nodes);
	assert_int_equal(event.code == LK_EWRONGTYPE, hopeless);
	assert_int_equal(event.type == LK__ATTEMPT_BUSY, others_only && busy > 0);
	assert_int_equal(event.type == LK__ATTEMPT_LATE, others_only && busy == 0);
	assert_int_equal(event.code == LK_ENOQUORUM, !hopeless && !others_only);
	assert_int_equal(event.ttl_ms, event.type == LK__ATTEMPT_BUSY ? ttl_ms : 0);
}

static void test_random_votes(void **state)
{
	struct lk__vote vote[NODES_MAX];
	srandom(20);
	for (int round = 0; round < RANDOM_ROUNDS; round++) {
		size_t nodes = random_votes(vote);
		check_verdict(vote, nodes, random_below(8) != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decided),
		cmocka_unit_test(test_what_the_attempt_is_told),
		cmocka_unit_test(test_a_grant_that_is_not_worth_it),
		cmocka_unit_test(test_who_is_asked_again),
		cmocka_unit_test(test_random_votes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
