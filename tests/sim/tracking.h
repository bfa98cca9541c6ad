/*
 * CLIENT TRACKING of a simulated server, as the library uses it: with OPTIN, NOLOOP and REDIRECT.
 * Some messages are lost; the network delays the others. A connection that ends takes its keys with
 * it, and nobody is told.
 */
#ifndef SIM_TRACKING_H
#define SIM_TRACKING_H

#include "commands.h"

/* A connection. */
struct sim_tracker {
	int64_t id, redirect;
	bool on, caching;
};

struct sim_tracked {
	const struct sim_tracker *by;
	struct sim_word key;
	uint64_t digest;
	bool waits; /* PTTL: who waits looks so, and who holds by EXISTS */
};

struct sim_tracking {
	struct sim_tracked *all;
	size_t count, room;
	int64_t last_id;
	unsigned lost_in_1000; /* messages */
};

/* CLIENT ID, TRACKING and CACHING: true, and it has said the answer. */
bool sim_tracking_obeys(struct sim_tracking *tracking, struct sim_tracker *tracker,
			const struct sim_asked *asked);

/* A command has run: tells of all keys that have changed since they were read, and remembers what
 * this one has read, if CACHING was said before. */
void sim_tracking_ran(struct sim_tracking *tracking, struct sim_tracker *tracker,
		      const struct sim_asked *asked,
		      void (*tell)(int64_t id, const void *bytes, size_t size));

/* All keys are gone: who tracks any is told so, whatever it has read. */
void sim_tracking_flushed(const struct sim_tracking *tracking, const struct sim_tracker *tracker,
			  void (*tell)(int64_t id, const void *bytes, size_t size));

/* `waiting`: those alone that wait at the front. */
unsigned sim_tracking_count(const struct sim_tracking *tracking, struct sim_word key, bool waiting);

void sim_tracking_gone(struct sim_tracking *tracking, const struct sim_tracker *tracker);
void sim_tracking_clear(struct sim_tracking *tracking);

#endif
