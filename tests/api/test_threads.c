/* Many threads, few names, random calls: exclusion is checked on plain memory, which TSan sees. */
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "fixture.h"

#define THREADS 64
#define NAMES 4
#define CLIENTS 2
#define CALLS 600

struct guarded {
	size_t owner;     /* 0: nobody; else index of the thread + 1 */
	uint64_t entries; /* of threads of all clients */
	char pad[112];
};

struct stress {
	lk_client *clients[CLIENTS];
	lk_lock *locks[CLIENTS][NAMES];
	/*
	 * Plain memory, one a client and name: threads of one client are ordered by the library
	 * itself, those of two clients only by Redis, of which TSan knows nothing.
	 */
	struct guarded guarded[CLIENTS][NAMES];
	_Atomic size_t owner[NAMES]; /* across clients */
	_Atomic uint64_t entries[NAMES];
};

static void enter(struct stress *stress, size_t client, size_t name, size_t me)
{
	struct guarded *guarded = &stress->guarded[client][name];
	size_t nobody = 0;
	check(atomic_compare_exchange_strong(&stress->owner[name], &nobody, me));
	check_int(guarded->owner, ==, 0);
	guarded->owner = me;
	uint64_t before = guarded->entries;
	for (volatile int spin = 0; spin < 50; spin++)
		;
	guarded->entries = before + 1;
	stress->entries[name]++;
	check_int(guarded->owner, ==, me);
	guarded->owner = 0;
	check_int(atomic_exchange(&stress->owner[name], 0), ==, me);
}

static int acquire_somehow(lk_lock *lock, unsigned how)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = how % 5 == 0 ? slow_ms(20000) : 0;
	if (how % 3 == 0)
		return lk_lock_acquire(lock, 0, &options, &err);
	if (how % 3 == 1)
		return lk_lock_acquire(lock, how % 7, &options, &err);
	return lk_lock_acquire(lock, -1, &options, &err);
}

static void release_somehow(lk_lock *lock, unsigned how)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.no_wait = how % 2;
	expect(0, lk_lock_release(lock, &options, &err));
}

static void one_call(struct stress *stress, size_t me, unsigned how)
{
	size_t client = me % CLIENTS, name = how / 16 % NAMES;
	lk_lock *lock = stress->locks[client][name];
	int code = acquire_somehow(lock, how);
	if (code) {
		/* The little patience of some may end before the server has said a word; who is
		 * kept out by such a one is told its reason. */
		bool wordless = code == LK_EMAYBEHELD || code == LK_EUNREACHABLE ||
				code == LK_EUNAVAILABLE;
		check(code == LK_EBUSY || code == LK_ETIMEDOUT || (wordless && how % 3 != 2));
		return;
	}
	if (how % 11 == 0) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(2, lk_lock_hold_count(lock, NULL, &err));
		release_somehow(lock, how);
	}
	if (how % 13 == 0)
		expect(0, lk_lock_extend(lock, slow_ms(25000), NULL, &err));
	enter(stress, client, name, me + 1);
	check_int(remaining(lock, NULL), >, 0);
	release_somehow(lock, how / 2);
	expect(LK_ENOTOWNER, lk_lock_release(lock, NULL, &err));
}

static void call_at_random(size_t index, void *argument)
{
	unsigned seed = (unsigned)index + 1;
	for (int i = 0; i < CALLS; i++)
		one_call(argument, index, (unsigned)rand_r(&seed));
}

static void test_exclusion_under_random_calls(void **state)
{
	static struct stress stress;
	struct threads threads;
	for (size_t i = 0; i < CLIENTS; i++) {
		stress.clients[i] = open_client();
		for (size_t j = 0; j < NAMES; j++)
			stress.locks[i][j] = new_lock(stress.clients[i],
						      (const char *[]){"a", "b", "c", "d"}[j]);
	}
	threads_start(&threads, THREADS, call_at_random, &stress);
	threads_join(&threads, 100000);
	for (size_t j = 0; j < NAMES; j++) {
		uint64_t entries = 0;
		for (size_t i = 0; i < CLIENTS; i++)
			entries += stress.guarded[i][j].entries;
		check_int(stress.entries[j], >, 0);
		check_int(stress.entries[j], ==, entries);
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		for (size_t j = 0; j < NAMES; j++)
			lk_lock_free(stress.locks[i][j]);
		check_int(stats_of(stress.clients[i]).lost, ==, 0);
		close_client(stress.clients[i]);
	}
}

struct own {
	lk_client *client;
	_Atomic size_t handles;
};

/* Handles made and freed by all threads at once, for names that come and go. */
static void make_and_free(size_t index, void *argument)
{
	struct own *own = argument;
	unsigned seed = (unsigned)index + 100;
	for (int i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%d", rand_r(&seed) % 8);
		lk_lock *lock = new_lock(own->client, name);
		int code = lk_lock_acquire(lock, 0, NULL, &err);
		check(code == 0 || code == LK_EBUSY);
		if (code == 0)
			release_somehow(lock, (unsigned)i);
		lk_lock_free(lock);
		own->handles++;
	}
}

static void test_handles_come_and_go(void **state)
{
	struct own own = {.client = open_client()};
	struct threads threads;
	threads_start(&threads, 16, make_and_free, &own);
	threads_join(&threads, 60000);
	check_int(own.handles, ==, 1600);
	close_client(own.client);
}

/* Threads that start, use the client once and end: what is kept about them must not grow wild. */
static void once(size_t index, void *argument)
{
	char name[32];
	snprintf(name, sizeof(name), "once-%zu", index);
	own_lock *lock = new_lock(argument, name);
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_threads_come_and_go(void **state)
{
	own_client *client = open_client();
	struct threads threads;
	for (int round = 0; round < 30; round++) {
		threads_start(&threads, 16, once, client);
		threads_join(&threads, 30000);
	}
	check_int(stats_of(client).acquires, ==, 480);
}

/* Whether each of them that is not this one blocks the signals that a program may handle. */
static bool other_threads_block_signals(unsigned *others_out)
{
	DIR *tasks = opendir("/proc/self/task");
	bool block = true;
	*others_out = 0;
	for (struct dirent *at; (at = readdir(tasks));) {
		char path[300], line[128];
		unsigned long long blocked = 0, all = 0;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", at->d_name);
		FILE *file = at->d_name[0] != '.' && atoi(at->d_name) != getpid() ? fopen(path, "r")
										  : NULL;
		while (file && fgets(line, sizeof(line), file))
			sscanf(line, "SigBlk: %llx", &blocked);
		if (!file)
			continue;
		fclose(file);
		for (int number = 1; number < 32; number++)
			all |= number != SIGKILL && number != SIGSTOP ? 1ull << (number - 1) : 0;
		block &= (blocked & all) == all;
		++*others_out;
	}
	closedir(tasks);
	return block;
}

/* A signal for the process goes to a thread of the program. */
static void test_threads_of_the_library_block_signals(void **state)
{
	unsigned others;
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "signals");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err)); /* a renewal needs the loop */
	check(other_threads_block_signals(&others));
	check_int(others, >, 0);
	expect(0, lk_lock_release(lock, NULL, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_exclusion_under_random_calls),
		api_test(test_handles_come_and_go),
		api_test(test_threads_come_and_go),
		api_test(test_threads_of_the_library_block_signals),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
