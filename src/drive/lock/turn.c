/* SPDX-License-Identifier: MIT */
#include "drive/lock/turn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conn/channels.h"

#define TURNS_PREFIX "lockkeeper_turns" /* as in sync/turns.lua */

static bool has_turns(const struct lk__target *target)
{
	return target->recipe->flags & LK__TURNS;
}

const char *lk__turn_begin(struct lk__entry *entry)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!has_turns(&entry->target))
		return NULL;
	if (!waiting->has_place)
		lk__field(entry, atomic_fetch_add(waiting->attempt.rules.numbers, 1) + 1,
			  waiting->turn);
	return waiting->turn;
}

const char *lk__turn_take(struct lk__entry *entry)
{
	struct lk__listening *channel = lk__entry_channel(entry);
	bool turns = channel && lk__channel_take_turns(lk__entry_messages(entry), channel,
						       has_turns(&entry->target));
	entry->waiting->has_place |= turns;
	return turns ? entry->waiting->turn : NULL;
}

/* Without memory for it, or without the right, the place ends by itself. */
void lk__turn_leave(struct lk__entry *entry)
{
	const struct lk__target *target = &entry->target;
	size_t size;
	if (!entry->waiting || !entry->waiting->has_place)
		return;
	entry->waiting->has_place = false;
	char *key = lk__derived_name(TURNS_PREFIX, target->key, target->key_size, &size);
	const char *id = entry->waiting->turn;
	struct lk__request *request = key ? lk__request_new(3, (const char *[]){"ZREM", key, id},
							    (size_t[]){4, size, strlen(id)})
					  : NULL;
	free(key);
	if (!request)
		return;
	request->finish = lk__request_forget;
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    entry->client->config->command_timeout_ms);
	if (!lk__conn_offer(lk__entry_conn(entry), request))
		lk__request_free(request);
}
