/*
 * The head of a line: feeds the acquire machine and does what it says, in the calling thread.
 *
 * The entry's mutex is held except while something is waited for. A try that the head leaves
 * behind stays in flight: the next head waits on for it, and without one whoever reads its answer
 * takes a grant back (orphan_finish()).
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/random.h"
#include "conf/config.h"
#include "drive/caller.h"
#include "drive/loop.h"
#include "drive/take_back.h"

#define SENDS_MAX 3                   /* of one try, each on a new connection */
#define ANSWER_GRACE_NS (50 * LK__MS) /* beyond a try's deadline, for its answer's way back */

struct head {
	struct lk__entry *entry;
	struct lk__waiter *waiter;
	struct lk__acquire_event event;
	uint64_t fence;
	int64_t sent_ns; /* of the try that was granted */
	uint64_t epoch;  /* of the node, before the try */
	bool unsent;     /* the connection was lost before the try was written */
	bool pins;       /* the connection, see head_pin() */
	lk_error *error;
};

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static int head_fail(struct head *head, int code, const char *reason)
{
	return lk__fail(head->error, code, "acquire \"%.100s\" on %.100s: %s", head->entry->name,
			head->entry->client->config->url, reason);
}

/* 0, or why the head has to leave. */
static int head_over(const struct head *head)
{
	const struct lk__waiter *waiter = head->waiter;
	if (atomic_load(&head->entry->client->state) != LK__CLIENT_OPEN)
		return LK_ECLOSED;
	if (lk__cancelled(waiter->cancel))
		return LK_ECANCELLED;
	if (waiter->until_ns != LK__NEVER && lk__now_ns() >= waiter->until_ns)
		return LK_ETIMEDOUT;
	return 0;
}

/* ---- answers ---- */

/* While a try is out, and until its grant has an owner or has gone back, close must not take the
 * connection for idle. */
static void head_pin(struct head *head)
{
	if (!head->pins)
		lk__conn_pin(head->entry->scripts);
	head->pins = true;
}

static void head_unpin(struct head *head)
{
	if (head->pins)
		lk__conn_unpin(head->entry->scripts);
	head->pins = false;
}

/* The outcome of the last try is unknown. */
static void head_take_back(struct lk__entry *entry)
{
	lk__take_back(entry, entry->number, entry->try_until_ns);
	entry->copies_until_ns = 0;
	entry->queued = false;
}

/*
 * Nobody goes on with the number of the last try: what it has or may yet get is given back, its
 * place in a queue on the server too. A copy of a try that was sent twice may still come: then once
 * more when none can.
 */
static void head_give_back(struct lk__entry *entry, bool granted)
{
	if (entry->copies_until_ns > lk__now_ns())
		lk__take_back(entry, entry->number, entry->copies_until_ns);
	else if (granted || entry->queued)
		lk__entry_release_unasked(entry, entry->number);
	entry->copies_until_ns = 0;
	entry->queued = false;
}

/* Whether the last try asked for what this head wants to have. */
static bool head_asked_alike(const struct head *head)
{
	const struct lk__entry *entry = head->entry;
	const struct lk__waiter *waiter = head->waiter;
	return entry->try_count == waiter->count &&
	       entry->try_lease_ms == lk__entry_lease_ms(entry, waiter->hold);
}

/*
 * What an earlier head's try has, or a copy of it may yet get, is not ours if that asked for
 * something else. A place in a queue is kept: our own try says there what we want.
 */
static void head_disown(struct head *head, bool granted)
{
	struct lk__entry *entry = head->entry;
	if (head_asked_alike(head) || (!granted && !entry->copies_until_ns))
		return;
	head_give_back(entry, granted);
	entry->acquire.fresh = true;
}

/*
 * The try of an earlier head was answered. A grant of the same is ours; else we try at once, as
 * every new head does, for the answer was to what another asked for.
 */
static void head_adopt(struct head *head)
{
	struct lk__entry *entry = head->entry;
	bool granted = head->event.type == LK__ACQUIRE_GRANTED;
	if (head->event.type != LK__ACQUIRE_BUSY && !(granted && !head_asked_alike(head)))
		return;
	head_disown(head, granted);
	entry->acquire.busy = true; /* who leaves now has waited for the one before it */
	entry->acquire.was_late = false;
	head->event.type = LK__ACQUIRE_LATE; /* not done: at once again */
}

/* The event that the answer is; the request is gone. */
static void head_read(struct head *head, struct lk__request *request)
{
	struct lk__entry *entry = head->entry;
	struct lk__answer answer = {.fence = 0};
	entry->recipe->read_acquire(request, &answer);
	head->event = answer.event;
	head->fence = answer.fence;
	if (head->event.type == LK__ACQUIRE_BUSY) {
		lk__count(&entry->client->counters.busy, 1);
		entry->busy_sent_ns = request->sent_ns;
		entry->busy_server_us = answer.server_us;
	}
	entry->contended |= head->event.type == LK__ACQUIRE_BUSY;
	if (head->event.type == LK__ACQUIRE_LATE)
		lk__node_learn_time(entry->node, answer.server_us, lk__now_ns());
	if (answer.reason)
		head_fail(head, head->event.code, answer.reason);
	else if (request->code)
		head_fail(head, request->code, request->reason);
	head->sent_ns = request->sent_ns;
	head->unsent = request->code == LK_EUNREACHABLE && request->sends == 0;
	if (request->sends > 1)
		entry->copies_until_ns = request->deadline_ns;
	entry->request = NULL;
	lk__request_free(request);
	if (head->event.type == LK__ACQUIRE_GRANTED &&
	    lk__now_ns() >= lk__lease_end_ns(head->sent_ns, entry->try_lease_ms)) {
		head_fail(head, LK_EMAYBEHELD, "the grant came later than its lease");
		head->event.type = LK__ACQUIRE_UNKNOWN;
	}
}

/* A try was answered and there is nobody who wants it: a grant is given back. */
static void orphan_read(struct lk__entry *entry, struct lk__request *request)
{
	struct head head = {.entry = entry};
	head_read(&head, request);
	struct lk__acquire_action action = lk__acquire_step(&entry->acquire, &head.event,
							    lk__now_ns());
	if (action.type == LK__ACQUIRE_DO_TAKE_BACK && head.event.type == LK__ACQUIRE_UNKNOWN)
		head_take_back(entry);
	else
		head_give_back(entry, action.type == LK__ACQUIRE_DO_TAKE_BACK);
}

/* A try whose caller has left is answered: the next head's, or nobody's. */
static void orphan_finish(struct lk__request *request)
{
	struct lk__entry *entry = request->owner;
	pthread_mutex_lock(&entry->mutex);
	if (entry->head) {
		entry->answered = request;
		lk__park_wake(&entry->head->thread->park);
	} else {
		orphan_read(entry, request);
	}
	pthread_mutex_unlock(&entry->mutex);
	lk__entry_unref(entry);
}

/* The wait for the try's answer ended with `rc`: an event, or the head leaves and the try stays. */
static int head_answered(struct head *head, int rc)
{
	struct lk__entry *entry = head->entry;
	struct lk__request *request = entry->request;
	int over = head_over(head);
	if (rc != LK__WAIT_READY) {
		lk__entry_ref(entry);
		if (lk__conn_leave(entry->scripts, request,
				   over ? orphan_finish : lk__request_forget)) {
			if (over)
				return over;
			/* The server has had its time: what it does now is refused as late. */
			entry->request = NULL;
			head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_UNKNOWN};
			head_fail(head, LK_EMAYBEHELD, "no answer within the command limit");
			atomic_fetch_sub(&entry->refs, 1);
			return 0;
		}
		atomic_fetch_sub(&entry->refs, 1);
	}
	head_read(head, request);
	return 0;
}

/* ---- what the machine asks for ---- */

/* Waits for the connection; 0 with an event when there is none, 1 when it is up. */
static int head_connect(struct head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__waiter *waiter = head->waiter;
	int64_t now_ns = lk__now_ns();
	if (!entry->down_since_ns)
		entry->down_since_ns = now_ns;
	int64_t until_ns = waiter->until_ns;
	if (until_ns == LK__NEVER)
		until_ns = lk__after_ms(entry->down_since_ns, entry->client->config->retry_ms);
	lk_error why = {.code = LK_EUNREACHABLE, .message = "the server cannot be reached"};
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__conn_ready(entry->scripts, waiter->thread, waiter->once, until_ns,
				waiter->cancel, &why);
	pthread_mutex_lock(&entry->mutex);
	if (rc == LK__WAIT_READY) {
		entry->down_since_ns = 0;
		return 1;
	}
	if (rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return rc;
	head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_FAILED, .code = why.code};
	head_fail(head, why.code, why.message);
	return 0;
}

/* Makes the request of a try; NULL when out of memory. */
static struct lk__request *head_request(const struct head *head)
{
	struct lk__entry *entry = head->entry;
	const struct lk__waiter *waiter = head->waiter;
	int64_t now_ns = lk__now_ns();
	char field[LK__FIELD_SIZE];
	lk__field(entry, entry->number, field);
	struct lk__try wanted = {
		.target = &entry->target,
		.field = field,
		.number = entry->number,
		.lease_ms = entry->try_lease_ms,
		.deadline_us = lk__node_server_us(entry->node, entry->try_until_ns),
		.wait_ms = -1,
		.alive_ms = entry->client->config->fair_wait_ms,
		.count = waiter->count,
		.under = waiter->under,
		.settled = entry->settled,
		.flags = waiter->settings.flags,
		.once = waiter->once,
	};
	if (waiter->until_ns != LK__NEVER)
		wanted.wait_ms = now_ns < waiter->until_ns
					 ? (waiter->until_ns - now_ns) / LK__MS + 1
					 : 1;
	return entry->recipe->acquire(&wanted);
}

static int head_send(struct head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__waiter *waiter = head->waiter;
	const struct lk_config *config = entry->client->config;
	entry->try_lease_ms = lk__entry_lease_ms(entry, waiter->hold);
	entry->try_count = waiter->count;
	entry->try_until_ns = lk__after_ms(lk__now_ns(), config->command_timeout_ms);
	struct lk__request *request = head_request(head);
	if (!request) {
		head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_FAILED,
							 .code = LK_ENOMEM};
		head_fail(head, LK_ENOMEM, "out of memory");
		return 0;
	}
	request->resend = true;
	request->contended = entry->contended;
	request->return_unsent = true;
	request->deadline_ns = entry->try_until_ns;
	request->owner = entry;
	entry->queued |= (entry->recipe->flags & LK__QUEUES) && !waiter->once;
	entry->request = request;
	head->epoch = atomic_load(&entry->node->epoch);
	if (entry->channel)
		lk__channel_mark(&entry->node->messages, entry->channel, &entry->mark);
	head_pin(head);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__conn_call(entry->scripts, request, waiter->thread,
			       earlier(waiter->until_ns, request->deadline_ns + ANSWER_GRACE_NS),
			       waiter->cancel);
	pthread_mutex_lock(&entry->mutex);
	return head_answered(head, rc);
}

/* A new wait: with it goes the channel, where that is the waiter's own. */
static void head_renumber(struct lk__entry *entry, struct lk__waiter *waiter)
{
	entry->number = waiter->borrow;
	waiter->borrow = 0;
	entry->queued = false;
	entry->copies_until_ns = 0;
	if (!entry->number)
		entry->number = atomic_fetch_add(&entry->client->last_number, 1) + 1;
	if ((entry->recipe->flags & LK__OWN_CHANNEL) && entry->channel) {
		lk__channel_close(&entry->node->messages, entry->channel);
		entry->channel = NULL;
		entry->mark.listening = NULL;
		entry->acquire.listening = false;
	}
}

/* The same where the lock is on several nodes. */
static int head_try_all(struct head *head)
{
	struct lk__entry *entry = head->entry;
	head->epoch = atomic_load(&entry->node->epoch);
	head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_FAILED};
	int rc = entry->ops->try_once(entry, head->waiter, &head->event, &head->sent_ns,
				      head->error);
	if (rc == 0 && head->event.type == LK__ACQUIRE_BUSY)
		lk__count(&entry->client->counters.busy, 1);
	return rc;
}

/* An idle connection that the server has closed is found out by writing: that fails no call. */
static int head_try(struct head *head, bool new_number)
{
	struct lk__entry *entry = head->entry;
	int rc = 0;
	if (new_number)
		head_renumber(entry, head->waiter);
	for (int sends = 0; sends < SENDS_MAX; sends++) {
		rc = head_connect(head);
		if (rc <= 0)
			return rc;
		rc = head_send(head);
		if (rc < 0 || !head->unsent || head_over(head))
			break;
	}
	return rc;
}

/* A try of an earlier head is in flight, or has just been answered. */
static int head_await(struct head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__waiter *waiter = head->waiter;
	head_pin(head);
	if (entry->request && !entry->answered &&
	    lk__conn_adopt(entry->scripts, entry->request, waiter->thread)) {
		int64_t until_ns = earlier(waiter->until_ns, entry->try_until_ns + ANSWER_GRACE_NS);
		atomic_fetch_sub(&entry->refs, 1);
		pthread_mutex_unlock(&entry->mutex);
		int rc = lk__conn_await(entry->scripts, entry->request, waiter->thread, until_ns,
					waiter->cancel);
		pthread_mutex_lock(&entry->mutex);
		rc = head_answered(head, rc);
		head_adopt(head);
		return rc;
	}
	while (!entry->answered) {
		int over = head_over(head);
		if (over)
			return over;
		pthread_mutex_unlock(&entry->mutex);
		lk__park_wait(&waiter->thread->park, waiter->until_ns);
		pthread_mutex_lock(&entry->mutex);
	}
	struct lk__request *request = entry->answered;
	entry->answered = NULL;
	head_read(head, request);
	head_adopt(head);
	return 0;
}

static struct lk__listening *head_open_channel(struct lk__entry *entry)
{
	const struct lk__target *target = &entry->target;
	struct lk__conn *conn = &entry->node->messages;
	char field[LK__FIELD_SIZE];
	if (!(entry->recipe->flags & LK__OWN_CHANNEL))
		return lk__channel_open(conn, target->channel, target->channel_size, entry);
	char *own = malloc(target->channel_size + 1 + sizeof(field));
	if (!own)
		return NULL;
	lk__field(entry, entry->number, field);
	memcpy(own, target->channel, target->channel_size);
	own[target->channel_size] = ':';
	memcpy(own + target->channel_size + 1, field, strlen(field) + 1);
	struct lk__listening *channel = lk__channel_open(
		conn, own, strlen(field) + 1 + target->channel_size, entry);
	free(own);
	return channel;
}

/* Who may not listen, of a kind that looks again anyway, does that alone. */
static void head_poll(struct head *head)
{
	struct lk__entry *entry = head->entry;
	lk__channel_close(&entry->node->messages, entry->channel);
	entry->channel = NULL;
	entry->mark.listening = NULL;
	entry->acquire.spins = true;
	head->event.type = LK__ACQUIRE_LISTENING;
}

static int head_listen(struct head *head)
{
	struct lk__entry *entry = head->entry;
	struct lk__conn *conn = &entry->node->messages;
	lk_error why = {.code = LK_EUNREACHABLE, .message = "no answer to SUBSCRIBE"};
	if (!entry->channel)
		entry->channel = head_open_channel(entry);
	if (!entry->channel) {
		head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_FAILED,
							 .code = LK_ENOMEM};
		head_fail(head, LK_ENOMEM, "out of memory");
		return 0;
	}
	int64_t until_ns = earlier(head->waiter->until_ns,
				   lk__after_ms(lk__now_ns(), entry->client->config->retry_ms));
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__channel_await(conn, entry->channel, head->waiter->thread, until_ns,
				   head->waiter->cancel, &why);
	pthread_mutex_lock(&entry->mutex);
	if (rc == LK_ECANCELLED || rc == LK_ECLOSED)
		return rc;
	if (rc == LK__WAIT_READY) {
		lk__channel_mark(conn, entry->channel, &entry->mark);
		head->event.type = LK__ACQUIRE_LISTENING;
		return 0;
	}
	if (rc == LK__WAIT_TIME_UP && head_over(head))
		return head_over(head);
	if (rc == LK_EDENIED && entry->acquire.poll_ns) {
		head_poll(head);
		return 0;
	}
	head->event = (struct lk__acquire_event){.type = LK__ACQUIRE_FAILED, .code = why.code};
	head_fail(head, why.code, why.message);
	return 0;
}

/*
 * Whether the message has brought the lock. Its lease counts from the hand-over: so much after the
 * last try was sent as the server says that lies between, less 1 % for the clocks; never later than
 * it was, as long as the server's clock does not jump. A hand-over from before that try was refused
 * is over.
 */
static bool head_handed(struct head *head, const char *payload)
{
	const struct lk__entry *entry = head->entry;
	int64_t handed_us = 0;
	if (!entry->recipe->read_message || !entry->recipe->read_message(payload, &handed_us) ||
	    !entry->busy_server_us || handed_us < entry->busy_server_us)
		return false;
	int64_t now_ns = lk__now_ns();
	int64_t after_us = (handed_us - entry->busy_server_us) / 100 * 99;
	int64_t most_us = (now_ns - entry->busy_sent_ns) / 1000;
	if (after_us > most_us)
		after_us = most_us;
	head->sent_ns = entry->busy_sent_ns + after_us * 1000;
	return now_ns < lk__lease_end_ns(head->sent_ns, entry->try_lease_ms);
}

/* A random part of the half of the time until then. */
static int64_t head_jitter_ns(int64_t until_ns)
{
	uint32_t random = 0;
	int64_t now_ns = lk__now_ns();
	lk__random_bytes(&random, sizeof(random));
	return until_ns > now_ns ? (until_ns - now_ns) / 2 * (random % 1024) / 1024 : 0;
}

static int head_hear(struct head *head, const struct lk__acquire_action *action)
{
	struct lk__entry *entry = head->entry;
	struct lk__waiter *waiter = head->waiter;
	if (!entry->mark.listening) /* subscribed by a head that left before it knew */
		lk__channel_mark(&entry->node->messages, entry->channel, &entry->mark);
	struct lk__heard mark = entry->mark;
	mark.news_only = action->type == LK__ACQUIRE_DO_HOLD_OFF;
	int64_t until_ns = action->until_ns;
	if (entry->acquire.poll_ns) /* not in step with others who poll */
		until_ns -= head_jitter_ns(until_ns) / 2;
	until_ns = earlier(waiter->until_ns, until_ns);
	pthread_mutex_unlock(&entry->mutex);
	int rc = lk__channel_hear(&entry->node->messages, &mark, waiter->thread, until_ns,
				  waiter->cancel);
	pthread_mutex_lock(&entry->mutex);
	if (rc < 0)
		return rc;
	if (rc == LK__WAIT_READY) {
		bool handed = head_handed(head, mark.payload);
		head->event.type = handed ? LK__ACQUIRE_GRANTED : LK__ACQUIRE_WOKEN;
		return 0;
	}
	int over = head_over(head);
	head->event.type = LK__ACQUIRE_TIMER;
	return over;
}

static int head_pause(struct head *head, int64_t until_ns)
{
	struct lk__entry *entry = head->entry;
	struct lk__waiter *waiter = head->waiter;
	int64_t now_ns = lk__now_ns();
	until_ns -= head_jitter_ns(until_ns);
	if (waiter->until_ns == LK__NEVER && entry->acquire.failures > 0 &&
	    lk__after_ms(entry->acquire.failing_since_ns, entry->client->config->retry_ms) <
		    now_ns) {
		entry->acquire.state = LK__ACQUIRE_IDLE;
		return entry->acquire.code;
	}
	while (lk__now_ns() < until_ns) {
		int over = head_over(head);
		if (over)
			return over;
		pthread_mutex_unlock(&entry->mutex);
		lk__park_wait(&waiter->thread->park, earlier(waiter->until_ns, until_ns));
		pthread_mutex_lock(&entry->mutex);
	}
	head->event.type = LK__ACQUIRE_TIMER;
	return 0;
}

/* ---- the loop ---- */

static int head_do(struct head *head, const struct lk__acquire_action *action)
{
	int over = head_over(head);
	head_unpin(head);
	/* A wait limit that is very short buys one try all the same. */
	bool first = action->type == LK__ACQUIRE_DO_TRY && head->event.type == LK__ACQUIRE_START;
	if (over && (over != LK_ETIMEDOUT || !first))
		return over;
	switch (action->type) {
	case LK__ACQUIRE_DO_TRY:
		return head->entry->ops ? head_try_all(head) : head_try(head, action->new_number);
	case LK__ACQUIRE_DO_AWAIT:
		return head_await(head);
	case LK__ACQUIRE_DO_LISTEN:
		return head_listen(head);
	case LK__ACQUIRE_DO_WAIT:
	case LK__ACQUIRE_DO_HOLD_OFF:
		return head_hear(head, action);
	case LK__ACQUIRE_DO_PAUSE:
		return head_pause(head, action->until_ns);
	default:
		return LK_EINTERNAL;
	}
}

/* Whether an earlier try of ours may be held for all we know. */
static bool head_taking_back(const struct lk__entry *entry)
{
	return entry->ops ? entry->ops->taking_back(entry) : atomic_load(&entry->taking_back) > 0;
}

static int head_leave(struct head *head, int code)
{
	struct lk__entry *entry = head->entry;
	bool told = entry->acquire.busy && (entry->acquire.state == LK__ACQUIRE_WAITING ||
					    entry->acquire.state == LK__ACQUIRE_PAUSED);
	if (!entry->request && !told)
		entry->acquire.state = LK__ACQUIRE_IDLE; /* nothing was sent */
	int verdict = code == LK_ETIMEDOUT
			      ? lk__acquire_verdict(&entry->acquire, head_taking_back(entry))
			      : code;
	bool alone = head->waiter == entry->line && !head->waiter->next;
	if (alone) {
		entry->down_since_ns = 0;
		struct lk__acquire_event left = {.type = LK__ACQUIRE_LEFT};
		lk__acquire_step(&entry->acquire, &left, lk__now_ns());
		/* Answered, for a head who has not come to read it: us. */
		if (entry->answered) {
			struct lk__request *request = entry->answered;
			entry->answered = NULL;
			orphan_read(entry, request);
		}
	}
	if (entry->acquire.state == LK__ACQUIRE_IDLE)
		head_give_back(entry, false);
	if (verdict == LK_ETIMEDOUT || code == LK_ECANCELLED || code == LK_ECLOSED)
		return head_fail(head, verdict, lk_error_text(verdict));
	if (!head->error || !head->error->code || head->error->code != verdict)
		return head_fail(head, verdict, "no answer within the wait limit");
	return verdict;
}

static int head_give_up(struct head *head, int code)
{
	struct lk__entry *entry = head->entry;
	head_give_back(entry, false);
	if (entry->acquire.unknown && head_taking_back(entry))
		code = LK_EMAYBEHELD;
	return head->error->code == code ? code : head_fail(head, code, lk_error_text(code));
}

/* A grant goes to the waiter: 1. One that comes while the client is being closed goes back, for
 * who would have it could not give it up any more. */
static int head_grant(struct head *head)
{
	struct lk__entry *entry = head->entry;
	if (atomic_load(&entry->client->state) != LK__CLIENT_OPEN) {
		head_give_back(entry, true);
		return head_leave(head, LK_ECLOSED);
	}
	entry->queued = false;
	entry->grant.repeated_until_ns = entry->copies_until_ns;
	entry->copies_until_ns = 0;
	entry->grant.epoch = head->epoch;
	entry->grant.fence = head->fence;
	lk__entry_grant(entry, head->waiter, entry->number, head->sent_ns, entry->try_lease_ms);
	if (entry->channel) /* others wait: until one is the head, the loop reads */
		lk__loop_attend(entry->client);
	return 1;
}

/* What this head wants of the machine that the line shares. */
static void head_settings(struct lk__entry *entry, const struct lk__waiter *waiter)
{
	struct lk__acquire *acquire = &entry->acquire;
	int64_t poll_ms = waiter->settings.poll_ms ? waiter->settings.poll_ms
						   : entry->recipe->poll_ms;
	int64_t spin_min_ms = waiter->settings.spin_min_ms;
	int64_t spin_max_ms = waiter->settings.spin_max_ms;
	acquire->once = waiter->once;
	acquire->poll_ns = poll_ms * LK__MS;
	acquire->spin_min_ns = (spin_min_ms ? spin_min_ms : poll_ms) * LK__MS;
	acquire->spin_max_ns = (spin_max_ms ? spin_max_ms : poll_ms) * LK__MS;
	acquire->spin_factor = spin_min_ms ? waiter->settings.spin_factor : 1;
}

static int head_run(struct head *head)
{
	for (;;) {
		struct lk__acquire_action action = lk__acquire_step(&head->entry->acquire,
								    &head->event, lk__now_ns());
		if (action.take_back)
			head_take_back(head->entry);
		if (action.type == LK__ACQUIRE_DO_GRANT)
			return head_grant(head);
		if (action.type == LK__ACQUIRE_DO_FAIL)
			return head_give_up(head, action.code);
		int rc = head_do(head, &action);
		if (rc < 0)
			return head_leave(head, rc);
	}
}

int lk__head_drive(struct lk__entry *entry, struct lk__waiter *waiter, lk_error *error)
{
	lk_error own = {0};
	struct head head = {.entry = entry, .waiter = waiter, .error = error ? error : &own};
	if (entry->acquire.state == LK__ACQUIRE_IDLE)
		lk__acquire_begin(&entry->acquire, waiter->once,
				  entry->channel && lk__channel_listens(&entry->node->messages,
									entry->channel),
				  entry->hold_off_until_ns);
	else if (!entry->request)
		head_disown(&head, false);
	head_settings(entry, waiter);
	if (!entry->channel)
		entry->acquire.listening = false; /* the last line took the subscription along */
	head.error->code = 0;
	int rc = head_run(&head);
	head_unpin(&head);
	return rc;
}
