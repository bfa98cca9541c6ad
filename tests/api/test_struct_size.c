/* Results in structs that grow: programs that were compiled with later headers, or with none. */
#include "fixture.h"

#include <unistd.h>

#define UNTOUCHED 0x5a
#define MORE 64 /* bytes that a later version has behind ours */

/* What the library does not know is zero, and behind the struct nothing is written. */
static void check_tail(const unsigned char *tail)
{
	for (size_t i = 0; i < MORE; i++)
		check_int(tail[i], ==, 0);
	check_int(tail[MORE], ==, UNTOUCHED);
}

struct later_event {
	lk_event event;
	unsigned char tail[MORE + 8];
};

static void test_a_larger_event(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "event");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	struct later_event got;
	memset(&got, UNTOUCHED, sizeof(got));
	got.event.struct_size = sizeof(lk_event) + MORE;
	options.lease_ms = LK_LEASE_MIN_MS;
	options.tag = 7;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	do {
		expect(1, lk_event_wait(client, &got.event, 20000, NULL, &err));
		check_int(got.event.tag, ==, 7);
		check(!strcmp(got.event.name, "event"));
		check(got.event.node[0] != '\0');
		check_tail(got.tail);
	} while (got.event.type != LK_EVENT_LOST);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

struct later_completion {
	lk_completion completion;
	unsigned char tail[MORE];
};

/* Each element is as long as the program says, and in its place. */
static void test_larger_completions(void **state)
{
	enum { REQUESTS = 3 };
	struct later_completion got[REQUESTS + 1];
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *queue = NULL;
	lk_client *client = open_client();
	lk_lock *lock = new_lock(client, "completions");
	memset(got, UNTOUCHED, sizeof(got));
	got[0].completion.struct_size = sizeof(got[0]);
	options.owner = "task";
	expect(0, lk_queue_new(&queue, 0, &err));
	for (int i = 0; i < REQUESTS; i++) {
		options.tag = 100 + (uint64_t)i;
		expect(0, lk_queue_start(queue,
					 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
						    .acquire = &options, .tag = options.tag),
					 NULL, &err));
		wait_until(lk_lock_hold_count(lock, "task", &err) == i + 1, 5000);
	}
	int taken = 0;
	while (taken < REQUESTS) {
		got[taken].completion.struct_size = sizeof(got[0]);
		int more = lk_queue_take(queue, &got[taken].completion, (size_t)(REQUESTS - taken),
					 20000, &err);
		check_int(more, >, 0);
		taken += more;
	}
	for (int i = 0; i < REQUESTS; i++) {
		check_int(got[i].completion.tag, ==, 100 + i);
		check_int(got[i].completion.error.code, ==, 0);
		for (size_t j = 0; j < MORE; j++)
			check_int(got[i].tail[j], ==, 0);
	}
	check_int(*(unsigned char *)&got[REQUESTS], ==, UNTOUCHED);
	expect(0, lk_queue_take(queue, &got[0].completion, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	drop_client(client);
}

static void test_larger_facts_about_a_lock(void **state)
{
	own_client *client = open_client_with("client_record=full");
	own_lock *lock = new_lock(client, "facts");
	lk_scan *scan = NULL;
	struct {
		lk_lock_info info;
		unsigned char tail[MORE + 8];
	} got;
	struct {
		lk_owner_info info;
		unsigned char tail[MORE + 8];
	} who;
	memset(&got, UNTOUCHED, sizeof(got));
	memset(&who, UNTOUCHED, sizeof(who));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	got.info.struct_size = sizeof(got.info) + MORE;
	who.info.struct_size = sizeof(who.info) + MORE;
	expect(0, lk_scan_show(scan, "facts", LK_STRLEN, &got.info, &err));
	check_int(got.info.holder_count, ==, 1);
	check_tail(got.tail);
	memset(&got, UNTOUCHED, sizeof(got));
	got.info.struct_size = sizeof(got.info) + MORE;
	expect(1, lk_scan_next(scan, &got.info, &err));
	check(!strcmp(got.info.name, "facts"));
	check_tail(got.tail);
	const lk_holder *holder = got.info.holders;
	expect(1, lk_scan_owner(scan, holder->field, holder->field_size, &who.info, &err));
	check_int(who.info.pid, ==, getpid());
	check_tail(who.tail);
	lk_scan_free(scan);
	expect(0, lk_lock_release(lock, NULL, &err));
}

/* Nothing is written, and nothing taken, with a size that cannot be. */
static void test_sizes_that_no_version_had(void **state)
{
	static const size_t bad[] = {0, 1, 64, 1 << 20, SIZE_MAX};
	lk_queue *queue = NULL;
	lk_scan *scan = NULL;
	lk_completion completion = LK_COMPLETION_INIT;
	lk_event event = LK_EVENT_INIT;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	own_client *client = open_client();
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	for (size_t i = 0; i < COUNT(bad); i++) {
		event.struct_size = completion.struct_size = bad[i];
		info.struct_size = owner.struct_size = bad[i];
		expect(LK_EINVAL, lk_event_wait(client, &event, 0, NULL, &err));
		check(strstr(err.message, "struct_size is ") != NULL);
		expect(LK_EINVAL, lk_queue_take(queue, &completion, 1, 0, &err));
		check(strstr(err.message, "struct_size is ") != NULL);
		expect(LK_EINVAL, lk_scan_next(scan, &info, &err));
		check(strstr(err.message, "struct_size is ") != NULL);
		expect(LK_EINVAL, lk_scan_show(scan, "x", 1, &info, &err));
		if (bad[i] != 64) /* no more than it has */
			expect(LK_EINVAL, lk_scan_owner(scan, "x:1", 3, &owner, &err));
	}
	lk_scan_free(scan);
	expect(0, lk_queue_free(queue, &err));
}

/* docs/abi.md: of these, programs make arrays, or they are parts of other structs. */
static void test_frozen_sizes(void **state)
{
	check_int(sizeof(lk_error), ==, 512);
	check_int(sizeof(lk_permit), ==, 33);
	check_int(sizeof(lk_histogram), ==, 8 * (2 + LK_HISTOGRAM_SIZE));
	check_int(sizeof(lk_holder), ==, 40);
	check_int(sizeof(lk_waiter), ==, 16);
	check_int(sizeof(lk_credentials), ==, 2 * LK_CREDENTIAL_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_larger_event),
		api_test(test_larger_completions),
		api_test(test_larger_facts_about_a_lock),
		api_test(test_sizes_that_no_version_had),
		api_test(test_frozen_sizes),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
