/* SPDX-License-Identifier: MIT */
/* Pairs by the library: one client, one queue, a handle and an owner a name. THREADLESS: this
 * program drives the client. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "async.h"
#include "common.h"

#define MOST_AT_ONCE 256

#ifndef THREADLESS
#define THREADLESS 0
#endif

struct mine {
	lk_lock *lock;
	char owner[32];
};

static lk_client *client;
static lk_queue *queue;
static struct mine *all;
static uint32_t all_count;
static redisContext *looker;

static void check(int rc, const lk_error *error)
{
	if (rc < 0)
		bench_die("%s", error->message);
}

static void open_client(const char *url)
{
	lk_config *config;
	lk_error error;
	check(lk_config_new(&config, &error), &error);
	check(lk_config_set(config, "url", url, &error), &error);
	if (THREADLESS)
		lk_config_set_threadless(config, NULL, NULL);
	check(lk_client_new(&client, config, &error), &error);
	lk_config_free(config);
}

static void ours_start(const char *url, uint32_t pairs)
{
	lk_error error;
	looker = bench_connect(url);
	open_client(url);
	check(lk_queue_new(&queue, pairs, &error), &error);
	all = calloc(pairs, sizeof(*all));
	if (!all)
		bench_die("out of memory");
	for (all_count = 0; all_count < pairs; all_count++) {
		char name[64];
		struct mine *mine = &all[all_count];
		snprintf(name, sizeof(name), "bench:async:%u", all_count);
		snprintf(mine->owner, sizeof(mine->owner), "task %u", all_count);
		check(lk_lock_new(&mine->lock, client, name, LK_STRLEN, &error), &error);
	}
}

static void ours_acquire(uint32_t index)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error;
	options.owner = all[index].owner;
	options.tag = index;
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_ACQUIRE,
			      .lock = all[index].lock,
			      .wait_ms = -1,
			      .acquire = &options,
			      .tag = index};
	check(lk_queue_start(queue, &request, NULL, &error), &error);
}

static void ours_release(uint32_t index)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_error error;
	options.owner = all[index].owner;
	lk_request request = {.struct_size = sizeof(request),
			      .operation = LK_OP_RELEASE,
			      .lock = all[index].lock,
			      .release = &options,
			      .tag = index};
	check(lk_queue_start(queue, &request, NULL, &error), &error);
}

/* The program's loop: what there is, or what comes of processing. */
static int take_processing(lk_completion *completions_out, size_t most, lk_error *error)
{
	struct pollfd fd = {.fd = lk_client_fd(client, NULL), .events = POLLIN};
	int count;
	while ((count = lk_queue_take(queue, completions_out, most, 0, error)) == 0) {
		if (poll(&fd, 1, BENCH_ASYNC_LIMIT_MS) == 0)
			return 0;
		check(lk_client_process(client, error), error);
	}
	return count;
}

static size_t ours_take(uint32_t *indexes_out, size_t most)
{
	static lk_completion completions[MOST_AT_ONCE] = {LK_COMPLETION_INIT};
	lk_error error;
	if (most > MOST_AT_ONCE)
		most = MOST_AT_ONCE;
	int count = THREADLESS
			    ? take_processing(completions, most, &error)
			    : lk_queue_take(queue, completions, most, BENCH_ASYNC_LIMIT_MS, &error);
	check(count, &error);
	if (!count)
		bench_die("no completion in %d ms", BENCH_ASYNC_LIMIT_MS);
	for (int i = 0; i < count; i++) {
		check(completions[i].error.code, &completions[i].error);
		indexes_out[i] = (uint32_t)completions[i].tag;
	}
	return (size_t)count;
}

static long ours_connections(void)
{
	return bench_clients(looker, "lockkeeper");
}

static void close_client(void)
{
	lk_completion completion = LK_COMPLETION_INIT;
	lk_error error;
	if (THREADLESS) {
		lk_request request = {.struct_size = sizeof(request),
				      .operation = LK_OP_CLOSE,
				      .client = client,
				      .how = LK_CLOSE_IF_IDLE};
		check(lk_queue_start(queue, &request, NULL, &error), &error);
		check(take_processing(&completion, 1, &error), &error);
		check(completion.error.code, &completion.error);
	} else {
		check(lk_client_close(client, LK_CLOSE_IF_IDLE, &error), &error);
	}
}

static void ours_stop(void)
{
	lk_error error;
	close_client();
	check(lk_queue_free(queue, &error), &error);
	for (uint32_t i = 0; i < all_count; i++)
		lk_lock_free(all[i].lock);
	lk_client_free(client);
	free(all);
	redisFree(looker);
}

int main(int argc, char **argv)
{
	static const struct bench_async_side side = {ours_start, ours_acquire,     ours_release,
						     ours_take,  ours_connections, ours_stop};
	return bench_async(argc, argv, &side);
}
