/*
 * One server: its connections, the difference between its clock and ours, and the count of
 * connections lost, by which grants know that they are in doubt.
 */
#ifndef LK__CONN_NODE_H
#define LK__CONN_NODE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/log.h"
#include "conn/conn.h"

struct lk_config;

#define LK__SCRIPT_CONNECTIONS_MAX 16

/* What a node tells its client; called with a connection's mutex held, so it may only take note. */
struct lk__node_events {
	void (*attention)(void *context);          /* answers are expected and nobody reads */
	void (*lost)(void *context);               /* a connection was lost: grants are in doubt */
	void (*up)(void *context);                 /* a connection was made */
	void (*doubt)(void *context, void *owner); /* a listener heard an unexpected message */
};

struct lk__node_counters {
	_Atomic uint64_t commands, resent, connects, disconnects, messages;
};

/* What a server does, and lets this user do, as far as it was asked. */
#define LK__CAN_KNOWN 1u /* asked since the last connection was made */
#define LK__CAN_SCRIPT 2u
#define LK__CAN_DELEX 4u   /* DELEX key IFEQ value */
#define LK__CAN_DELIFEQ 8u /* DELIFEQ key value */
#define LK__CAN_SET_IFEQ 16u

struct lk__node {
	const struct lk_config *config;
	struct lk__log log;
	const struct lk__node_events *events;
	void *context;
	struct lk__conn *scripts; /* config->connections of them */
	size_t script_count;
	_Atomic bool was_up; /* ever: then a failure to connect is retried */
	bool can_spin;       /* asked for, and there is a core left for the server */
	struct lk__conn messages;
	struct lk__conn work;
	_Atomic unsigned abilities; /* LK__CAN_… */
	_Atomic int64_t offset_ns;  /* server time - CLOCK_BOOTTIME, a lower bound */
	_Atomic uint64_t epoch;     /* connections lost so far */
	struct lk__node_counters counters;
};

int lk__node_init(struct lk__node *node, const struct lk_config *config,
		  const struct lk__node_events *events, void *context, lk_error *error);
void lk__node_close(struct lk__node *node);
void lk__node_destroy(struct lk__node *node);

/* The connection for scripts on a key: always the same one, so that they stay in order. */
struct lk__conn *lk__node_scripts(struct lk__node *node, const void *key, size_t size);

/* Server time of an instant of ours, in µs: never later than the truth. */
int64_t lk__node_server_us(const struct lk__node *node, int64_t at_ns);

/* Learns the difference from an answer that arrived at `received_ns`. */
void lk__node_learn_time(struct lk__node *node, int64_t server_us, int64_t received_ns);

#endif
