/* SPDX-License-Identifier: MIT */
/*
 * A kind of lock, as the drivers see it: how its commands are made and how its answers are read.
 * One table a noun (recipes.h).
 */
#ifndef LK__SYNC_RECIPE_H
#define LK__SYNC_RECIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn/request.h"
#include "sync/attempt.h"

#define LK__PERMIT_ID_BYTES 16
#define LK__FIELD_SIZE 64 /* "<uuid>:<number>" with its NUL */

struct lk__notify;
struct lk__stand;

/* Where a lock is in Redis. */
struct lk__target {
	struct lk__node *node;
	const struct lk__recipe *recipe;
	char *key;
	uint32_t key_size;
	uint16_t slot;
	/* Of a plain lock: what else its release tells (foreign/foreign.h). Set at most once. */
	struct lk__notify *_Atomic notify;
	struct lk__stand *stand; /* of an election: how its candidate stands (recipes.h) */
};

/* One lock of a batch of renewals. */
struct lk__renewal {
	const struct lk__target *target;
	const char *field;
	int64_t lease_ms;
};

enum lk__released { LK__RELEASED, LK__RELEASED_NOT_OWNER, LK__RELEASED_FAILED };
enum lk__exchanged {
	LK__EXCHANGED,
	LK__EXCHANGE_FREED, /* given up, not taken */
	LK__EXCHANGE_NOT_OWNER,
	LK__EXCHANGE_NOT_DONE,
	LK__EXCHANGE_UNKNOWN,
};

/* How the callers of one client share it. */
enum lk__sharing {
	LK__ONE_QUEUE,  /* one grant at a time, and all who wait are in one queue */
	LK__EACH_OWNER, /* each owner has an entry, a number and a grant of its own */
	LK__NO_HOLD,    /* one queue; a grant leaves nothing behind to renew or release */
};

#define LK__NO_TERMS 1u     /* never handed on in memory: each release goes to the wire */
#define LK__NEEDS_SERVER 2u /* handed on inside the client by an exchange only */
#define LK__OWN_CHANNEL 4u  /* a waiter listens on "<channel>:<its field>" */
#define LK__QUEUES 8u       /* a try leaves a place in a queue, which one that gives up releases */
#define LK__SPINS 16u       /* nobody publishes: try again after a pause that grows */
#define LK__DOWNGRADES 32u  /* an owner that has the other side is let in under its number */
#define LK__FOR_ALL 64u     /* a grant is for all who waited when its try was sent */
#define LK__BRACED 128u     /* the channel's name has braces, also when the name has some */
#define LK__FORGETS 256u    /* its lost holds are remembered up to a bound */
#define LK__FENCES 512u     /* each grant has a fence token */
#define LK__TURNS 2048u     /* a release wakes the client that has waited longest */
#define LK__SHARES 4096u    /* several owners hold it at once */
#define LK__ELECTS 8192u    /* its owner is told that it leads, and that it does not any more */
#define LK__JAVA_COUNTER 16384u /* its fence tokens are Redisson's as well */
#define LK__BECOMES_HOLDS 1024u /* of a grant without a hold its caller makes holds of their own */

/* The part of the time that the server keeps a leader's place which is left when its lease is
 * over. */
#define LK__REST_PART 10

/* The arguments of one try. */
struct lk__try {
	const struct lk__target *target;
	const char *field;
	uint64_t number;
	int64_t lease_ms;
	int64_t wait_ms;       /* what is left of the caller's limit; -1: no limit */
	int64_t alive_ms;      /* how long one who waits counts as alive without a sign of it */
	int64_t count;         /* permits */
	int64_t permits;       /* how many there are where there is no count; 0: not said */
	int64_t ttl_ms;        /* how long the count lasts at least; 0: not said */
	uint64_t other_number; /* number of the other side that the owner has; 0: it has not */
	uint64_t settled;      /* an earlier number, whose grant its caller has; 0 */
	uint64_t nonce;        /* random; a message that brings the lock repeats it */
	const char *turn;      /* with LK__TURNS, of one who listens: the client's id, else NULL; */
	int64_t since_us;      /* since when it waits, in server time; */
	int64_t turn_ms;       /* for how long that is known if it does not come again; */
	bool asks_place_only;  /* and that it wants only that place, though the lock be free */
	unsigned flags;        /* of the kind's own */
	bool once;             /* the caller does not wait */
};

struct lk__change;
typedef struct lk__request *lk__change_request(const struct lk__change *change);

/* The arguments of one change of a count, or of a permit's lease. What its kind has no use for is
 * zero. */
struct lk__change {
	lk__change_request *request; /* makes it */
	bool of_permits;             /* the count is that of a permit semaphore */
	int64_t count;               /* what it is set to, or how much is added or taken; */
	int64_t none, if_exists;     /* to what, where there is no count; 1: only to one */
	int64_t lasts_ms;            /* how long it is to last; 0: until it is changed */
	const char *how;             /* constant; see permits/set.lua */
	char id[2 * LK__PERMIT_ID_BYTES + 1];
	int64_t lease_ms;
	/* Filled in when it is sent: */
	const struct lk__target *target;
	const char *field;
	uint64_t settled; /* an earlier change, whose record can go; 0 */
	int64_t ttl_ms;   /* how long the count lasts at least; 0: not said */
};

/* The answer to a try, read. */
struct lk__answer {
	struct lk__attempt_event event;
	uint64_t fence;     /* GRANTED, where a kind has one */
	size_t busy;        /* BUSY, of several names in one script: which is another's */
	const char *reason; /* for a code; in the request, or static */
};

typedef void lk__read_acquire(const struct lk__request *request, struct lk__answer *answer);

struct lk__recipe {
	const char *type;
	const char *channel_prefix; /* NULL: no channel */
	enum lk__sharing sharing;
	unsigned flags;  /* LK__NO_TERMS … */
	int64_t poll_ms; /* a waiter looks again after so long without a message; 0: at the ttl */
	/* The kind that shares the key; NULL. An owner that has that one and asks for this one is
	 * let in (LK__DOWNGRADES) or refused (LK_EUPGRADE). */
	const struct lk__recipe *other_side;
	/* The field of a number; NULL: "<uuid>:<number>". */
	void (*field)(const char *client_id, uint64_t number, char field_out[LK__FIELD_SIZE]);
	struct lk__request *(*acquire)(const struct lk__try *wanted);
	struct lk__request *(*release)(const struct lk__target *target, const char *field);
	/* A release that keeps the lock from others for a time, under the field of nobody. NULL
	 * where that cannot be had. lk__reply_released() reads its answer. */
	struct lk__request *(*keep)(const struct lk__target *target, const char *field,
				    int64_t keep_ms);
	/* NULL with LK__NO_TERMS. */
	struct lk__request *(*exchange)(const struct lk__try *wanted, const char *from);
	struct lk__request *(*force)(const struct lk__target *target); /* 1: there was one */
	struct lk__request *(*renew)(const struct lk__renewal *renewals, size_t count);
	/* Both are answered with an integer, 1 for yes, or the second with who holds it. */
	struct lk__request *(*is_locked)(const struct lk__target *target);
	struct lk__request *(*is_held_by)(const struct lk__target *target, const char *field);

	lk__read_acquire *read_acquire; /* for lk__answer_take() */
	/* `listeners`: subscribers that heard of it; below zero: -1 less those who heard nothing on
	 * the channel. */
	enum lk__released (*read_release)(const struct lk__request *request, int64_t *listeners);
	enum lk__exchanged (*read_exchange)(const struct lk__request *request,
					    struct lk__answer *answer);
	/* Whether a message says that its listener has the lock, and since when in server time, µs.
	 * Its lease, and the nonce without which anybody could have sent it, are those of the last
	 * try. NULL: messages only wake. */
	bool (*read_message)(const char *payload, uint64_t nonce, int64_t *server_us);
};

/* "<uuid>:<number>" */
void lk__field_of(const char *client_id, uint64_t number, char field_out[LK__FIELD_SIZE]);

/* The name of the channel or key that Redisson derives: "prefix:{name}" and "{name}:suffix", but
 * without braces for a name with a "{". NULL when out of memory. */
char *lk__derived_name(const char *prefix, const char *name, size_t name_size, size_t *size_out);
char *lk__suffixed_name(const char *name, size_t name_size, const char *suffix, size_t *size_out);

/* "prefix{name}", whatever is in the name. */
char *lk__braced_name(const char *prefix, const char *name, size_t name_size, size_t *size_out);

/* The channel of a lock of that kind: one of the two above. Empty where the kind has none. */
char *lk__channel_name(const struct lk__recipe *recipe, const char *key, size_t key_size,
		       size_t *size_out);

/* The channel on which its waiters listen: that one, or another library's, on which a release of
 * ours is told as well. */
char *lk__target_channel(const struct lk__target *target, size_t *size_out);

#endif
