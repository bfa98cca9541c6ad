/*
 * What a simulated server does with a command: a table (commands.c) from its name to its function,
 * with the number of words that it takes. An answer is what goes over the wire, so that a caller,
 * a script and a test read the same.
 *
 * The commands are those that the library sends and that its scripts call, in the forms that they
 * use. Another one is answered as Redis answers what it does not know. tests/sim/test_model.c holds
 * all this against a real server.
 */
#ifndef SIM_COMMANDS_H
#define SIM_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channels.h"
#include "keyspace.h"
#include "lua.h"

/* One server, as its commands see it. */
struct sim_redis {
	struct sim_keys keys;
	struct sim_channels channels;
	bool loaded[SIM_SCRIPTS];
	void (*tell)(void *listener, const void *bytes, size_t size);
	uint64_t (*random)(uint64_t below); /* where Redis draws */
	/* What it tells of itself. */
	unsigned number, starts;
	bool durable; /* it says that it writes everything down before it answers, and it does */
	int64_t started_us;
};

struct sim_asked {
	struct sim_redis *redis;
	void *listener; /* the connection; NULL: a script asks */
	struct lk__buffer *out;
	size_t count;
	const struct sim_word *words;
};

/* redis->keys.now_us is the time. */
void sim_command_run(const struct sim_asked *asked);

#endif
