/* SPDX-License-Identifier: MIT */
/* What a turn of the loop does for its client. */
#include "base/clock.h"
#include "drive/async/async.h"
#include "drive/background/compensation.h"
#include "drive/background/watch.h"
#include "drive/client/client_record.h"
#include "drive/life/life.h"
#include "drive/notices/notices.h"

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
	lk__notices_ring(client);
	return lk__earlier(next_ns, lk__close_turn(client));
}
