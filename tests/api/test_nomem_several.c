/*
 * Locks made of locks, over three servers, from clients that are connected, while memory,
 * descriptors and threads run out at each request of the library in turn, once and from there on.
 *
 * usage: test_nomem_several multi|red
 */
#include "nomem.h"
#include "quorum.h"

struct several {
	lk_queue *queue; /* of asynchronous calls */
	lk_client *client[MOST];
	lk_lock *part[MOST], *multi, *red;
	bool untold; /* a client could not say at its end that nothing is held */
};

/* Whether it was done. A call fails for lack of memory alone, here or at too many nodes. */
static bool is_done(int code)
{
	check(code == 0 || code == LK_ENOMEM || code == LK_ESYSTEM || code == LK_EMAYBEHELD ||
	      code == LK_ENOQUORUM);
	return code == 0;
}

/* Either it is released, or it may be held, or nothing was done and it is held. */
static bool is_released(lk_lock *lock)
{
	int code = lk_lock_release(lock, NULL, &err);
	if (code == LK_ENOMEM || code == LK_ESYSTEM) {
		armed = false;
		expect(1, lk_lock_is_held(lock, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	return is_done(code);
}

static bool run_multi(struct several *several)
{
	for (size_t i = 0; i < MOST; i++) /* two in one script, the third elsewhere */
		if (!is_done(lk_lock_new(&several->part[i], several->client[i / 2],
					 i ? "right" : "left", i ? 5 : 4, &err)))
			return false;
	return is_done(lk_multi_lock_new(&several->multi, several->part, MOST, &err)) &&
	       is_done(lk_lock_acquire(several->multi, 0, NULL, &err)) &&
	       is_done(lk_lock_extend(several->multi, 40000, NULL, &err)) &&
	       is_released(several->multi);
}

static bool run_red(struct several *several)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.node_limit_ms = slow_ms(100);
	return is_done(lk_red_lock_new(&several->red, several->client, MOST, "q", 1, &options,
				       &err)) &&
	       is_done(lk_lock_acquire(several->red, 0, NULL, &err)) &&
	       is_done(lk_lock_extend(several->red, 40000, NULL, &err)) &&
	       is_released(several->red);
}

/* ---- the same asynchronously ---- */

/* The completion of what was started so. */
static int told(const struct several *several, int started)
{
	lk_completion completion = LK_COMPLETION_INIT;
	if (started < 0)
		return started;
	check_int(lk_queue_take(several->queue, &completion, 1, 20000, NULL), ==, 1);
	return completion.error.code;
}

static int release_queued(const struct several *several, lk_lock *lock)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = "task";
	return told(several, lk_queue_start(several->queue,
					    request_of(RELEASE, .lock = lock, .release = &options),
					    NULL, &err));
}

/* A lock that was made so. */
static bool run_queued(const struct several *several, int made, lk_lock *lock)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.owner = "task";
	if (!is_done(made) ||
	    !is_done(told(several,
			  lk_queue_start(several->queue,
					 request_of(ACQUIRE, .lock = lock, .acquire = &options),
					 NULL, &err))) ||
	    !is_done(
		    told(several, lk_queue_start(several->queue,
						 request_of(EXTEND, .lock = lock, .lease_ms = 40000,
							    .extend = extend_by("task")),
						 NULL, &err))))
		return false;
	int code = release_queued(several, lock);
	if (code == LK_ENOMEM || code == LK_ESYSTEM) {
		armed = false;
		expect(1, lk_lock_is_held(lock, "task", &err));
		check_int(release_queued(several, lock), ==, 0);
	}
	return is_done(code);
}

static bool run_multi_queued(struct several *several)
{
	for (size_t i = 0; i < MOST; i++)
		if (!is_done(lk_lock_new(&several->part[i], several->client[i / 2],
					 i ? "right" : "left", i ? 5 : 4, &err)))
			return false;
	int made = lk_multi_lock_new(&several->multi, several->part, MOST, &err);
	return run_queued(several, made, several->multi);
}

static bool run_red_queued(struct several *several)
{
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	options.quarantine_ms = -1;
	options.node_limit_ms = slow_ms(100);
	int made = lk_red_lock_new(&several->red, several->client, MOST, "q", 1, &options, &err);
	return run_queued(several, made, several->red);
}

static void end_several(struct several *several)
{
	lk_lock_free(several->multi);
	lk_lock_free(several->red);
	for (size_t i = 0; i < MOST; i++)
		lk_lock_free(several->part[i]);
	for (size_t i = 0; i < MOST; i++) {
		int code = lk_client_close(several->client[i], LK_CLOSE_RELEASE, &err);
		check(code == 0 || code == LK_EMAYBEHELD);
		several->untold |= code == LK_EMAYBEHELD;
		lk_client_free(several->client[i]);
	}
	expect(0, lk_queue_free(several->queue, &err));
}

/* What was taken is given back on every node when all clients have said that they are done. */
static void check_given_back(const struct several *several, long n)
{
	size_t left = nodes_with("left") + nodes_with("right") + nodes_with("q");
	if (left && !several->untold)
		check_fail(__FILE__, __LINE__, "request %ld: %zu keys are left", n, left);
}

/* Fails the n-th request; false when it needed fewer. */
static bool run_several(bool (*work)(struct several *several), long n, bool ever_after)
{
	struct several several = {0};
	char options[48]; /* no copy of a try runs for longer: so long close waits */
	snprintf(options, sizeof(options), "command_timeout_ms=%lld", slow_ms(250));
	for (size_t i = 0; i < MOST; i++) {
		several.client[i] = open_client_at(nodes[i].url_unix, options);
		expect(0, lk_client_ping(several.client[i], &err));
	}
	expect(0, lk_queue_new(&several.queue, 0, &err));
	countdown = n;
	for_good = ever_after;
	armed = true;
	work(&several);
	armed = false;
	bool failed = countdown <= 0;
	end_several(&several);
	check_given_back(&several, n);
	if (several.untold)
		for (size_t i = 0; i < MOST; i++)
			redis_do(&nodes[i], "DEL left right q");
	return failed;
}

static void sweep_several(bool (*work)(struct several *several))
{
	for (int ever_after = 0; ever_after < 2; ever_after++) {
		long n = 1;
		while (run_several(work, n, ever_after))
			check_int(++n, <, REQUESTS_MAX);
		print_message("%ld requests\n", n - 1);
		check_int(n, >, 20);
	}
}

static void test_multi_lock(void **state)
{
	sweep_several(run_multi);
	sweep_several(run_multi_queued);
}

static void test_red_lock(void **state)
{
	sweep_several(run_red);
	sweep_several(run_red_queued);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest multi[] = {quorum_test(test_multi_lock)};
	const struct CMUnitTest red[] = {quorum_test(test_red_lock)};
	bool of_red = argc > 1 && strcmp(argv[1], "red") == 0;
	return of_red ? cmocka_run_group_tests(red, start_nodes, stop_nodes)
		      : cmocka_run_group_tests(multi, start_nodes, stop_nodes);
}
