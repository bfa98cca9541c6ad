#include "quorum.h"

struct server nodes[NODES];

int start_nodes(void **state)
{
	for (size_t i = 0; i < NODES; i++)
		server_start(&nodes[i], NULL);
	return 0;
}

int stop_nodes(void **state)
{
	for (size_t i = 0; i < NODES; i++)
		server_stop(&nodes[i]);
	return 0;
}

size_t nodes_with(const char *key)
{
	size_t count = 0;
	for (size_t i = 0; i < NODES; i++)
		if (nodes[i].pid)
			count += redis_integer(&nodes[i], "EXISTS %s", key) == 1;
	return count;
}

int check_nodes(void **state)
{
	for (size_t i = 0; i < NODES; i++) {
		if (!nodes[i].pid)
			server_start_again(&nodes[i]);
		server_resume(&nodes[i]);
	}
	int64_t end_ms = now_ms() + slow_ms(5000);
	while (nodes_with("q") > 0 && now_ms() < end_ms)
		sleep_ms(2);
	size_t left = nodes_with("q");
	for (size_t i = 0; i < NODES; i++)
		redis_do(&nodes[i], "FLUSHALL");
	check_int(left, ==, 0);
	return 0;
}

void open_quorum(struct quorum *quorum, size_t count, const char *config,
		 const lk_red_lock_options *options)
{
	lk_red_lock_options trusting = LK_RED_LOCK_OPTIONS_INIT;
	trusting.quarantine_ms = -1;
	for (size_t i = 0; i < count; i++)
		quorum->client[i] = open_client_at(nodes[i].url_unix, config);
	for (size_t i = 0; i < count; i++)
		lk_client_ping(quorum->client[i], NULL);
	expect(0, lk_red_lock_new(&quorum->lock, quorum->client, count, "q", LK_STRLEN,
				  options ? options : &trusting, &err));
}

void close_quorum(struct quorum *quorum, size_t count)
{
	lk_lock_free(quorum->lock);
	for (size_t i = 0; i < count; i++) {
		lk_client_close(quorum->client[i], LK_CLOSE_ABANDON, NULL);
		lk_client_free(quorum->client[i]);
	}
}

void stranger_on(size_t node, int64_t ttl_ms)
{
	redis_do(&nodes[node], "HSET q stranger:1 1");
	redis_do(&nodes[node], "PEXPIRE q %lld", (long long)ttl_ms);
}

void stranger_instead(size_t node)
{
	redis_do(&nodes[node], "EVAL %s 1 q",
		 "redis.call('DEL', KEYS[1]) return redis.call('HSET', KEYS[1], 'stranger:1', 1)");
}

lk_acquire_options with_lease(int64_t lease_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = lease_ms;
	return options;
}

void know_all(struct quorum *quorum, size_t count)
{
	size_t seen = 0;
	int64_t end_ms = now_ms() + slow_ms(10000);
	while (seen < count && now_ms() < end_ms) {
		expect(0, lk_lock_acquire(quorum->lock, slow_ms(10000), NULL, &err));
		for (int i = 0; i < 50 && (seen = nodes_with("q")) < count; i++)
			sleep_ms(2);
		expect(0, lk_lock_release(quorum->lock, NULL, &err));
		wait_until(nodes_with("q") == 0, 5000);
	}
	check_int(seen, ==, count);
}
