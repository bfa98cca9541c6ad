#include "drive/take_back.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "conf/config.h"
#include "drive/entry.h"
#include "drive/loop.h"

#define AGAIN_NS (200 * LK__MS) /* between attempts that got no answer */

struct lk__take_back {
	struct lk__take_back *prev, *next;
	struct lk__entry *entry;
	uint64_t number;
	int64_t until_ns; /* a copy of the acquire may run until then */
	int64_t end_ns;   /* by then its lease has ended it */
	int64_t at_ns;    /* the next attempt; LK__NEVER while one is under way */
};

void lk__take_back(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	lk_client *client = entry->client;
	struct lk__take_back *take_back = calloc(1, sizeof(*take_back));
	if (!take_back)
		return; /* out of memory: the lease ends it */
	lk__entry_ref(entry);
	atomic_fetch_add(&entry->taking_back, 1);
	take_back->entry = entry;
	take_back->number = number;
	take_back->until_ns = until_ns;
	take_back->end_ns = lk__entry_outlived_ns(entry, until_ns);
	take_back->at_ns = lk__now_ns();
	lk__count(&client->counters.take_backs, 1);
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->take_backs, take_back);
	pthread_mutex_unlock(&client->mutex);
	lk__loop_wake(client);
}

static void take_back_end(struct lk__take_back *take_back)
{
	struct lk__entry *entry = take_back->entry;
	pthread_mutex_lock(&entry->client->mutex);
	DL_DELETE(entry->client->take_backs, take_back);
	pthread_mutex_unlock(&entry->client->mutex);
	free(take_back);
	atomic_fetch_sub(&entry->taking_back, 1);
	lk__entry_unref(entry);
}

static void take_back_finish(struct lk__request *request)
{
	struct lk__take_back *take_back = request->owner;
	int64_t now_ns = lk__now_ns();
	bool sure = request->code == 0 && request->sent_ns >= take_back->until_ns;
	bool answered = request->code == 0;
	lk__request_free(request);
	if (sure || now_ns >= take_back->end_ns) {
		take_back_end(take_back);
		return;
	}
	lk_client *client = take_back->entry->client;
	pthread_mutex_lock(&client->mutex);
	take_back->at_ns = answered ? take_back->until_ns + LK__MS : now_ns + AGAIN_NS;
	pthread_mutex_unlock(&client->mutex);
	lk__loop_wake(client);
}

static void take_back_send(struct lk__take_back *take_back)
{
	struct lk__entry *entry = take_back->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, take_back->number, field);
	struct lk__request *request = entry->recipe->release(&entry->target, field);
	if (!request) {
		take_back_end(take_back);
		return;
	}
	request->owner = take_back;
	request->finish = take_back_finish;
	request->deadline_ns = take_back->end_ns;
	lk__conn_submit(&entry->node->work, request);
}

/* One that is due, marked as under way; NULL when there is none. `next_ns`: when the next is. */
static struct lk__take_back *take_back_pop(lk_client *client, int64_t now_ns, int64_t *next_ns)
{
	struct lk__take_back *take_back, *due = NULL;
	*next_ns = LK__NEVER;
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->take_backs, take_back)
	{
		if (!due && take_back->at_ns <= now_ns)
			due = take_back;
		else if (take_back->at_ns < *next_ns)
			*next_ns = take_back->at_ns;
	}
	if (due)
		due->at_ns = LK__NEVER;
	pthread_mutex_unlock(&client->mutex);
	return due;
}

int64_t lk__take_back_turn(lk_client *client)
{
	struct lk__take_back *take_back;
	int64_t next_ns, now_ns = lk__now_ns();
	while ((take_back = take_back_pop(client, now_ns, &next_ns)))
		take_back_send(take_back);
	return next_ns;
}

void lk__take_back_free(lk_client *client)
{
	struct lk__take_back *take_back, *next;
	DL_FOREACH_SAFE(client->take_backs, take_back, next)
	{
		DL_DELETE(client->take_backs, take_back);
		free(take_back);
	}
}
