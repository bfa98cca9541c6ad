/* SPDX-License-Identifier: MIT */
#include "drive/lock/turn.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conn/channels.h"
#include "sync/script.h"

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

int64_t lk__turn_since_ns(struct lk__entry *entry, int64_t begun_ns)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!waiting->since_ns || begun_ns < waiting->since_ns)
		waiting->since_ns = begun_ns;
	return waiting->since_ns;
}

void lk__turn_is_over(struct lk__entry *entry)
{
	entry->waiting->has_place = false;
	entry->waiting->since_ns = 0;
}

/* Without memory for it, or without the right, the place ends by itself. */
void lk__turn_leave(struct lk__entry *entry)
{
	struct lk__words words = {.count = 0};
	if (!entry->waiting || !entry->waiting->has_place)
		return;
	lk__turn_is_over(entry);
	lk__words_add(&words, entry->target.key, entry->target.key_size);
	lk__words_text(&words, entry->waiting->turn);
	lk__words_channel(&words, &entry->target);
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_TURNS_LEAVE, 1);
	if (!request)
		return;
	request->finish = lk__request_forget;
	request->deadline_ns = lk__after_ms(lk__now_ns(),
					    entry->client->config->command_timeout_ms);
	if (!lk__conn_offer(lk__entry_conn(entry), request))
		lk__request_free(request);
}
