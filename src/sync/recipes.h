/* SPDX-License-Identifier: MIT */
/* The kinds of lock: the recipe of each, its data in Redis, and the requests that only one has. */
#ifndef LK__SYNC_RECIPES_H
#define LK__SYNC_RECIPES_H

#include <pthread.h>
#include <stdbool.h>

#include <lockkeeper/election.h>

#include "script_calls.h"
#include "sync/recipe.h"

/*
 * The reentrant lock's recipe. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   redisson_lock__channel:{<name>}    channel, "0" at each release
 *
 * Kinds with the same hash share what is below; a target without a channel is told to nobody.
 */
extern const struct lk__recipe lk__lock_recipe;

#define LK__LOCK_CHANNEL_PREFIX "redisson_lock__channel"

struct lk__request *lk__lock_is_locked(const struct lk__target *target);
struct lk__request *lk__lock_is_held_by(const struct lk__target *target, const char *field);

/*
 * The spin lock's recipe: the reentrant lock without messages. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *
 * Nobody is told of a release; waiters ask again after pauses that grow.
 */
extern const struct lk__recipe lk__spin_recipe;

/*
 * The plain lock's recipe. In Redis:
 *
 *   <name>                             string <uuid>:<number>, PX lease
 *   redisson_lock__channel:{<name>}    channel, "0" at each release of ours
 *
 * A release may tell another library's waiters as well (foreign.h). Ours then listen to its
 * channel.
 *
 * The holder may be any program that does SET name token NX PX ms. Such programs publish nothing,
 * so a waiter looks again and again, at the pace of the attempt.
 */

#define LK__PLAIN_POLL_MS 100

extern const struct lk__recipe lk__plain_recipe;

/*
 * The fenced lock's recipe: the reentrant lock, and a token that rises with each grant. In Redis:
 *
 *   <name>                             hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   lockkeeper_fence:{<name>}          string, the newest token, kept for 30 days
 *   redisson_lock_token:{<name>}       Redisson's counter, where Java peers share the lock
 *   redisson_lock__channel:{<name>}    channel, "0" at each release
 *
 * The next token is the newest plus one, or the server's time in us if that is more: so it rises
 * when the clock steps back, and when the newest is gone.
 */

#define LK__FENCE_PREFIX "lockkeeper_fence"
#define LK__FENCE_JAVA_PREFIX "redisson_lock_token"
#define LK__FENCE_TOKEN_MAX UINT64_C(9007199254740991) /* 2^53 - 1: exact in Lua */
extern const struct lk__recipe lk__fenced_recipe;
extern const struct lk__recipe lk__fenced_java_recipe; /* with Redisson's counter */

/* Reads the answer to an acquire that grants a token, "TOKEN <token>", or nothing. */
void lk__fence_read_acquire(const struct lk__request *request, struct lk__answer *answer);

/* The question of a token's bearer at a key; `value` NULL: only to be let in. */
struct lk__fence_check {
	const char *key;
	size_t key_size;
	uint64_t token;
	int64_t ttl_ms; /* 0: as it is */
	const void *value;
	size_t value_size;
	const char *client;
	uint64_t number; /* of this write; a later one of the client has a greater one */
};

struct lk__request *lk__fence_check(const struct lk__fence_check *check);

/* 0 when the token was the newest; else the one that is. */
uint64_t lk__fence_read_check(const redisReply *reply);

/*
 * The fair lock's recipe. In Redis:
 *
 *   <name>                                     hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   redisson_lock_queue:{<name>}               list of fields that wait, the next one first
 *   redisson_lock_timeout:{<name>}             sorted set { field → alive until, ms }
 *   lockkeeper_fair:{<name>}                   hash { field of ours → "<lease> <wait> <nonce>
 *                                              …" }, PEXPIRE
 *   redisson_lock__channel:{<name>}:<field>    channel of one waiter
 *
 * One script keeps them, see queue.lua. A release hands the lock to the next in the queue if that
 * is one of ours, and the message says so: no try follows it. Whoever may publish could send such a
 * message: it counts only with the random number that the waiter's last try has named.
 */

#define LK__FAIR_QUEUE_PREFIX "redisson_lock_queue"

extern const struct lk__recipe lk__fair_recipe;

/*
 * The election's recipe: each candidate is an owner with an entry, and the leader has the lock. In
 * Redis:
 *
 *   <name>                                     hash { <uuid>:<number> → 1 }, PEXPIRE lease
 *   lockkeeper_fence:{<name>}                  string, the newest term, kept for 30 days
 *   lockkeeper_election:{<name>}               hash, the record of the newest leader: id, term,
 *                                              since, host, value, version, previous, count,
 *                                              asked, stood, leaving, retired; kept for 30 days
 *   lockkeeper_candidates:{<name>}             hash { <uuid>:<number> → how it stands }, PEXPIRE
 *   lockkeeper_order:{<name>}                  sorted set, the order of candidates, PEXPIRE
 *   redisson_lock__channel:{<name>}:<field>    channel of one candidate: "look"
 *   lockkeeper_election:{<name>}               channel of those who observe
 *
 * One script keeps them, see stand.lua. The server keeps the leader's place for a tenth longer than
 * the leader counts on: in that time one that was told to stop can stop.
 */

#define LK__ELECTION_PREFIX "lockkeeper_election"

extern const struct lk__recipe lk__election_recipe;

struct lk__teller;

/* How a candidate stands. */
struct lk__stand {
	pthread_mutex_t mutex;
	struct lk__teller *teller; /* what it is told (lock/notice.h) */
	int64_t priority;
	int standing;                /* LK_STAND_… */
	int64_t changes;             /* of these two, so many */
	bool resigns;                /* when its client is drained: LK_DRAIN_RESIGN */
	char host[LK_NODE_SIZE];     /* without a space */
	_Atomic int64_t progress_ns; /* its lease is renewed until then; LK__NEVER */
	int64_t progress_ms;         /* so long after each sign of progress; 0: for ever */
	int64_t version;             /* how often the value was changed */
	size_t value_size;
	char value[LK_ELECTION_VALUE_SIZE_MAX];
};

/* Its work goes on. */
void lk__stand_progress(struct lk__stand *stand, int64_t now_ns);

/* Reads the answers: false where one has another form. */
bool lk__election_read_leader(const redisReply *reply, lk_leader *leader_out,
			      uint64_t *previous_out, int64_t *left_ms_out);
bool lk__election_read_candidate(const redisReply *reply, lk_candidate *candidate_out);

/*
 * The barrier's recipe: each party has an entry of its own. In Redis:
 *
 *   <name>                       hash { parties → n, <uuid>:<number> → how it stands }, PEXPIRE
 *   lockkeeper_fence:{<name>}    string, the newest generation, kept for 30 days
 *   lockkeeper_barrier:{<name>}  channel of those who wait: "look"
 *
 * One script keeps them, see meet.lua. A wait has one number from its begin to its end, whatever
 * becomes of its tries: under it the server knows whether it was counted.
 */

#define LK__BARRIER_PREFIX "lockkeeper_barrier"
#define LK__BARRIER_ENTERS 1u /* a flag of the tries: it is inside when it was let through; */
#define LK__BARRIER_LEAVES 2u /* or it waits until the others have left */

extern const struct lk__recipe lk__barrier_recipe;

/* How a party stands, as the hash has it. */
enum lk__party_state { LK__PARTY_WAITS, LK__PARTY_INSIDE, LK__PARTY_LEAVES, LK__PARTY_ENDED };

struct lk__party {
	enum lk__party_state state;
	int64_t until_ms; /* server time */
	int64_t number;   /* since when it waits, us; or its generation */
};

/* False: it is not the text of a party. */
bool lk__barrier_read_party(const redisReply *text, struct lk__party *party_out);

/*
 * The two sides of the read/write lock, a recipe each. In Redis:
 *
 *   <name>                                            hash, PEXPIRE: the longest lease in it
 *     mode                        → "read" or "write"
 *     <uuid>:<number>             → 1, for each reader
 *     <uuid>:<number>:write       → 1, for the writer
 *   {<name>}:<uuid>:<number>:rwlock_timeout:1         "1", PX: the lease of that reader
 *   redisson_rwlock:{<name>}                          channel: "0" when the last reader leaves,
 *                                                     "1" when the writer does, or goes down
 *   lockkeeper_writers:{<name>}                       zset: writers that wait and are preferred,
 *                                                     by the server time (ms) until which
 *
 * A reader lives as long as its timeout key; a field without one keeps nothing. The last one is
 * ours alone, the rest is Redisson's.
 */
extern const struct lk__recipe lk__read_recipe, lk__write_recipe;

#define LK__RW_CHANNEL_PREFIX "redisson_rwlock"
#define LK__RW_WRITERS_PREFIX "lockkeeper_writers"
#define LK__RW_PREFER_WRITERS 1u /* a flag of the tries */
#define LK__RW_FIELD_SIZE 272    /* the longest field that a caller may name, and ":write" */

/*
 * The semaphore: a count of free permits. Takes and returns of one client are remembered by their
 * numbers, in keys of their own with a time to live, so that each counts once however often it is
 * sent.
 */
extern const struct lk__recipe lk__semaphore_recipe;

#define LK__SEMAPHORE_CHANNEL_PREFIX "redisson_sc"
#define LK__RECORD_PREFIX "lockkeeper_sc"

/* The count-down latch: a count that opens the way when it is zero, or gone. */
extern const struct lk__recipe lk__latch_recipe;

/*
 * The permit semaphore: a count of free permits, and a sorted set of those in use with their ends.
 *
 * Two recipes: callers wait in the queue of one, which leaves no hold behind; each permit that it
 * was granted becomes an entry of the other, renewed and released by itself.
 *
 *   permit id   16 bytes: 8 of the client's UUID, 6 of the number of the acquire, 2 of the permit
 *               in it. As text, 32 hexadecimal digits, as Java shows it: that is the field.
 */

#define LK__PERMIT_PREFIX_BYTES 14                      /* that the ids of one acquire share */
#define LK__PERMITS_MAX 1000                            /* in one acquire or release */
extern const struct lk__recipe lk__permit_queue_recipe; /* numbers: of acquires */
extern const struct lk__recipe lk__permit_recipe;       /* numbers: lk__permit_number() */

/* The number of a permit: the one of its acquire, and its place in that. */
uint64_t lk__permit_number(uint64_t acquire_number, size_t index);

/* The id of a permit of an acquire, whose first one has the id `first`; false: that is no id. */
bool lk__permit_id_at(const char *first, size_t index, char id_out[2 * LK__PERMIT_ID_BYTES + 1]);

/* The 16 bytes of an id in hexadecimal; false when it is not an id. */
bool lk__permit_bytes(const char *id, unsigned char bytes_out[LK__PERMIT_ID_BYTES]);

#endif
