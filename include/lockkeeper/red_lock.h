/*
 * The red lock: one lock on a majority of several independent servers (Redlock; Redisson's
 * RRedLock, redsync, node-redlock).
 *
 * In Redis, on each node, for the lock "payroll":
 *
 *   payroll     as a reentrant lock's hash (<lockkeeper/lock.h>), or with `plain` as a plain lock's
 *               string (<lockkeeper/plain_lock.h>), which redsync and node-redlock share
 *
 *   field or token = <uuid of that node's client>:<number>: another on each node
 *
 * The nodes must be independent masters: a replica, or a second database of one server, is no
 * node. Two addresses of one server are refused (LK_EINVAL) as soon as both have said who they are
 * (INFO server: run_id); their votes never count together.
 *
 * The handle is an lk_lock: acquire, try, release, extend, is_held, remaining_ms, … are those of
 * <lockkeeper/lock.h>. What differs:
 *
 * GRANTED when a majority has answered so, and what is left of the lease, counted from before the
 * first command was written and less drift (1 % and 2 ms), is at least a tenth of it.
 * lk_lock_remaining_ms() is that validity. All nodes are asked at once, and the slowest is not
 * waited for: what it grants later belongs to the hold, or is taken back. A try that fails is
 * released on all nodes that may have granted it, also those that never answered.
 *
 * WAITING is trying again after pauses that grow, with jitter (retry_min_ms … retry_max_ms).
 *   LK_EBUSY, LK_ETIMEDOUT   a majority answered, and another owner stands in the way
 *   LK_ENOQUORUM             no majority answered, or may vote; the message says why, by node
 *   LK_EMAYBEHELD            so many were asked and did not answer that they might be a majority:
 *                            what they grant is taken back in the background
 *
 * A NODE THAT HAS FORGOTTEN has no vote. One that started less than `quarantine_ms` ago may have
 * granted what it no longer knows of (INFO server: uptime_in_seconds), unless it writes everything
 * down before it answers (INFO persistence: aof_enabled, and CONFIG GET appendfsync: always). It is
 * asked anew on each new connection. So a quorum of servers started just now grants nothing for one
 * lease. Who may not read INFO server has no vote either; who may not read CONFIG is not taken to
 * write everything down. What is not detected: a server that keeps running and loses data
 * (FLUSHALL, eviction, DEL), and clocks that jump.
 *
 * RENEWAL by the watchdog needs a majority too. A node that has come back empty, or had not granted
 * at first, is given the lock again as long as the majority stands. LK_EVENT_AT_RISK and
 * LK_EVENT_LOST (on the first client) speak of the majority's validity: one node is not a loss.
 *
 * RELEASE goes to all nodes and returns when a majority has confirmed. LK_ELOST: the nodes
 * answered, and a majority did not have it any more. LK_EMAYBEHELD: no majority confirmed.
 *
 * NOT FOR IT: export, is_held_by, server_ttl_ms, release_field and extend_field (LK_EINVAL: there
 * is no one field). is_locked is 1 when a majority of nodes has the key, LK_ENOQUORUM when that
 * cannot be said. force_release deletes it on all nodes that answer.
 */
#ifndef LOCKKEEPER_RED_LOCK_H
#define LOCKKEEPER_RED_LOCK_H

#include <lockkeeper/lock.h>

#define LK_RED_NODES_MIN 3
#define LK_RED_NODES_MAX 32

typedef struct lk_red_lock_options {
	size_t struct_size;
	int plain;             /* 1: strings, shared with redsync and node-redlock; 0: hashes */
	int64_t quarantine_ms; /* the longest lease that anyone uses: so long after its start a node
				  has no vote. 0: the watchdog's lease, or the one asked for if that
				  is longer; -1: every node is trusted to remember */
	int64_t node_limit_ms; /* what one try waits for a node; 0: a quarter of the lease, and
				  never more than command_timeout_ms; nor, but for the first try,
				  longer than the caller's wait limit */
	int64_t retry_min_ms;  /* the first pause between tries; 0: 10 ms */
	int64_t retry_max_ms;  /* the longest; 0: 200 ms */
} lk_red_lock_options;

#define LK_RED_LOCK_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(lk_red_lock_options), 0, 0, 0, 0, 0                                         \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle over `count` (LK_RED_NODES_MIN … LK_RED_NODES_MAX) clients, one a node; `name` as
 * for lk_lock_new(), `options` may be NULL. Free it with lk_lock_free(). The clients must stay open
 * while it is used; the watchdog's lease is the first one's. Handles of one name over the same
 * clients stand for one lock, with the options of the last. Does no I/O. Errors: LK_EINVAL (counts,
 * one client or URL twice, the name in use over other clients with the same first one, options),
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_red_lock_new(lk_lock **lock_out, lk_client *const *clients, size_t count,
			   const void *name, size_t name_size, const lk_red_lock_options *options,
			   lk_error *error);

LK_END_DECLS

#endif
