/* SPDX-License-Identifier: MIT */
/*
 * The floor of a red lock: the acquire script to all nodes at once, done when most have answered;
 * then the release to all, and each answer read before the next round.
 *
 * usage: floor-red URL,URL,… ROUNDS
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "recipes.h"
#include "sync/recipes.h"

#define NODES_MAX 8
#define WARM_ROUNDS 100

struct node {
	redisContext *redis;
	struct lk__request *acquire, *release;
};

static struct node nodes[NODES_MAX];
static int node_count;

static void open_nodes(char *urls)
{
	for (char *url = strtok(urls, ","); url && node_count < NODES_MAX;
	     url = strtok(NULL, ",")) {
		struct node *node = &nodes[node_count++];
		node->redis = bench_connect(url);
		bench_requests(&lk__lock_recipe, "bench:red", 1000001, &node->acquire,
			       &node->release);
		bench_load(node->redis, node->acquire);
		bench_load(node->redis, node->release);
	}
}

static void send_all(int release)
{
	for (int i = 0; i < node_count; i++) {
		const struct lk__request *request = release ? nodes[i].release : nodes[i].acquire;
		int done = 0;
		redisAppendFormattedCommand(nodes[i].redis, lk__buffer_front(&request->bytes),
					    lk__buffer_size(&request->bytes));
		while (!done)
			if (redisBufferWrite(nodes[i].redis, &done) != REDIS_OK)
				bench_die("connection lost: %s", nodes[i].redis->errstr);
	}
}

/* Reads one answer each until `most` nodes have answered; who has is marked. */
static void read_most(int most, int *answered)
{
	int count = 0;
	for (int i = 0; i < node_count; i++)
		count += answered[i];
	while (count < most) {
		struct pollfd polls[NODES_MAX];
		for (int i = 0; i < node_count; i++)
			polls[i] = (struct pollfd){answered[i] ? -1 : nodes[i].redis->fd, POLLIN,
						   0};
		poll(polls, (nfds_t)node_count, -1);
		for (int i = 0; i < node_count; i++) {
			void *reply = NULL;
			if (!(polls[i].revents & POLLIN))
				continue;
			if (redisGetReply(nodes[i].redis, &reply) != REDIS_OK)
				bench_die("connection lost: %s", nodes[i].redis->errstr);
			freeReplyObject(reply);
			answered[i] = 1;
			count++;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		bench_die("usage: %s URL,URL,… ROUNDS", argv[0]);
	long rounds = bench_number(argv[2], 1, 1000000) + WARM_ROUNDS;
	struct bench_samples samples;
	bench_samples_init(&samples, (size_t)rounds);
	open_nodes(argv[1]);
	for (long round = 0; round < rounds; round++) {
		int answered[NODES_MAX] = {0};
		int64_t begun_ns = bench_now_ns();
		send_all(0);
		read_most(node_count / 2 + 1, answered);
		int64_t granted_ns = bench_now_ns();
		if (round >= WARM_ROUNDS)
			bench_samples_add(&samples, granted_ns - begun_ns);
		read_most(node_count, answered);
		send_all(1);
		memset(answered, 0, sizeof(answered));
		read_most(node_count, answered);
	}
	printf("{\"p50_us\": %.2f, \"p99_us\": %.2f}\n", bench_samples_us(&samples, 0.5),
	       bench_samples_us(&samples, 0.99));
	return 0;
}
