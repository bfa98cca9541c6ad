/* What the files of the simulated server share: its state, and what its scripts are made of. */
#ifndef SIM_SERVER_INSIDE_H
#define SIM_SERVER_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers.h"
#include "scripts.h"
#include "server.h"

#define KEYS_MAX 16
#define PEERS_MAX 64
#define CHANNELS_MAX 16 /* of one client: a key each, and its own of each */
#define TURNS_MAX 64
#define STRINGS_MAX 128
#define FIELDS_MAX 16
#define TAKEN INT64_C(9000000000000000) /* as in sync/turns.lua */
#define TAKEN_TEXT "9000000000000000"
#define WORDS_MAX (LK__SCRIPT_COUNT + 8)
#define CLOCK_OFFSET_US INT64_C(1700000000000000)
#define RUNS_US INT64_C(1000000000) /* since so long, at first */
#define HELD_MAX_MS 20000           /* no owner in these runs keeps a lock for longer */

/* A lock's hash: it has one field while it exists. */
struct key {
	char name[64], owner[64];
	int64_t until_ns, since_ns;
};

struct peer {
	struct sim_link *link; /* NULL: free */
	struct lk__buffer in;
	bool gone;                        /* but what it has sent before is still to be read */
	char channels[CHANNELS_MAX][128]; /* that it listens to; "": none */
};

/* One place in the order of turns (sync/turns.lua). */
struct turn {
	char name[64], id[64]; /* of the lock and the client; no id: free */
	int64_t since_us;
};

/* A string, as counts and their records are. */
struct string {
	char name[128]; /* "": free */
	int64_t value, until_ns;
};

/* The read/write lock, of which there is one: its hash, and the readers' timeout keys. */
struct sides {
	char name[64];
	bool writes; /* its mode */
	struct {
		char owner[72]; /* "": free */
		int64_t until_ns;
	} fields[FIELDS_MAX];
	int64_t until_ns; /* 0: there is none */
};

struct server {
	struct key keys[KEYS_MAX];
	struct peer peers[PEERS_MAX];
	struct turn turns[TURNS_MAX];
	struct string strings[STRINGS_MAX];
	struct sides sides;
	bool loaded[LK__SCRIPT_COUNT];
	int64_t offset_us;
	unsigned number, starts;
	bool down, durable;
	int64_t started_us, forgot_ns, hangs_until_ns;
};

/* One command: its words, and where the answer goes. */
struct command {
	struct peer *peer;
	size_t count;
	const char *words[WORDS_MAX];
};

extern struct server *server; /* which is asked */
struct server *srv_at(unsigned number);

int64_t srv_us(void);
__attribute__((format(printf, 2, 3))) void srv_say(struct sim_link *link, const char *format, ...);

/* Tells all that listen: how many. And how many there are. */
int srv_publish(const char *channel, const char *message);
int srv_listeners(const char *channel);

/* Pieces of scripts, and keys that are locks' hashes. */
void srv_check_grant(const char *owner); /* fails where nothing may be granted */
bool srv_is_late(struct sim_link *link, const char *deadline_us);
struct key *srv_key_find(const char *name);
struct key *srv_key_new(const char *name, const char *owner);
void srv_key_own(struct key *key, const char *owner);
void srv_key_expire(struct key *key, const char *lease_ms);
bool srv_key_is_of(const struct key *key, const char *owner);
int64_t srv_key_ttl_ms(const struct key *key);
void srv_wait_turn(const char *name, const char *id, const char *since_us);
struct turn *srv_first_turn(const char *name);
int srv_give_turn(const char *name, const char *channel, const char *message, bool loud);

/* A script of another kind (server_kinds.c): false, there is none. `count`: of the arguments. */
bool srv_run_kind(int script, struct sim_link *link, const char **names, size_t count,
		  const char **arguments);
/* Whether a field of the read/write lock is renewed. */
bool srv_sides_renew(const char *name, const char *owner, const char *lease_ms);

/* Carries out an EVALSHA; the number of a script, or -1. */
void srv_run_script(const struct command *command);
int srv_script_of(const char *sha1);

/* From now on nothing may be granted. */
void srv_close(bool closed);

#endif
