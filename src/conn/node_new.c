/* SPDX-License-Identifier: MIT */
/* A node is put together here from what the files below do for its connections, and ended. */
#include <stdlib.h>

#include "conf/config.h"
#include "conn/channels.h"
#include "conn/conn.h"
#include "conn/node.h"

int lk__node_init(struct lk__node *node, const struct lk_config *config,
		  const struct lk__node_events *events, void *context, lk_error *error)
{
	node->config = config;
	node->log = config->log;
	node->events = events;
	node->context = context;
	node->messages.wake_fd = node->work.wake_fd = node->probe.wake_fd = -1;
	node->acks = lk__config_acks(config);
	node->fsync = config->chosen.fsync;
	node->told_by = config->chosen.messages;
	node->acks_ops = &lk__acks_ops;
	node->channels_ops = &lk__channels_ops;
	pthread_mutex_init(&node->replicas.mutex, NULL);
	pthread_mutex_init(&node->stays.mutex, NULL);
	atomic_store(&node->tracking.generation, 1);
	node->can_spin = config->spin_us > 0 && lk__core_count() > 1;
	int rc = lk__conn_init(&node->messages, node, LK__CONN_MESSAGES, error);
	if (rc == 0)
		rc = lk__conn_init(&node->work, node, LK__CONN_WORK, error);
	if (rc == 0)
		rc = lk__conn_init(&node->probe, node, LK__CONN_PROBE, error);
	return rc < 0 ? rc : lk__node_add_conn(node, error);
}

void lk__node_close(struct lk__node *node)
{
	struct lk__conn *conn;
	lk__node_stop_growing(node);
	for (size_t i = 0; (conn = lk__node_conn(node, i)); i++)
		lk__conn_close(conn);
}

static void conn_destroy(struct lk__conn *conn)
{
	lk__buffer_free(&conn->out);
	if (conn->wake_fd >= 0)
		lk__fd_close(conn->wake_fd);
	pthread_mutex_destroy(&conn->mutex);
}

void lk__node_destroy(struct lk__node *node)
{
	lk__tracking_free(node);
	for (size_t i = 0; i < node->script_count; i++) {
		conn_destroy(node->scripts[i]);
		free(node->scripts[i]);
	}
	lk__channels_free(&node->messages);
	conn_destroy(&node->messages);
	conn_destroy(&node->work);
	conn_destroy(&node->probe);
	pthread_mutex_destroy(&node->replicas.mutex);
	pthread_mutex_destroy(&node->stays.mutex);
}
