/*
 * The simulated servers: connections on one side, commands (commands.h) over keys (keyspace.h) on
 * the other, and how a server fails. They run the library's own scripts (lua.h).
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "commands.h"

#define SIM_SERVERS_MAX 9

struct sim_link;
struct sim_redis;
struct sim_replicated;
struct sim_key;
struct sim_item;

/* `durable`: they say that they write everything down before they answer, and they do. */
void sim_server_begin(unsigned count, bool durable);
void sim_server_end(void);

/* Bytes arrive, or the connection is gone. */
void sim_server_take(struct sim_link *link, const void *bytes, size_t size);
void sim_server_gone(struct sim_link *link);

/*
 * Who has the lock now: the owner's field, since when, and until when; or NULL when nobody does.
 * Of a read/write lock, one of those who have it.
 */
const char *sim_server_owner(unsigned number, const char *key, int64_t *since_ns_out,
			     int64_t *until_ns_out);

/* Whether the lock's key has that owner, or its writer, or is that token: until when, at least. */
bool sim_server_has(unsigned number, const char *key, const char *owner, int64_t *until_ns_out);

/* The key (keyspace.h), or NULL; and who is told of each item that is made. */
const struct sim_key *sim_server_key(unsigned number, const char *name);
void sim_server_watch(void (*made)(unsigned number, const struct sim_key *key,
				   const struct sim_item *item));

/* Who is told of each command that has run: its name, or that of its script, and its first key. */
void sim_server_follow(void (*ran)(unsigned number, const char *what, const char *key));

/* A program of others ends all connections that listen (CLIENT KILL TYPE pubsub), or all over which
 * keys are tracked. */
void sim_server_kill(unsigned number, bool listening);

/* A program of others sends a command. */
void sim_server_do(unsigned number, const char *const *words, size_t count);

/* How many are to be told when the key changes; `waiting`: of those that wait for it alone. */
unsigned sim_server_trackers(unsigned number, const char *key, bool waiting);

/* From now on so many in 1,000 messages are lost, published ones and those of tracking; at first 0,
 * and 125 of those of tracking. */
void sim_server_lose_messages(unsigned in_1000);

/* A program of others sets a count. */
void sim_server_set(unsigned number, const char *name, int64_t value);

/* A count, or another number, under that name: false, there is none. */
bool sim_server_number(unsigned number, const char *name, int64_t *value_out);

/* It does nothing until then, and then what it was asked meanwhile. */
void sim_server_hang(unsigned number, int64_t until_ns);
int64_t sim_server_hangs(unsigned number); /* until then; 0: it does not */

/* No command is run that may write: it waits until that is over (CLIENT PAUSE). */
void sim_server_pause(unsigned number, bool pauses);

/* Each command is refused that this tells of (commands.h). */
void sim_server_refuse(unsigned number, enum sim_refusal refuses);
/* Its clock steps; and is faster from now on by so many millionths. */
void sim_server_step(unsigned number, int64_t ms);
void sim_server_drift(unsigned number, int64_t ppm);

/* It has forgotten the scripts (SCRIPT FLUSH). */
void sim_server_forget_scripts(unsigned number);

/* Its connections end; or, where its host vanishes, are silent. */
void sim_server_stop(unsigned number, bool vanishes);
void sim_server_start(unsigned number, bool remembers);

/* It is written to the disk once a second from now on, while there are outages; and it starts with
 * what was, without its last second. */
void sim_server_sync(unsigned number);
void sim_server_start_torn(unsigned number);
bool sim_server_is_down(unsigned number);
/* When it last started without its data, or some of it; INT64_MIN: never. */
int64_t sim_server_forgot_ns(unsigned number);

/* ---- for replication.c ---- */

/* What its commands see; it has the clock of the first server. */
void sim_server_replicate(unsigned number, struct sim_replicated *replicated);
struct sim_redis *sim_server_redis(unsigned number); /* whose time is now */

/* A replica has told it something. */
void sim_server_heard(unsigned number);

/* It is no master any more: who waits for its replicas is turned away. */
void sim_server_demoted(unsigned number);

/* From now on nothing may be granted: nobody asks any more. */
void sim_server_close(void);

#endif
