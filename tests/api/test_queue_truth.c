/* Asynchronous calls: a completion says what is true when it is taken, of every kind of lock. */
#include "queued.h"

/* By calls that block. */
static void take_blocking(lk_lock *lock, const char *owner)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = owner;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
}

static void release_blocking(lk_lock *lock, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = owner;
	expect(0, lk_lock_release(lock, &options, &err));
}

/* ---- waits of every kind ---- */

/* One kind excludes the other, and the holder is another client, whose calls block. */
static void waits_for(enum kind theirs, enum kind ours)
{
	lk_client *other = open_client();
	lk_lock *held = new_kind(theirs, other), *lock = new_kind(ours, client);
	take_blocking(held, "holder");
	completed(begin_acquire(lock, "task", 0, 0), LK_EBUSY);
	int64_t begun_ms = now_ms();
	completed(begin_acquire(lock, "task", slow_ms(250), 0), LK_ETIMEDOUT);
	check_int(now_ms() - begun_ms, >=, slow_ms(250));
	uint64_t id = begin_acquire(lock, "task", -1, 3);
	wait_until(stats_of(client).waiting == 1, 5000);
	check(!queue_is_readable());
	release_blocking(held, "holder");
	check_int(completed(id, 0).tag, ==, 3);
	release(lock, "task");
	lk_lock_free(lock);
	lk_lock_free(held);
	close_client(other);
	redis_do(&server, "DEL lockkeeper_fence:{kind}");
}

static void test_every_kind_waits_for_another_client(void **state)
{
	open_queue();
	for (size_t i = 0; i < KINDS; i++)
		if (i != KIND_READ)
			waits_for(i, i);
	waits_for(KIND_READ, KIND_WRITE);
	waits_for(KIND_WRITE, KIND_READ);
	close_queue(0);
}

static void test_a_reader_does_not_become_a_writer(void **state)
{
	open_queue();
	lk_lock *writer = new_kind(KIND_WRITE, client), *reader = new_kind(KIND_READ, client);
	acquire(reader, "task");
	completed(begin_acquire(writer, "task", -1, 0), LK_EUPGRADE);
	release(reader, "task");
	acquire(writer, "task");
	acquire(reader, "task"); /* a downgrade */
	release(writer, "task");
	release(reader, "task");
	lk_lock_free(writer);
	lk_lock_free(reader);
	close_queue(0);
}

/* ---- order of arrival, over clients and over both ways to wait ---- */

struct place {
	lk_lock *lock;
	_Atomic bool served;
};

/* ---- grants that are taken too late ---- */

/* The server has lost it, and the watchdog has noticed, before the completion is taken. */
static void test_a_loss_before_it_was_taken(void **state)
{
	lk_event event = LK_EVENT_INIT;
	int type;
	client = open_driven("watchdog_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "lost");
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(queue_is_readable(), 5000);
	redis_do(&server, "DEL lost");
	do
		type = next_event(client, &event, 5000);
	while (type == LK_EVENT_AT_RISK);
	check_int(type, ==, LK_EVENT_LOST);
	completed(id, LK_EMAYBEHELD);
	acquire(lock, "task");
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* ---- grants that are taken after a close ---- */

static void test_a_grant_keeps_its_client_open(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "open");
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(queue_is_readable(), 5000);
	expect(LK_EHELD, program_close(client, LK_CLOSE_IF_IDLE, &err));
	completed(id, 0);
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

/* The close has released it: a completion that said 0 would not be true. */
static void test_taken_after_a_close_that_released(void **state)
{
	open_queue();
	lk_lock *lock = new_lock(client, "closed");
	begin_acquire(lock, "task", -1, 0);
	wait_until(queue_is_readable(), 5000);
	expect(0, program_close(client, LK_CLOSE_RELEASE, &err));
	check_int(redis_integer(&server, "EXISTS closed"), ==, 0);
	lk_completion got = next_completion();
	lk_lock_free(lock);
	close_queue(0);
	check(got.error.code == LK_ECLOSED || got.error.code == LK_EMAYBEHELD);
}

/* The try is on its way when the client is closed: it may be held until that was given back. */
static void test_closed_over_a_try(void **state)
{
	for (int late = 0; late < 2; late++) {
		open_queue_with(command_limit(300));
		lk_lock *lock = new_lock(client, "over");
		acquire(lock, "task");
		release(lock, "task");
		server_pause(&server);
		uint64_t sent = stats_of(client).commands;
		uint64_t id = begin_acquire(lock, "task", -1, 0);
		wait_until(stats_of(client).commands > sent, 5000);
		expect(LK_EMAYBEHELD, program_close(client, LK_CLOSE_RELEASE, &err));
		if (!late)
			completed(id, LK_EMAYBEHELD);
		server_resume(&server);
		wait_until(program_close(client, LK_CLOSE_RELEASE, &err) == 0, 20000);
		check_int(redis_integer(&server, "EXISTS over"), ==, 0);
		if (late)
			completed(id, LK_ECLOSED);
		lk_lock_free(lock);
		close_queue(0);
	}
}

/* ---- starts ---- */

/* The server does not even answer the first connect. */
static void test_starts_wait_for_no_server(void **state)
{
	enum { REQUESTS = 200 };
	char owner[32];
	int left = REQUESTS;
	client = open_driven("connect_timeout_ms=60000 command_timeout_ms=60000");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "silent");
	server_pause(&server);
	for (uint64_t i = 0; i < REQUESTS; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", (int)i);
		begin_acquire(lock, owner, -1, i);
	}
	check(!queue_is_readable());
	server_resume(&server);
	while (left > 0) {
		lk_completion got = next_completion();
		check_int(got.error.code, ==, 0);
		if (got.operation == LK_OP_RELEASE) {
			left--;
			continue;
		}
		snprintf(owner, sizeof(owner), "owner-%d", (int)got.tag);
		begin_release(lock, owner);
	}
	lk_lock_free(lock);
	close_queue(0);
}

/* Its try is on its way, and has no answer. */
static void test_cancel_waits_for_no_server(void **state)
{
	client = open_driven("command_timeout_ms=60000");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "stopped");
	acquire(lock, "task");
	release(lock, "task");
	uint64_t commands = stats_of(client).commands;
	server_pause(&server);
	uint64_t id = begin_acquire(lock, "task", -1, 0);
	wait_until(stats_of(client).commands > commands, 5000);
	expect(1, lk_queue_cancel(queue, id, &err));
	completed(id, LK_ECANCELLED);
	expect(0, lk_queue_cancel(queue, id, &err));
	server_resume(&server);
	wait_until(redis_integer(&server, "EXISTS stopped") == 0, 20000);
	acquire(lock, "task");
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

static void test_handles_may_be_freed(void **state)
{
	open_queue();
	for (size_t i = 0; i < KINDS; i++) {
		lk_lock *lock = new_kind(i, client);
		uint64_t id = begin_acquire(lock, "task", -1, 0);
		lk_lock_free(lock);
		completed(id, 0);
		lock = new_kind(i, client);
		id = begin_extend(lock, "task", 60000);
		lk_lock_free(lock);
		completed(id, 0);
		lock = new_kind(i, client);
		id = begin_release(lock, "task");
		lk_lock_free(lock);
		completed(id, 0);
		redis_do(&server, "DEL lockkeeper_fence:{kind}");
	}
	close_queue(0);
}

static void begin_here(size_t index, void *argument)
{
	begin_acquire(argument, "task", -1, 0);
}

/* The thread that started the acquire ends: its owner is a name, and does not end. */
static void test_the_owner_is_no_thread(void **state)
{
	struct threads thread;
	lk_event event = LK_EVENT_INIT;
	client = open_driven("watchdog_ms=%lld", slow_ms(300));
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "name");
	threads_start(&thread, 1, begin_here, lock);
	threads_join(&thread, 20000);
	check_int(next_completion().error.code, ==, 0);
	wait_until(stats_of(client).renewals >= 4, 20000);
	check_int(lk_event_wait(client, &event, 0, NULL, &err), ==, 0);
	check_int(lk_lock_is_held(lock, "task", &err), ==, 1);
	release(lock, "task");
	lk_lock_free(lock);
	close_queue(0);
}

static void test_names_of_owners(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char longest[LK_OWNER_SIZE_MAX + 2];
	open_queue();
	lk_lock *lock = new_lock(client, "owners");
	memset(longest, 'o', sizeof(longest));
	longest[LK_OWNER_SIZE_MAX + 1] = '\0';
	options.owner = longest;
	refuses(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options);
	longest[LK_OWNER_SIZE_MAX] = '\0';
	uint64_t id = begin_acquire(lock, longest, -1, 0);
	longest[0] = 'x'; /* it was copied */
	completed(id, 0);
	check_int(lk_lock_is_held(lock, longest, &err), ==, 0);
	longest[0] = 'o';
	check_int(lk_lock_is_held(lock, longest, &err), ==, 1);
	release(lock, longest);
	lk_lock_free(lock);
	close_queue(0);
}

static void test_what_an_acquire_can_say(void **state)
{
	needs_a_thread();
	client = open_driven("max_waiters=4");
	expect(0, lk_queue_new(&queue, 0, &err));
	lk_lock *lock = new_lock(client, "string");
	redis_do(&server, "SET string text");
	completed(begin_acquire(lock, "task", -1, 0), LK_EWRONGTYPE);
	redis_do(&server, "DEL string");
	stranger_takes("string", 3600000);
	char owner[32];
	for (int i = 0; i < 4; i++) {
		snprintf(owner, sizeof(owner), "owner-%d", i);
		begin_acquire(lock, owner, -1, 0);
	}
	completed(begin_acquire(lock, "one more", -1, 0), LK_ELIMIT);
	stranger_releases("string");
	for (int i = 0; i < 4; i++) {
		check_int(next_completion().error.code, ==, 0);
		snprintf(owner, sizeof(owner), "owner-%d", i);
		release_blocking(lock, owner);
	}
	lk_lock_free(lock);
	close_queue(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_every_kind_waits_for_another_client),
		api_test(test_a_reader_does_not_become_a_writer),
		api_test(test_a_loss_before_it_was_taken),
		api_test(test_a_grant_keeps_its_client_open),
		api_test(test_taken_after_a_close_that_released),
		api_test(test_closed_over_a_try),
		api_test(test_starts_wait_for_no_server),
		api_test(test_cancel_waits_for_no_server),
		api_test(test_handles_may_be_freed),
		api_test(test_the_owner_is_no_thread),
		api_test(test_names_of_owners),
		api_test(test_what_an_acquire_can_say),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
