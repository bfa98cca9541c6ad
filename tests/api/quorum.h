/* Several servers and a red lock over them, for the suites of the red lock. */
#ifndef API_QUORUM_H
#define API_QUORUM_H

#include "fixture.h"

#define NODES 5
#define MOST 3

extern struct server nodes[NODES];

struct quorum {
	lk_client *client[NODES];
	lk_lock *lock;
};

int start_nodes(void **state);
int stop_nodes(void **state);

/* Every node runs and answers again, and knows no key. */
int check_nodes(void **state);

#define quorum_test(name) cmocka_unit_test_teardown(name, check_nodes)

/* A red lock "q" over the first `count` nodes. `config`: of the clients; `options` may be NULL:
 * then nodes are trusted, though they were started just now. */
void open_quorum(struct quorum *quorum, size_t count, const char *config,
		 const lk_red_lock_options *options);
void close_quorum(struct quorum *quorum, size_t count);

/* Takes and releases the lock until every node has said who it is, and is asked at once. */
void know_all(struct quorum *quorum, size_t count);

lk_acquire_options with_lease(int64_t lease_ms);

/* On how many nodes the key is; nodes that do not run do not count. */
size_t nodes_with(const char *key);

/* Another owner has it on a node. */
void stranger_on(size_t node, int64_t ttl_ms);

/* A node has forgotten our hold, and another owner came at once: unlike one that has forgotten it
 * alone, it cannot be given the lock again before the next one has forgotten it too. */
void stranger_instead(size_t node);

#endif
