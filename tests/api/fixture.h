/*
 * What the suites over the public API share: one real server a program, clients made in a line,
 * and the rule that a test leaves nothing behind in Redis.
 */
#ifndef API_FIXTURE_H
#define API_FIXTURE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "check.h"
#include "program.h"
#include "redis.h"
#include "request.h"
#include "server.h"
#include "threads.h"
#include "waiting.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A test of ours: nothing may be left in Redis when it ends. */
#define api_test(name) cmocka_unit_test_teardown(name, check_nothing_left)

/* The same where requests are remembered for a while, in keys of their own. */
#define counter_test(name) cmocka_unit_test_teardown(name, check_only_records_left)

extern struct server server;

/* Group setup and teardown. */
int start_server(void **state);
int stop_server(void **state);

/* The same with a second server, for suites over two. */
extern struct server other_server;
int start_both(void **state);
int stop_both(void **state);

/* No keys, no subscriptions, no connections of ours, once all has gone its way. */
int check_nothing_left(void **state);
int check_only_records_left(void **state);

/*
 * A variable of these types ends with its block, the last one first: what it has is freed, and a
 * client that holds something still fails the test. A test that fails leaves all as it is.
 */
#define own_client __attribute__((unused, cleanup(client_ends))) lk_client
#define own_lock __attribute__((unused, cleanup(lock_ends))) lk_lock
#define own_permits __attribute__((unused, cleanup(permits_end))) lk_permit_semaphore
#define own_semaphore __attribute__((unused, cleanup(semaphore_ends))) lk_semaphore
#define own_latch __attribute__((unused, cleanup(latch_ends))) lk_latch
#define own_watch __attribute__((unused, cleanup(watch_ends))) lk_watch
void client_ends(lk_client **client);
void lock_ends(lk_lock **lock);
void permits_end(lk_permit_semaphore **permits);
void semaphore_ends(lk_semaphore **semaphore);
void latch_ends(lk_latch **latch);
void watch_ends(lk_watch **watch);

/* A client on the unix socket, with default options. */
lk_client *open_client(void);

/* The same with options: a format that gives "name=value name=value". */
__attribute__((format(printf, 1, 2))) lk_client *open_client_with(const char *options, ...);

/* The option command_timeout_ms, longer where tests are slow. The text lasts until
 * the next call. */
const char *command_limit(int64_t ms);

/* The same at another URL; options may be "". */
lk_client *open_client_at(const char *url, const char *options);

/* First in a test that also makes blocking calls on the driven client. */
#define needs_a_thread()                                                                           \
	do {                                                                                       \
		if (program_drives())                                                              \
			check_skip("it takes a client with threads of its own");                   \
	} while (0)

/* The same, with the driver of this run, see program.h; to be freed with program_free(). */
__attribute__((format(printf, 1, 2))) lk_client *open_driven(const char *options, ...);
lk_client *open_driven_at(const char *url, const char *options);

/* Closes a client that holds nothing, and frees it. Returns NULL. */
lk_client *close_client(lk_client *client);

/* Frees a client that may hold locks (they are released). Returns NULL. */
lk_client *drop_client(lk_client *client);

lk_lock *new_lock(lk_client *client, const char *name);

/* Lets the lock be held in Redis by a stranger, as another program would. */
void stranger_takes(const char *name, int64_t ttl_ms);
void stranger_releases(const char *name);

/* 1 or 0 as the server says, or a negative code. */
int is_locked(lk_lock *lock, lk_error *error);
int is_held_by(lk_lock *lock, const char *field, lk_error *error);

/* Why this thread does not hold the lock: the code that its predicates tell; 0 if it does. */
int not_held(lk_lock *lock, lk_error *error);

/* The remaining lease, or a negative code. */
int64_t remaining(lk_lock *lock, const char *owner);

/* Counters of the client, by value. */
lk_stats stats_of(lk_client *client);

/* Waits for the next notice; its type, or 0. */
int next_event(lk_client *client, lk_event *event, int64_t limit_ms);

#endif
