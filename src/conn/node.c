#include "conn/node.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"

static bool has_two_cores(void)
{
	cpu_set_t cores;
	return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 1;
}

int lk__node_init(struct lk__node *node, const struct lk_config *config,
		  const struct lk__node_events *events, void *context, lk_error *error)
{
	node->config = config;
	node->log = config->log;
	node->events = events;
	node->context = context;
	node->can_spin = config->spin_us > 0 && has_two_cores();
	node->scripts = calloc((size_t)config->connections, sizeof(*node->scripts));
	if (!node->scripts)
		return lk__fail(error, LK_ENOMEM, "out of memory");
	int rc = lk__conn_init(&node->messages, node, LK__CONN_MESSAGES, error);
	if (rc == 0)
		rc = lk__conn_init(&node->work, node, LK__CONN_WORK, error);
	while (rc == 0 && node->script_count < (size_t)config->connections)
		rc = lk__conn_init(&node->scripts[node->script_count++], node, LK__CONN_SCRIPTS,
				   error);
	return rc;
}

void lk__node_close(struct lk__node *node)
{
	for (size_t i = 0; i < node->script_count; i++)
		lk__conn_close(&node->scripts[i]);
	lk__conn_close(&node->messages);
	lk__conn_close(&node->work);
}

void lk__node_destroy(struct lk__node *node)
{
	for (size_t i = 0; i < node->script_count; i++)
		lk__conn_destroy(&node->scripts[i]);
	lk__conn_destroy(&node->messages);
	lk__conn_destroy(&node->work);
	free(node->scripts);
}

struct lk__conn *lk__node_scripts(struct lk__node *node, const void *key, size_t size)
{
	if (node->script_count == 1)
		return &node->scripts[0];
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const unsigned char *)key)[i]) * 16777619u;
	return &node->scripts[hash % node->script_count];
}

#define SERVER_US_MAX (INT64_MAX / LK__US / 2) /* in the year 2116; beyond it is no clock */

int64_t lk__node_server_us(const struct lk__node *node, int64_t at_ns)
{
	return (at_ns + atomic_load_explicit(&node->offset_ns, memory_order_relaxed)) / LK__US;
}

void lk__node_learn_time(struct lk__node *node, int64_t server_us, int64_t received_ns)
{
	if (server_us < 0 || server_us > SERVER_US_MAX)
		return;
	atomic_store(&node->offset_ns, server_us * LK__US - received_ns);
}
