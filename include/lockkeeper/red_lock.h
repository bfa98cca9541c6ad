/* SPDX-License-Identifier: MIT */
/*
 * The red lock: one lock on a majority of several independent servers (Redlock; Redisson's
 * RRedLock, redsync, node-redlock).
 *
 * A lease is not a mutex, and a majority does not make it one. A holder that is paused past its
 * deadline has lost the lock, and no lock can stop its next write: see <lockkeeper.h>. A red lock
 * has no fence tokens.
 *
 * In Redis, on each node, for the lock "payroll":
 *
 *   payroll     as a reentrant lock's hash (<lockkeeper/lock.h>), or with `plain` as a plain lock's
 *               string (<lockkeeper/plain_lock.h>), which redsync and node-redlock share
 *
 *   field or token = <uuid of that node's client>:<number>, different on each node
 *
 * THE NODES must be independent: a replica, or a second database of one server, is not a node. A
 * node is one server; or a master with replicas that its client follows through failovers
 * (redis-replicas://, redis-sentinel://); or a cluster (redis-cluster://): the master that has the
 * name's slot at the time votes. Any mixture of these is a quorum. Two addresses of one server or
 * of one cluster are refused (LK_EINVAL) as soon as both have identified themselves (INFO server:
 * run_id; where a node is a cluster, CLUSTER MYID too); their votes never count together.
 *
 * The handle is an lk_lock: acquire, try, release, extend, is_held, remaining_ms, … are those of
 * <lockkeeper/lock.h>. What differs:
 *
 * GRANTED means that a majority has granted the lock, and at least a tenth of the lease is left.
 * The lease counts from before the first command was written, minus drift (1 % and 2 ms).
 * lk_lock_remaining_ms() returns what is left. The library asks all nodes at once, and does not
 * wait for the slowest: what that node grants later joins the hold, or is released. A node that had
 * not connected, or not identified itself, when a majority had granted is asked in the background,
 * for at most the command limit: every healthy node has the lock within a round trip. A node where
 * another owner still had the lock is asked again after pauses that double from 10 ms. After a try
 * that fails, the library releases the lock on all nodes that may have granted it, including those
 * that never answered.
 *
 * WAITING. A waiter tries again after pauses that grow, with jitter (retry_min_ms … retry_max_ms).
 * Where no majority can grant the lock any more, a try waits for the nodes that have not answered
 * only if they decide between the first two. A wait ends at once if so many nodes answer with
 * errors that they would give again (an unknown -ERR, NOPERM, OOM) that no majority is left. The
 * wait limit bounds every try but the first; that one too, if the caller has waited behind another
 * of its client.
 *   LK_EBUSY, LK_ETIMEDOUT   a majority answered, and another owner prevents a majority for us
 *   LK_ENOQUORUM             no majority answered, or may vote; the message says why, for each node
 *                            that failed
 *   LK_EMAYBEHELD            so many nodes granted it, or were asked for it and did not answer,
 *                            that they might be a majority, even if another owner has some of the
 *                            rest: the library releases in the background what they grant
 *
 * A NODE THAT HAS FORGOTTEN has no vote: its grant does not count. A node that started less than
 * `quarantine_ms` ago (INFO server: uptime_in_seconds) may have granted a lock and forgotten it,
 * unless it writes everything to disk before it answers (INFO persistence: aof_enabled, and CONFIG
 * GET appendfsync: always). The library asks again on each new connection. So a quorum of freshly
 * started servers grants nothing for one lease. Without the right to read INFO server, the node has
 * no vote either; without the right to read CONFIG, it does not count as a node that writes
 * everything to disk. Two things are not detected: a server that keeps running and loses data
 * (FLUSHALL, eviction, DEL), and clocks that jump.
 *
 * A NODE THAT WAS TAKEN OVER by a replica has all grants if its clients use replica_acks=all, the
 * default for such URLs: a grant counts when every replica has it. Then the new master votes at
 * once, if it goes on with the history that this handle knew (INFO replication: master_replid,
 * master_replid2). Any other change of master or history costs the vote for `quarantine_ms` from
 * when it is noticed; with another replica_acks every change does. A client that does not know the
 * node yet cannot notice a change. With replica_acks=all it trusts a promoted master; with another
 * value it waits for `quarantine_ms`.
 *
 * A SLOT THAT MOVED to another shard of a cluster costs the vote for `quarantine_ms` from when the
 * client notices it, within about a second: no replica is known to have the keys that moved with
 * it. A failover within the shard is as above. A held lock stays: it is renewed and released where
 * its slot is. The new master of a slot that moves key by key has no vote. A client that connects
 * after the move cannot notice it, and trusts the new master.
 *
 * RENEWAL by the watchdog needs a majority too. While the majority stands, the library also writes
 * the lock to a node that came back empty, or had not granted at first: as soon as its client is
 * connected again, and at the latest at the next check (<lockkeeper/lock.h>, LOSS). When a
 * connection to any node is lost, and when it is there again, the library asks all nodes at once
 * whether they have the lock, even without a watchdog. LK_EVENT_AT_RISK and LK_EVENT_LOST (on the
 * first client) are about the majority: the loss of one node is not the loss of the lock.
 *
 * LOST BEFORE THE DEADLINE, because a majority of the nodes has it no more: the notice comes at
 * once, and every call says LK_ELOST. What the other nodes have of it stays until the deadline that
 * the holder could read before, until it releases the lock, or until the clients are closed: where
 * the nodes that have lost it may not vote yet, it is all that keeps others out until then.
 *
 * RELEASE goes to all nodes and returns when a majority has confirmed. LK_ELOST: a majority no
 * longer had the lock, even if all nodes without an answer have it. LK_EMAYBEHELD: no majority
 * confirmed.
 *
 * NOT AVAILABLE: export, is_held_by, server_ttl_ms, and a field in options (LK_EINVAL: it
 * has no single field). is_locked writes 1 when a majority of nodes has the key, and fails with
 * LK_ENOQUORUM when the answers do not decide it. force_release deletes the key on all nodes that
 * answer.
 */
#ifndef LOCKKEEPER_RED_LOCK_H
#define LOCKKEEPER_RED_LOCK_H

#include <lockkeeper/lock.h>

#define LK_RED_NODES_MIN 3
#define LK_RED_NODES_MAX 32

typedef struct lk_red_lock_options {
	size_t struct_size;
	int plain;             /* 1: strings, shared with redsync and node-redlock; 0: hashes */
	int64_t quarantine_ms; /* the longest lease that anyone uses: a node has no vote for this
				  long after its start, or its takeover. 0: the watchdog's
				  lease, or the requested lease if that is longer; -1: trust
				  every node to remember */
	int64_t node_limit_ms; /* how long one try waits for a node; 0: a quarter of the lease.
				  Never longer than command_timeout_ms; see also WAITING */
	int64_t retry_min_ms;  /* the first pause between tries; 0: 10 ms */
	int64_t retry_max_ms;  /* the longest; 0: 200 ms */
} lk_red_lock_options;

#define LK_RED_LOCK_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(lk_red_lock_options), 0, 0, 0, 0, 0                                         \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle over `count` (LK_RED_NODES_MIN … LK_RED_NODES_MAX) clients, one for each node;
 * `name` as for lk_lock_new(), `options` may be NULL. Keep the clients open while you use the
 * handle. The first client sets the watchdog's lease. Handles of one name over the same clients
 * stand for one lock, with the options of the handle made last. Does no I/O. Free it with
 * lk_lock_free(). Errors: LK_EINVAL (counts, one client or URL twice, threadless clients
 * among others, the name in use over other clients with the same first one, options),
 * LK_ENOMEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_red_lock_new(lk_lock **lock_out, lk_client *const *clients, size_t count,
			   const void *name, size_t name_size, const lk_red_lock_options *options,
			   lk_error *error);

LK_END_DECLS

#endif
