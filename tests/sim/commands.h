/*
 * What a simulated server does with a command: a table (commands.c) from its name to its function,
 * with the number of words that it takes. An answer is what goes over the wire, so that a caller,
 * a script and a test read the same.
 *
 * The commands are those that the library sends and that its scripts call, in the forms that they
 * use. Another one is answered as Redis answers what it does not know. tests/sim/test_model.c holds
 * all this against a real server, but for what a server with replicas tells and does.
 */
#ifndef SIM_COMMANDS_H
#define SIM_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channels.h"
#include "keyspace.h"
#include "lua.h"

#define SIM_HISTORY_SIZE 41

struct sim_asked;
struct sim_redis;

/* A server with replicas, or one that is a replica (replication.h), as its commands see it. */
struct sim_replicated {
	bool read_only; /* it is a replica */
	char history[SIM_HISTORY_SIZE], before[SIM_HISTORY_SIZE];
	void (*changed)(struct sim_redis *redis, struct sim_word key);
	void (*say_role)(const struct sim_asked *asked);
};

/* A node of a cluster (cluster.h), as its commands see it. */
struct sim_clustered {
	/* Whether the command is refused for its keys, or channels; then that is said. */
	bool (*refuses)(const struct sim_asked *asked, const struct sim_word *keys,
			size_t key_count, bool channels);
	void (*say)(const struct sim_asked *asked); /* CLUSTER … */
	void (*published)(const struct sim_redis *redis, struct sim_word channel,
			  struct sim_word message);
};

/* A server that is well, and refuses for a time. */
enum sim_refusal {
	SIM_REFUSES_NOTHING,
	SIM_REFUSES_LOADING,    /* what asks for a key: it reads its data */
	SIM_REFUSES_BUSY,       /* everything: a script of others runs for long */
	SIM_REFUSES_MISCONF,    /* to write: its disk is full */
	SIM_REFUSES_NOREPLICAS, /* to write: it has too few */
	SIM_REFUSES_OOM,        /* what needs memory: there is none */
	SIM_REFUSALS_END,
};

/* One server, as its commands see it. */
struct sim_redis {
	struct sim_keys keys;
	struct sim_channels channels;
	bool loaded[SIM_SCRIPTS];
	enum sim_refusal refuses;
	bool script_wrote; /* the one that runs: it may go on to its end */
	void (*tell)(void *listener, const void *bytes, size_t size);
	uint64_t (*random)(uint64_t below); /* where Redis draws */
	/* What it tells of itself. */
	unsigned number, starts;
	bool durable; /* it says that it writes everything down before it answers, and it does */
	int64_t started_us;
	struct sim_replicated *replicated;                   /* NULL: it is alone */
	const struct sim_clustered *clustered;               /* NULL: it is no node of a cluster */
	bool asking;                                         /* ASKING was said before */
	void (*say_sentinel)(const struct sim_asked *asked); /* NULL: it is no sentinel */
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

/* Whether the command of that name may change something: a script may. */
bool sim_command_writes(struct sim_word name);

#endif
