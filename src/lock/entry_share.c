/* SPDX-License-Identifier: MIT */
/*
 * On which of its node's connections for scripts an entry is (conn/share.c).
 *
 * It stays on one while anything of it is under way there: a try, a release, a number that is
 * compensated, an acquire of which a copy may still run. So no release overtakes its acquire, and
 * no acquire a release that nobody waits for. Else each caller that waits for an answer takes it
 * along to the connection that it chooses.
 *
 * Where each owner has an entry, or several kinds share a key, what one of them sends comes before
 * what the next one sends: all are on the first connection. An entry that red locks have in common
 * with callers of its own stays where it is, since nothing here tells what of those is under way.
 */
#include "lock/entry.h"

#include "base/clock.h"
#include "conf/config.h"

#define EXTRA_MOST 16 /* connections of a client beside the first of each node */

static bool entry_may_move(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	return recipe->sharing == LK__ONE_QUEUE && !recipe->other_side && !entry->spreads &&
	       !lk__entry_reds(entry);
}

static bool entry_is_under_way(const struct lk__entry *entry)
{
	const struct lk__waiting *waiting = entry->waiting;
	int64_t repeated_until_ns = entry->grant.repeated_until_ns;
	return entry->passing || atomic_load(&entry->releasing) > 0 ||
	       atomic_load(&entry->compensating) > 0 ||
	       (waiting && (waiting->request || waiting->answered)) ||
	       (repeated_until_ns && repeated_until_ns > lk__now_ns());
}

/* The client has found all connections of the node taken, for a while. One caller at a time counts
 * and opens: two nodes may not both take the last that is free. */
static void client_grow(lk_client *client, struct lk__node *node)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *each;
	size_t extra = 0;
	if (atomic_exchange(&client->growing, true))
		return;
	for (size_t i = 0; (each = topo->ops->node_at(topo, i)); i++)
		extra += lk__node_extra(each);
	if (extra < EXTRA_MOST)
		lk__node_grow(node);
	atomic_store(&client->growing, false);
}

struct lk__conn *lk__entry_join(struct lk__entry *entry, struct lk__node *node)
{
	bool crowded = false;
	struct lk__conn *conn;
	if (node->config->connections > 1 && entry_may_move(entry) && !entry_is_under_way(entry)) {
		conn = lk__node_join(node, &crowded);
		atomic_store(&entry->conn_index, conn->index);
	} else {
		conn = lk__node_scripts_at(node, atomic_load(&entry->conn_index));
		lk__conn_join(conn);
	}
	if (crowded)
		client_grow(entry->client, node);
	return conn;
}

void lk__entry_rejoin_first(struct lk__entry *entry)
{
	if (atomic_load(&entry->conn_index) > 0 && !lk__entry_reds(entry) &&
	    !entry_is_under_way(entry))
		atomic_store(&entry->conn_index, 0);
}

void lk__entry_return(struct lk__entry *entry, const struct lk__node *node)
{
	unsigned index = atomic_load(&entry->conn_index);
	if (index > 0 && lk__node_scripts_at(node, index)->state != LK__CONN_UP)
		lk__entry_rejoin_first(entry);
}

struct lk__conn *lk__entry_scripts(const struct lk__entry *entry)
{
	return lk__node_scripts_at(lk__entry_node(entry), atomic_load(&entry->conn_index));
}

struct lk__conn *lk__entry_conn(const struct lk__entry *entry)
{
	return lk__node_scripts_at(entry->target.node, atomic_load(&entry->conn_index));
}
