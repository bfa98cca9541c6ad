#include "drive/take_back.h"

#include <stdlib.h>
#include <utlist.h>

#include <lockkeeper/error.h>

#include "base/clock.h"
#include "conf/config.h"
#include "drive/entry.h"
#include "drive/loop.h"

#define AGAIN_NS (200 * LK__MS) /* between attempts that were refused, doubled each time */
#define AGAIN_MAX_NS (16 * AGAIN_NS)

struct lk__take_back {
	struct lk__take_back *prev, *next;
	struct lk__take_back *next_due;
	struct lk__entry *entry;
	uint64_t number;
	int64_t until_ns; /* a copy of the acquire may run until then */
	int64_t end_ns;   /* by then its lease has ended it */
	int64_t at_ns;    /* the next attempt; LK__NEVER while one is under way */
	int64_t pause_ns; /* before it, if this one is refused */
};

/* Entry's mutex held. NULL when out of memory: the lease ends it. */
static struct lk__take_back *take_back_new(struct lk__entry *entry, uint64_t number,
					   int64_t until_ns, int64_t at_ns)
{
	lk_client *client = entry->client;
	struct lk__take_back *take_back = calloc(1, sizeof(*take_back));
	if (!take_back)
		return NULL;
	lk__entry_ref(entry);
	atomic_fetch_add(&entry->taking_back, 1);
	take_back->entry = entry;
	take_back->number = number;
	take_back->until_ns = until_ns;
	take_back->end_ns = lk__entry_outlived_ns(entry, until_ns);
	take_back->at_ns = at_ns;
	take_back->pause_ns = AGAIN_NS;
	lk__count(&client->counters.take_backs, 1);
	pthread_mutex_lock(&client->mutex);
	DL_APPEND(client->take_backs, take_back);
	pthread_mutex_unlock(&client->mutex);
	return take_back;
}

static void take_back_later(struct lk__take_back *take_back, int64_t at_ns)
{
	lk_client *client = take_back->entry->client;
	pthread_mutex_lock(&client->mutex);
	take_back->at_ns = at_ns;
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

/* When to try again after one that was refused, or got no answer. */
static int64_t take_back_refused(struct lk__take_back *take_back, int64_t now_ns)
{
	int64_t at_ns = now_ns + take_back->pause_ns;
	if (take_back->pause_ns < AGAIN_MAX_NS)
		take_back->pause_ns *= 2;
	return at_ns < take_back->end_ns ? at_ns : take_back->end_ns;
}

static void take_back_finish(struct lk__request *request)
{
	struct lk__take_back *take_back = request->owner;
	int64_t now_ns = lk__now_ns();
	/* What is no lock of this kind any more holds nothing of ours. */
	bool answered = request->code == 0 || request->code == LK_EWRONGTYPE;
	bool sure = answered && request->sent_ns >= take_back->until_ns;
	lk__request_free(request);
	if (sure || now_ns >= take_back->end_ns)
		take_back_end(take_back);
	else
		take_back_later(take_back, answered ? take_back->until_ns + LK__MS
						    : take_back_refused(take_back, now_ns));
}

/* False when out of memory. */
static bool take_back_send(struct lk__take_back *take_back, struct lk__conn *conn)
{
	struct lk__entry *entry = take_back->entry;
	char field[LK__FIELD_SIZE];
	lk__field(entry, take_back->number, field);
	struct lk__request *request = entry->recipe->release(&entry->target, field);
	if (!request)
		return false;
	request->owner = take_back;
	request->finish = take_back_finish;
	request->resend = true;
	request->deadline_ns = take_back->end_ns;
	lk__conn_submit(conn, request);
	return true;
}

void lk__take_back(struct lk__entry *entry, uint64_t number, int64_t until_ns)
{
	if (take_back_new(entry, number, until_ns, lk__now_ns()))
		lk__loop_wake(entry->client);
}

void lk__take_back_behind(struct lk__entry *entry, uint64_t number)
{
	int64_t now_ns = lk__now_ns();
	struct lk__take_back *take_back = take_back_new(entry, number, now_ns, LK__NEVER);
	if (take_back && !take_back_send(take_back, entry->scripts))
		take_back_later(take_back, now_ns);
}

/* Those that are due, in a row, marked as under way. `next_ns`: when the next is. */
static struct lk__take_back *take_back_due(lk_client *client, int64_t now_ns, int64_t *next_ns)
{
	struct lk__take_back *take_back, *first = NULL, **end = &first;
	*next_ns = LK__NEVER;
	pthread_mutex_lock(&client->mutex);
	DL_FOREACH(client->take_backs, take_back)
	{
		if (take_back->at_ns <= now_ns) {
			take_back->at_ns = LK__NEVER;
			take_back->next_due = NULL;
			*end = take_back;
			end = &take_back->next_due;
		} else if (take_back->at_ns < *next_ns) {
			*next_ns = take_back->at_ns;
		}
	}
	pthread_mutex_unlock(&client->mutex);
	return first;
}

int64_t lk__take_back_turn(lk_client *client)
{
	int64_t next_ns;
	struct lk__take_back *take_back = take_back_due(client, lk__now_ns(), &next_ns);
	while (take_back) {
		struct lk__take_back *next = take_back->next_due;
		if (!take_back_send(take_back, &take_back->entry->node->work))
			take_back_end(take_back);
		take_back = next;
	}
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
