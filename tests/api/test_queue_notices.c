/* Notices through a completion queue: each one once, none lost, none that is out of date. */
#include "queued.h"

#include <sys/wait.h>
#include <unistd.h>

#define TAG 99 /* of the request itself */

static uint64_t begin_notices(lk_client *of)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue, request_of(NOTICE, .client = of, .tag = TAG), &id, &err));
	check(id != 0);
	return id;
}

/* Holds it without renewal: at risk after the first third of the lease, lost at its end. */
static lk_acquire_options unrenewed(const char *owner, uint64_t tag, int64_t lease_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = owner;
	options.tag = tag;
	options.lease_ms = slow_ms(lease_ms);
	options.margin_ms = options.lease_ms * 2 / 3;
	return options;
}

static void hold(lk_lock *lock, const char *owner, uint64_t tag, int64_t lease_ms)
{
	lk_acquire_options options = unrenewed(owner, tag, lease_ms);
	check_int(acquire_apart(lock, &options), ==, 0);
}

static void release_lost(lk_lock *lock, const char *owner)
{
	check_int(release_apart(lock, owner), ==, LK_ELOST);
}

static lk_completion next_notice(uint64_t id, int event, uint64_t tag)
{
	lk_completion got = completed(id, 0);
	check_int(got.operation, ==, LK_OP_NOTICE);
	check_int(got.event, ==, event);
	check_int(got.tag, ==, tag);
	return got;
}

/* The end of a request for notices, and nothing behind it. */
static void ended(uint64_t id, int code)
{
	lk_completion got = completed(id, code);
	check_int(got.operation, ==, LK_OP_NOTICE);
	check_int(got.event, ==, 0);
	check_int(got.tag, ==, TAG);
	check(!queue_is_readable());
	expect(0, lk_queue_take(queue, &got, 1, 0, &err));
	expect(0, lk_queue_cancel(queue, id, &err));
}

static void end_notices(uint64_t id)
{
	expect(1, lk_queue_cancel(queue, id, &err));
	check(queue_is_readable());
	ended(id, LK_ECANCELLED);
}

/* ---- what they say ---- */

static void test_notices_are_completions(void **state)
{
	lk_acquire_options options = unrenewed("task", 7, 600);
	lk_lock *lock = NULL;
	open_queue();
	expect(0, lk_fenced_lock_new(&lock, client, "fenced", LK_STRLEN, NULL, &err));
	uint64_t id = begin_notices(client);
	starts(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options, .tag = options.tag);
	lk_completion acquired = next_completion();
	check_int(acquired.operation, ==, LK_OP_ACQUIRE);
	check_int(acquired.event, ==, 0);
	check(!queue_is_readable());
	lk_completion risk = next_notice(id, LK_EVENT_AT_RISK, 7);
	check_int(risk.deadline_ns, ==, acquired.deadline_ns);
	check_int(risk.deadline_ns, >, now_ns());
	check(!strcmp(risk.field, acquired.field));
	check_int(risk.fence, ==, acquired.fence);
	check(!queue_is_readable());
	lk_completion lost = next_notice(id, LK_EVENT_LOST, 7);
	check_int(lost.deadline_ns, <=, now_ns());
	check(!strcmp(lost.field, acquired.field));
	check(!queue_is_readable());
	completed(begin_release(lock, "task"), LK_ELOST);
	lk_lock_free(lock);
	redis_do(&server, "DEL lockkeeper_fence:{fenced}");
	end_notices(id);
	close_queue(0);
}

/* Why a renewal did not come off, as lk_event has it. */
static void test_notices_say_why(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char config[64];
	options.owner = "task";
	snprintf(config, sizeof(config), "watchdog_ms=%lld", slow_ms(1500));
	open_queue_with(config);
	lk_lock *lock = new_lock(client, "why");
	uint64_t id = begin_notices(client);
	check_int(acquire_apart(lock, &options), ==, 0);
	redis_do(&server, "CONFIG SET min-replicas-to-write 1");
	for (int event = LK_EVENT_AT_RISK; event <= LK_EVENT_LOST; event++) {
		lk_completion got = next_notice(id, event, 0);
		check_int(got.reason_code, ==, LK_EREFUSED);
		check(strstr(got.reason, "NOREPLICAS"));
		check(*got.server && !strcmp(got.server, got.node));
	}
	redis_do(&server, "CONFIG SET min-replicas-to-write 0");
	release_lost(lock, "task");
	lk_lock_free(lock);
	end_notices(id);
	close_queue(0);
}

static void hold_until_the_end(size_t index, void *argument)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.tag = 5;
	expect(0, lk_lock_acquire(argument, -1, &options, &err));
}

static void test_a_thread_that_ends_while_it_holds(void **state)
{
	struct threads thread;
	needs_a_thread();
	open_queue();
	lk_lock *lock = new_lock(client, "thread");
	uint64_t id = begin_notices(client);
	threads_start(&thread, 1, hold_until_the_end, lock);
	threads_join(&thread, 20000);
	next_notice(id, LK_EVENT_ABANDONED, 5);
	check(!queue_is_readable());
	end_notices(id);
	lk_lock_free(lock);
	close_queue(0);
}

/* The completion of the acquire and its notices wait together: it comes first. If the lock is lost
 * by then, it says so, and there is no notice about a hold that nobody has heard of. */
static void test_the_completion_of_the_acquire_comes_first(void **state)
{
	lk_acquire_options options = unrenewed("task", 7, 2000);
	open_queue();
	lk_lock *lock = new_lock(client, "first"), *before = new_lock(client, "before");
	uint64_t id = begin_notices(client);
	hold(before, "other", 3, 150);
	wait_until(queue_is_readable(), 5000); /* notices of another hold are in front */
	uint64_t first, second;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = &options, .tag = options.tag),
				 &first, &err));
	sleep_ms(slow_ms(1000)); /* at risk now */
	next_notice(id, LK_EVENT_AT_RISK, 3);
	completed(first, 0);
	next_notice(id, LK_EVENT_LOST, 3);
	next_notice(id, LK_EVENT_AT_RISK, 7);
	release(lock, "task");
	release_lost(before, "other");
	check(!queue_is_readable());
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = &options, .tag = options.tag),
				 &second, &err));
	wait_until(stats_of(client).lost == 2, 5000);
	completed(second, LK_EMAYBEHELD);
	check(!queue_is_readable());
	end_notices(id);
	lk_lock_free(lock);
	lk_lock_free(before);
	close_queue(0);
}

/* ---- none is lost, none is out of date ---- */

#define HOLDS 200

/* The queue has room for one request, and nobody takes until all is over. */
static void test_a_small_queue_drops_none(void **state)
{
	static lk_lock *locks[HOLDS];
	int risks[HOLDS] = {0}, losses[HOLDS] = {0};
	lk_acquire_options options = unrenewed("task", 0, 100);
	lk_completion got = LK_COMPLETION_INIT;
	client = open_driven("%s", "");
	expect(0, lk_queue_new(&queue, 1, &err));
	begin_notices(client);
	expect(LK_ELIMIT, lk_queue_start(queue, request_of(NOTICE, .client = client), NULL, &err));
	for (size_t i = 0; i < HOLDS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "small-%zu", i);
		locks[i] = new_lock(client, name);
		hold(locks[i], "task", i, 1500);
	}
	expect(LK_ELIMIT, lk_queue_start(queue,
					 request_of(ACQUIRE, .lock = locks[0], .acquire = &options,
						    .tag = options.tag),
					 NULL, &err));
	wait_until(stats_of(client).lost == HOLDS, 20000);
	for (int i = 0; i < 2 * HOLDS; i++) {
		got = next_completion();
		check_int(got.tag, <, HOLDS);
		(got.event == LK_EVENT_LOST ? losses : risks)[got.tag]++;
	}
	check(!queue_is_readable());
	for (size_t i = 0; i < HOLDS; i++) {
		check_int(risks[i], ==, 1);
		check_int(losses[i], ==, 1);
		release_lost(locks[i], "task");
		lk_lock_free(locks[i]);
	}
	close_queue(1);
}

static void test_a_release_deletes_its_notice(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "deletes"), *other = new_lock(client, "stays");
	uint64_t id = begin_notices(client);
	hold(lock, "task", 1, 3000);
	wait_until(queue_is_readable(), 5000);
	check_int(release_apart(lock, "task"), ==, 0);
	check(!queue_is_readable());
	hold(lock, "task", 2, 3000);
	hold(other, "task", 3, 3000);
	sleep_ms(slow_ms(1200)); /* both are at risk */
	check_int(release_apart(lock, "task"), ==, 0);
	next_notice(id, LK_EVENT_AT_RISK, 3);
	check(!queue_is_readable());
	release(other, "task");
	hold(lock, "task", 4, 3000);
	wait_until(queue_is_readable(), 5000);
	expect(1, lk_queue_cancel(queue, id, &err));
	check_int(release_apart(lock, "task"), ==, 0); /* the end still waits */
	check(queue_is_readable());
	ended(id, LK_ECANCELLED);
	lk_lock_free(lock);
	lk_lock_free(other);
	close_queue(0);
}

static void test_notices_that_wait_already(void **state)
{
	lk_event event = LK_EVENT_INIT;
	open_queue();
	lk_lock *lock = new_lock(client, "already");
	hold(lock, "task", 4, 300);
	wait_until(stats_of(client).lost == 1, 5000);
	uint64_t id = begin_notices(client);
	check(queue_is_readable());
	check(strstr(server.url_unix, next_notice(id, LK_EVENT_AT_RISK, 4).node));
	/* What is left when the request ends, stays with the client. */
	end_notices(id);
	check_int(next_event(client, &event, 0), ==, LK_EVENT_LOST);
	id = begin_notices(client);
	check(!queue_is_readable());
	end_notices(id);
	release_lost(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* A client that has more notices lets others pass between them. */
static void test_several_at_a_time(void **state)
{
	lk_completion got[8] = {LK_COMPLETION_INIT};
	open_queue();
	lk_lock *lost = new_lock(client, "lost"), *lock = new_lock(client, "held");
	uint64_t id = begin_notices(client);
	hold(lost, "task", 1, 300);
	wait_until(stats_of(client).lost == 1, 5000);
	uint64_t first = begin_acquire(lock, "task", -1, 0);
	uint64_t second = begin_acquire(lock, "task", -1, 0);
	wait_until(lk_lock_hold_count(lock, "task", &err) == 2, 5000);
	sleep_ms(slow_ms(200)); /* both have completed, too */
	check_int(lk_queue_take(queue, got, 2, 0, &err), ==, 2);
	check_int(got[0].id, ==, id);
	check_int(got[1].id, ==, first);
	check_int(lk_queue_take(queue, got, COUNT(got), 0, &err), ==, 2);
	check_int(got[0].id, ==, second);
	check_int(got[1].id, ==, id);
	check_int(got[1].event, ==, LK_EVENT_LOST);
	check(!queue_is_readable());
	release(lock, "task");
	release(lock, "task");
	release_lost(lost, "task");
	lk_lock_free(lost);
	lk_lock_free(lock);
	close_queue(1);
}

/* ---- many ---- */

static void test_two_clients_on_one_queue(void **state)
{
	open_queue();
	lk_client *other = open_driven("%s", "");
	lk_lock *lock = new_lock(client, "mine"), *theirs = new_lock(other, "theirs");
	uint64_t mine = begin_notices(client), others = begin_notices(other);
	hold(theirs, "task", 1, 300);
	next_notice(others, LK_EVENT_AT_RISK, 1);
	next_notice(others, LK_EVENT_LOST, 1);
	hold(lock, "task", 2, 300);
	next_notice(mine, LK_EVENT_AT_RISK, 2);
	expect(1, lk_queue_cancel(queue, others, &err));
	completed(others, LK_ECANCELLED);
	next_notice(mine, LK_EVENT_LOST, 2);
	release_lost(lock, "task");
	release_lost(theirs, "task");
	lk_lock_free(lock);
	lk_lock_free(theirs);
	end_notices(mine);
	expect(0, program_close(other, LK_CLOSE_IF_IDLE, &err));
	program_free(other);
	close_queue(0);
}

static void test_one_client_has_one_queue(void **state)
{
	lk_queue *second = NULL;
	uint64_t other = 5;
	open_queue();
	expect(0, lk_queue_new(&second, 0, &err));
	uint64_t id = begin_notices(client);
	expect(LK_EINVAL,
	       lk_queue_start(second, request_of(NOTICE, .client = client), &other, &err));
	check(strstr(err.message, "another queue") != NULL);
	expect(LK_EINVAL,
	       lk_queue_start(queue, request_of(NOTICE, .client = client), &other, &err));
	check(strstr(err.message, "this queue") != NULL);
	check_int(other, ==, 5);
	expect(0, lk_queue_cancel(second, id, &err));
	expect(1, lk_queue_cancel(queue, id, &err));
	expect(1, lk_queue_cancel(queue, id, &err));
	expect(LK_EINVAL, lk_queue_start(second, request_of(NOTICE, .client = client), NULL,
					 &err)); /* its end waits */
	ended(id, LK_ECANCELLED);
	expect(0, lk_queue_start(second, request_of(NOTICE, .client = client), &other, &err));
	expect(LK_EPENDING, lk_queue_free(second, &err));
	expect(1, lk_queue_cancel(second, other, &err));
	expect(LK_EPENDING, lk_queue_free(second, &err));
	lk_completion got = LK_COMPLETION_INIT;
	expect(1, lk_queue_take(second, &got, 1, 0, &err));
	expect(0, lk_queue_free(second, &err));
	close_queue(0);
}

struct takers {
	_Atomic int risks[HOLDS], losses[HOLDS], ends, taken;
};

static void note(struct takers *takers, uint64_t tag, int event)
{
	check_int(tag, <, HOLDS);
	(event == LK_EVENT_LOST ? takers->losses : takers->risks)[tag]++;
	takers->taken++;
}

/* Two thirds take from the queue, one at a time or several; the others wait for events. */
static void take_until_the_end(size_t index, void *argument)
{
	struct takers *takers = argument;
	lk_completion got[3] = {LK_COMPLETION_INIT};
	lk_event event = LK_EVENT_INIT;
	while (takers->ends == 0) {
		if (index % 3 == 2) {
			if (lk_event_wait(client, &event, 1, NULL, NULL) == 1)
				note(takers, event.tag, event.type);
			continue;
		}
		int count = lk_queue_take(queue, got, index % 3 ? 3 : 1, 1, &err);
		for (int i = 0; i < count; i++) {
			if (got[i].error.code)
				takers->ends++;
			else
				note(takers, got[i].tag, got[i].event);
		}
	}
}

static void test_each_goes_to_one_thread(void **state)
{
	static lk_lock *locks[HOLDS];
	static struct takers takers;
	struct threads threads;
	memset(&takers, 0, sizeof(takers));
	open_queue();
	uint64_t id = begin_notices(client);
	threads_start(&threads, 6, take_until_the_end, &takers);
	for (size_t i = 0; i < HOLDS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "one-%zu", i);
		locks[i] = new_lock(client, name);
		hold(locks[i], "task", i, 100 + i % 7);
	}
	wait_until(takers.taken == 2 * HOLDS, 20000);
	check(!queue_is_readable());
	expect(1, lk_queue_cancel(queue, id, &err));
	threads_join(&threads, 20000);
	check_int(takers.ends, ==, 1);
	for (size_t i = 0; i < HOLDS; i++) {
		check_int(takers.risks[i], ==, 1);
		check_int(takers.losses[i], ==, 1);
		release_lost(locks[i], "task");
		lk_lock_free(locks[i]);
	}
	close_queue(0);
}

/* Requests come and go while notices do: each ends once, and no notice with them. */
struct changing {
	_Atomic bool over;
	_Atomic int begun, ends, taken;
};

static void begin_and_cancel(size_t index, void *argument)
{
	struct changing *changing = argument;
	while (!changing->over) {
		uint64_t id = 0;
		if (lk_queue_start(queue, request_of(NOTICE, .client = client, .tag = TAG), &id,
				   NULL) < 0)
			continue;
		changing->begun++;
		expect(1, lk_queue_cancel(queue, id, &err));
	}
}

static void take_all(size_t index, void *argument)
{
	struct changing *changing = argument;
	lk_completion got[4] = {LK_COMPLETION_INIT};
	for (int count = 1; count > 0 || !changing->over;) {
		count = lk_queue_take(queue, got, COUNT(got), 1, &err);
		for (int i = 0; i < count; i++)
			(*(got[i].error.code ? &changing->ends : &changing->taken))++;
	}
}

static void change(size_t index, void *argument)
{
	(index % 2 ? begin_and_cancel : take_all)(index, argument);
}

static void test_requests_come_and_go(void **state)
{
	enum { LOCKS = 40 };
	lk_lock *locks[LOCKS];
	struct changing changing = {0};
	struct threads threads;
	lk_event event = LK_EVENT_INIT;
	int left = 0;
	open_queue();
	threads_start(&threads, 4, change, &changing);
	for (size_t i = 0; i < LOCKS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "change-%zu", i);
		locks[i] = new_lock(client, name);
		hold(locks[i], "task", i, 300);
	}
	wait_until(stats_of(client).lost == LOCKS, 20000);
	changing.over = true;
	threads_join(&threads, 20000);
	take_all(0, &changing); /* what was begun last */
	while (lk_event_wait(client, &event, 0, NULL, &err) == 1)
		left++;
	check_int(changing.begun, ==, changing.ends);
	check_int(changing.taken + left, ==, 2 * LOCKS);
	print_message("%d requests, %d notices taken\n", changing.begun, changing.taken);
	check(!queue_is_readable());
	for (size_t i = 0; i < LOCKS; i++) {
		release_lost(locks[i], "task");
		lk_lock_free(locks[i]);
	}
	close_queue(0);
}

/* ---- ends ---- */

static void test_close_ends_the_request_after_the_last_notice(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "close"), *lost = new_lock(client, "lost");
	uint64_t id = begin_notices(client);
	hold(lost, "task", 8, 300);
	wait_until(stats_of(client).lost == 1, 5000);
	hold(lock, "task", 9, 60000);
	expect(LK_EHELD, program_close(client, LK_CLOSE_IF_IDLE, &err));
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	expect(LK_EPENDING, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	lk_lock_free(lost);
	program_free(client); /* its memory stays */
	next_notice(id, LK_EVENT_AT_RISK, 8);
	next_notice(id, LK_EVENT_LOST, 8);
	check(queue_is_readable());
	expect(LK_EPENDING, lk_queue_free(queue, &err));
	ended(id, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
}

/* Its locks are not all back yet: the request is not over. */
static void test_a_close_that_is_not_done(void **state)
{
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	lk_completion got = LK_COMPLETION_INIT;
	needs_a_thread();
	client = open_driven("command_timeout_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "late");
	uint64_t id = begin_notices(client);
	release.no_wait = 1;
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	server_pause(&server);
	expect(0, lk_lock_release(lock, &release, &err));
	expect(LK_EMAYBEHELD, program_close(client, LK_CLOSE_RELEASE, &err));
	check(!queue_is_readable());
	expect(0, lk_queue_take(queue, &got, 1, 0, &err));
	server_resume(&server);
	wait_until(program_close(client, LK_CLOSE_RELEASE, &err) == 0, 5000);
	ended(id, LK_ECLOSED);
	lk_lock_free(lock);
	program_free(client);
	expect(0, lk_queue_free(queue, &err));
}

static void test_free_ends_the_request(void **state)
{
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	uint64_t id = begin_notices(client);
	check(!queue_is_readable());
	program_free(client);
	check(queue_is_readable());
	expect(1, lk_queue_cancel(queue, id, &err)); /* at its end already: once */
	expect(1, lk_queue_take(queue, &got, 1, 0, &err));
	check_int(got.id, ==, id);
	check(!queue_is_readable());
	expect(0, lk_queue_free(queue, &err));
}

static void take_one(size_t index, void *argument)
{
	lk_completion *got = argument;
	expect(1, lk_queue_take(queue, got, 1, -1, &err));
}

static void test_close_wakes_who_takes(void **state)
{
	struct threads thread;
	lk_completion got = LK_COMPLETION_INIT;
	open_queue();
	uint64_t id = begin_notices(client);
	threads_start(&thread, 1, take_one, &got);
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	program_free(client);
	threads_join(&thread, 5000);
	check_int(got.id, ==, id);
	check_int(got.error.code, ==, LK_ECLOSED);
	expect(0, lk_queue_free(queue, &err));
}

/* Of a threadless client, whose close is a request like the others. */
static void test_the_completion_of_the_close_comes_last(void **state)
{
	uint64_t close;
	if (!program_drives())
		check_skip("it takes a client that the program drives");
	open_queue();
	lk_lock *lock = new_lock(client, "last");
	uint64_t id = begin_notices(client);
	hold(lock, "task", 1, 300);
	wait_until(stats_of(client).lost == 1, 5000);
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = LK_CLOSE_RELEASE),
			      &close, &err));
	sleep_ms(slow_ms(100)); /* all of them wait */
	next_notice(id, LK_EVENT_AT_RISK, 1);
	next_notice(id, LK_EVENT_LOST, 1);
	check_int(completed(id, LK_ECLOSED).event, ==, 0);
	check_int(completed(close, 0).operation, ==, LK_OP_CLOSE);
	lk_lock_free(lock);
	program_free(client);
	expect(0, lk_queue_free(queue, &err));
}

/* ---- what is refused ---- */

static void test_bad_input(void **state)
{
	uint64_t id = 5;
	open_queue();
	lk_client *closed = open_client();
	expect(0, program_close(closed, LK_CLOSE_IF_IDLE, &err));
	expect(LK_EINVAL, lk_queue_start(NULL, request_of(NOTICE, .client = client), &id, &err));
	expect(LK_EINVAL, lk_queue_start(queue, request_of(NOTICE, .client = NULL), &id, &err));
	expect(LK_ECLOSED, lk_queue_start(queue, request_of(NOTICE, .client = closed), &id, &err));
	check_int(id, ==, 5);
	check_int(lk_queue_start(queue, request_of(NOTICE, .client = NULL), NULL, NULL), ==,
		  LK_EINVAL);
	program_free(closed);
	check(!queue_is_readable());
	starts(NOTICE, .client = client, .tag = TAG); /* the id is optional */
	close_queue(1);
}

static int in_child(lk_client *own, uint64_t id)
{
	lk_completion got = LK_COMPLETION_INIT;
	lk_queue *new = NULL;
	return lk_queue_start(queue, request_of(NOTICE, .client = client), NULL, NULL) ==
		       LK_EFORKED &&
	       lk_queue_take(queue, &got, 1, 0, NULL) == LK_EFORKED &&
	       lk_queue_cancel(queue, id, NULL) == LK_EFORKED && lk_queue_free(queue, NULL) == 0 &&
	       lk_queue_new(&new, 0, NULL) == 0 &&
	       lk_queue_start(new, request_of(NOTICE, .client = own), NULL, NULL) == LK_EFORKED &&
	       lk_queue_free(new, NULL) == 0;
}

static void test_fork(void **state)
{
	int status = -1;
	open_queue();
	lk_lock *lock = new_lock(client, "fork");
	uint64_t id = begin_notices(client);
	hold(lock, "task", 6, 300);
	wait_until(stats_of(client).lost == 1, 5000);
	pid_t child = fork();
	if (child == 0)
		_exit(in_child(client, id) ? 0 : 1);
	waitpid(child, &status, 0);
	check_int(status, ==, 0);
	next_notice(id, LK_EVENT_AT_RISK, 6);
	next_notice(id, LK_EVENT_LOST, 6);
	end_notices(id);
	release_lost(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_notices_are_completions),
		api_test(test_notices_say_why),
		api_test(test_a_thread_that_ends_while_it_holds),
		api_test(test_the_completion_of_the_acquire_comes_first),
		api_test(test_a_small_queue_drops_none),
		api_test(test_a_release_deletes_its_notice),
		api_test(test_notices_that_wait_already),
		api_test(test_several_at_a_time),
		api_test(test_two_clients_on_one_queue),
		api_test(test_one_client_has_one_queue),
		api_test(test_each_goes_to_one_thread),
		api_test(test_requests_come_and_go),
		api_test(test_close_ends_the_request_after_the_last_notice),
		api_test(test_a_close_that_is_not_done),
		api_test(test_free_ends_the_request),
		api_test(test_close_wakes_who_takes),
		api_test(test_the_completion_of_the_close_comes_last),
		api_test(test_bad_input),
		api_test(test_fork),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
