/* SPDX-License-Identifier: MIT */
/*
 * The events of a run, as hooks and run --json are told.
 *
 * Each run has one last event: `end` if its command was started, and else `skip`, `timeout` or
 * `error`. `start`, `risk`, `lost` and `ask` come before it.
 */
#ifndef CLI_RUN_EVENT_H
#define CLI_RUN_EVENT_H

#include <stdint.h>

#include <lockkeeper/event.h>

#include "guard.h"
#include "owner.h"

enum run_event_type {
	RUN_START,   /* the lock is held, and the command runs */
	RUN_SKIP,    /* another owner has the lock, and the run does not wait */
	RUN_TIMEOUT, /* another owner had the lock for the whole wait */
	RUN_RISK,    /* the lease is about to end, and was not renewed yet */
	RUN_LOST,    /* the lock is lost, or about to be: the command is being ended */
	RUN_ASK,     /* somebody asks for the lock */
	RUN_END,     /* the command has ended, and the lock was released */
	RUN_ERROR,   /* the command was not started, for another reason; or lockkeeper was killed */
	RUN_EVENTS
};

#define RUN_ID_SIZE 37    /* a UUID, and NUL */
#define RUN_TRACE_SIZE 33 /* a trace id, and NUL */
#define RUN_UNKNOWN (-1)

/* The part that stays the same for a whole run. */
struct run_facts {
	char id[RUN_ID_SIZE];
	char trace[RUN_TRACE_SIZE]; /* "": the environment has no valid TRACEPARENT */
	const char *name;
};

struct run_event {
	enum run_event_type type;
	int status;                        /* lockkeeper's exit status, or RUN_UNKNOWN */
	int lost;                          /* the lock was lost while the command ran */
	int64_t waited_ms;                 /* for the lock, so far */
	int64_t held_ms;                   /* RUN_UNKNOWN: it was not held */
	uint64_t fence;                    /* 0: there is none */
	char owner[GUARD_OWNER_SIZE];      /* under which it is held; "": none, or several */
	char holder[OWNER_TEXT_SIZE];      /* who has it instead, in words; "": unknown */
	char reason[LK_EVENT_REASON_SIZE]; /* of who asks for it; "": none was given */
};

/* The name of an event, as options and programs know it. */
const char *run_event_name(enum run_event_type type);

/* The event of a name, of which `size` bytes count, or -1. */
int run_event_find(const char *name, size_t size);

/* Makes an id for this run, and finds the id of its trace. `name` is kept. */
void run_facts_make(struct run_facts *facts_out, const char *name);

/* The line of run --json, with its end; to be freed, NULL when out of memory. */
char *run_event_json(const struct run_facts *facts, const struct run_event *event);

#endif
