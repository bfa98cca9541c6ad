/* SPDX-License-Identifier: MIT */
#include "telling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "message.h"
#include "signal_relay.h"

static int64_t since_ms(int64_t ns)
{
	return (clock_now_ns() - ns) / NS_PER_MS;
}

static int wants(const struct telling *telling, enum run_event_type type)
{
	return (telling->wish->hooks.events & 1U << type) != 0;
}

/* It counts until the release begins. */
static void held_look(struct telling *telling)
{
	if (telling->granted_ns && !telling->releasing)
		telling->event.held_ms = since_ms(telling->granted_ns);
}

static void tell(struct telling *telling, enum run_event_type type)
{
	telling->event.type = type;
	held_look(telling);
	if (wants(telling, type))
		hooks_tell(&telling->hooks, &telling->event);
}

void telling_begin(struct telling *telling, const struct telling_wish *wish, const char *name,
		   const sigset_t *mask, lk_config *config)
{
	*telling = (struct telling){.wish = wish, .began_ns = clock_now_ns(), .last = RUN_ERROR};
	telling->event.status = RUN_UNKNOWN;
	telling->event.held_ms = RUN_UNKNOWN;
	run_facts_make(&telling->facts, name);
	telling->job = (struct hook_job){&wish->hooks, &telling->facts, *mask};
	hooks_begin(&telling->hooks, &telling->job, config);
}

int telling_wants_holder(const struct telling *telling)
{
	return telling->wish->json || wants(telling, RUN_SKIP) || wants(telling, RUN_TIMEOUT);
}

void telling_missed(struct telling *telling, const char *holder, int at_once)
{
	telling->last = at_once ? RUN_SKIP : RUN_TIMEOUT;
	snprintf(telling->event.holder, sizeof(telling->event.holder), "%s", holder);
}

void telling_granted(struct telling *telling, const char *owner, uint64_t fence)
{
	telling->granted_ns = clock_now_ns();
	telling->event.waited_ms = (telling->granted_ns - telling->began_ns) / NS_PER_MS;
	telling->event.fence = fence;
	snprintf(telling->event.owner, sizeof(telling->event.owner), "%s", owner);
}

void telling_started(struct telling *telling)
{
	telling->last = RUN_END;
	tell(telling, RUN_START);
}

void telling_risk(struct telling *telling)
{
	tell(telling, RUN_RISK);
}

void telling_lost(struct telling *telling)
{
	if (telling->lost_told)
		return;
	telling->lost_told = 1;
	telling->event.lost = 1;
	tell(telling, RUN_LOST);
}

void telling_asked(struct telling *telling, const char *reason)
{
	snprintf(telling->event.reason, sizeof(telling->event.reason), "%s", reason);
	tell(telling, RUN_ASK);
}

/* The last event, as things stand. */
static void last_fill(struct telling *telling, int code, int lost)
{
	struct run_event *event = &telling->event;
	event->type = telling->last;
	event->status = code;
	event->lost |= lost;
	if (!telling->granted_ns)
		event->waited_ms = since_ms(telling->began_ns);
}

/* Makes the line that is printed at the end, or by a signal handler if the end does not come
 * (signal_relay.h). */
static void words_make(struct telling *telling)
{
	char *old = telling->words;
	if (!telling->wish->json)
		return;
	telling->words = run_event_json(&telling->facts, &telling->event);
	relay_words(telling->words);
	free(old);
}

void telling_releasing(struct telling *telling, int code, int lost)
{
	held_look(telling);
	telling->releasing = 1;
	last_fill(telling, code, lost);
	hooks_promise(&telling->hooks, &telling->event);
	words_make(telling);
}

void telling_over(struct telling *telling, int code, int lost)
{
	if (telling->over)
		return;
	telling->over = 1;
	if (lost && telling->last == RUN_END)
		telling_lost(telling);
	last_fill(telling, code, lost);
	/* Without a hook for it, too: those before are waited for. */
	hooks_tell(&telling->hooks, &telling->event);
	words_make(telling);
}

void telling_end(struct telling *telling)
{
	hooks_end(&telling->hooks);
	relay_words(NULL);
	if (telling->words)
		message_line(telling->words);
	else if (telling->wish->json)
		message_at(LK_LOG_WARNING, "no line of --json: out of memory");
	free(telling->words);
}
