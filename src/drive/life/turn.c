/* SPDX-License-Identifier: MIT */
/* What a turn of the loop does for its client. */
#include "base/clock.h"
#include "drive/async/async.h"
#include "drive/background/compensation.h"
#include "drive/background/watch.h"
#include "drive/client/client_record.h"
#include "drive/life/life.h"
#include "drive/notices/notices.h"

/* Connections that a crowd has left. */
static int64_t client_rest(lk_client *client, int64_t now_ns)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *node;
	int64_t next_ns = LK__NEVER;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++)
		next_ns = lk__earlier(next_ns, lk__node_rest(node, now_ns));
	return next_ns;
}

int64_t lk__client_turn(lk_client *client, bool verify, bool *resumed_out)
{
	if (verify) {
		lk__watch_all(client);
		lk__compensation_retry(client);
	}
	int64_t next_ns = lk__watch_turn(client);
	next_ns = lk__earlier(next_ns, lk__compensation_turn(client));
	next_ns = lk__earlier(next_ns, lk__client_record_turn(client));
	next_ns = lk__earlier(next_ns, lk__async_turn(client, resumed_out));
	next_ns = lk__earlier(next_ns, client_rest(client, lk__now_ns()));
	lk__notices_ring(client);
	return lk__earlier(next_ns, lk__close_turn(client));
}
