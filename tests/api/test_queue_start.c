/* What a request may have: its operation decides about handles and members. */
#include "queued.h"

enum handle {
	client_handle,
	lock_handle,
	semaphore_handle,
	permit_semaphore_handle,
	latch_handle,
	barrier_handle,
	watch_handle
};
#define HANDLES (watch_handle + 1)

enum member {
	HOW = 1,
	WAIT_MS = 2,
	NUMBER = 4,
	LEASE_MS = 8,
	TTL_MS = 16,
	PERMITS = 32,
	ACQUIRE = 64,
	RELEASE = 128,
	EXTEND = 256,
	SEMAPHORE_RELEASE = 512
};
#define MEMBERS 10

static const struct {
	int operation;
	enum handle handle;
	unsigned members;
} uses[] = {
#define USE(operation, handle, members, call) {operation, handle##_handle, members},
	LK_REQUEST_MAP(USE)
#undef USE
};

static lk_lock *lock;
static lk_semaphore *pool;
static lk_permit_semaphore *slots;
static lk_latch *gate;
static lk_barrier *step;
static lk_watch *watch;

static void open_handles(void)
{
	open_queue();
	lock = new_lock(client, "lock");
	expect(0, lk_semaphore_new(&pool, client, "pool", LK_STRLEN, NULL, &err));
	expect(0, lk_permit_semaphore_new(&slots, client, "slots", LK_STRLEN, NULL, &err));
	expect(0, lk_latch_new(&gate, client, "gate", LK_STRLEN, NULL, &err));
	expect(0, lk_barrier_new(&step, client, "step", LK_STRLEN, 2, NULL, &err));
	expect(0, lk_watch_new(&watch, client, NULL, &err));
}

static void close_handles(void)
{
	lk_lock_free(lock);
	lk_semaphore_free(pool);
	lk_permit_semaphore_free(slots);
	lk_latch_free(gate);
	lk_barrier_free(step);
	lk_watch_free(watch);
	close_queue(0);
}

static lk_request with_handle(int operation, enum handle handle)
{
	lk_request request = LK_REQUEST_INIT;
	request.operation = operation;
	request.client = handle == client_handle ? client : NULL;
	request.lock = handle == lock_handle ? lock : NULL;
	request.semaphore = handle == semaphore_handle ? pool : NULL;
	request.permit_semaphore = handle == permit_semaphore_handle ? slots : NULL;
	request.latch = handle == latch_handle ? gate : NULL;
	request.barrier = handle == barrier_handle ? step : NULL;
	request.watch = handle == watch_handle ? watch : NULL;
	return request;
}

static const char *set_member(lk_request *request, unsigned member)
{
	static const lk_permit permit;
	static const lk_acquire_options acquires = LK_ACQUIRE_OPTIONS_INIT;
	static const lk_release_options releases = LK_RELEASE_OPTIONS_INIT;
	switch (member) {
	case HOW:
		request->how = 1;
		return "how";
	case WAIT_MS:
		request->wait_ms = 1;
		return "wait_ms";
	case NUMBER:
		request->number = 1;
		return "number";
	case LEASE_MS:
		request->lease_ms = 1;
		return "lease_ms";
	case TTL_MS:
		request->ttl_ms = 1;
		return "ttl_ms";
	case PERMITS:
		request->permits = &permit;
		return "permits";
	case ACQUIRE:
		request->acquire = &acquires;
		return "acquire";
	case RELEASE:
		request->release = &releases;
		return "release";
	case EXTEND:
		request->extend = extend_by("task");
		return "extend";
	default:
		request->semaphore_release = if_exists;
		return "semaphore_release";
	}
}

static bool is_used(int operation, enum handle handle)
{
	for (size_t i = 0; i < COUNT(uses); i++)
		if (uses[i].operation == operation && uses[i].handle == handle)
			return true;
	return false;
}

static void refuse(const lk_request *request, const char *why)
{
	uint64_t id = 5;
	expect(LK_EINVAL, lk_queue_start(queue, request, &id, &err));
	if (!strstr(err.message, why))
		fail_msg("\"%s\" does not say \"%s\"", err.message, why);
	check_int(id, ==, 5);
}

static void test_an_operation_of_another_handle(void **state)
{
	open_handles();
	for (int operation = 0; operation < 30; operation++) {
		for (enum handle handle = 0; handle < HANDLES; handle++) {
			lk_request request = with_handle(operation, handle);
			if (!is_used(operation, handle))
				refuse(&request, "operation");
		}
	}
	close_handles();
}

static void test_a_member_that_is_not_used(void **state)
{
	open_handles();
	for (size_t i = 0; i < COUNT(uses); i++) {
		for (unsigned member = 1; member < 1u << MEMBERS; member <<= 1) {
			char why[80];
			lk_request request = with_handle(uses[i].operation, uses[i].handle);
			if (uses[i].members & member)
				continue;
			snprintf(why, sizeof(why), ": %s is set, and is not used",
				 set_member(&request, member));
			refuse(&request, why);
		}
	}
	close_handles();
}

static void test_one_handle(void **state)
{
	open_handles();
	lk_request request = LK_REQUEST_INIT;
	request.operation = LK_OP_DELETE;
	refuse(&request, "no handle is set");
	request.semaphore = pool;
	request.latch = gate;
	refuse(&request, "semaphore and latch are both set");
	expect(LK_EINVAL, lk_queue_start(queue, NULL, NULL, &err));
	request = with_handle(LK_OP_DELETE, latch_handle);
	expect(LK_EINVAL, lk_queue_start(NULL, &request, NULL, &err));
	request.struct_size = 3;
	refuse(&request, "struct_size");
	close_handles();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_operation_of_another_handle),
		cmocka_unit_test(test_a_member_that_is_not_used),
		cmocka_unit_test(test_one_handle),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
