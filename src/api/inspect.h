/* SPDX-License-Identifier: MIT */
/*
 * One key under the eye: what kind of lock it is, who holds it and who waits.
 *
 * inspect.c asks the server, in one batch or two, and walks from key to key; inspect_read.c reads
 * out of the answers what kind it is, and whose, if not ours.
 */
#ifndef LK__API_INSPECT_H
#define LK__API_INSPECT_H

#include <lockkeeper/inspect.h>
#include <lockkeeper/permit_semaphore.h>

#include "api/asking.h"
#include "base/containers.h"
#include "conn/request.h"
#include "sync/foreign/foreign.h"

/* The types of keys that may be locks, in the order of a walk. */
enum lk__look_type { LK__LOOK_HASH, LK__LOOK_STRING, LK__LOOK_ZSET, LK__LOOK_TYPES };

/* The places of what is asked about each key; the table in inspect.c has the questions. */
enum lk__look_place {
	LK__LOOK_VALUE, /* fields, bytes, or members with scores */
	LK__LOOK_TTL,
	LK__LOOK_LISTENERS, /* not of a sorted set */

	LK__HASH_QUEUE,
	LK__HASH_WRITERS,
	LK__HASH_FENCE,
	LK__HASH_JAVA_FENCE,
	LK__HASH_ALSO_LISTENERS, /* where there are messages of both kinds */

	LK__STRING_PERMITS = LK__LOOK_LISTENERS + 1,
	LK__STRING_ALSO_LISTENERS,
};

struct lk__look {
	lk_client *client;
	struct lk__thread *thread;
	struct lk__node *node; /* that is asked; NULL: the key's */
	char *key;
	size_t key_size;
	redisReply **parts; /* the answers, by place; set before: the key is not asked for again */
	int64_t time_ms;    /* the server's then, since 1970; 0 where it is not known */
	/* Whose parts they are, if asked for this key alone. */
	struct lk__request *answers;
	lk_holder *holders;
	lk_waiter *waiters;
	char *ids;                       /* of permits */
	char *looks_like;                /* whose it is, if not ours */
	int64_t *since_ms;               /* of a barrier's holders */
	const struct lk__foreign *waker; /* what its release tells its waiters; or NULL */
	enum lk__look_type type;
	bool is_field; /* the lock is a field of its hash, not all of it */
};

/* The question for a key whatever it is, `tracked` behind what has the server tell of the next
 * change (conn/tracking.h). */
struct lk__request *lk__look_request(const struct lk__look *look, bool tracked);

/* Looks at the key by look->answers, which is that request with its answers: 1, or a code:
 * LK_EWRONGTYPE if the key is not a lock. A key that does not exist may still have waiters.
 * `*changed_out`: it became another between two questions. */
int lk__look_show(struct lk__look *look, bool tracked, lk_lock_info *info, bool *changed_out,
		  lk_error *error);

/* Reads the answers about a key of that type, whose value and time to live are what a server
 * answers: 1, 0 when it is not a lock, or LK_ENOMEM. `any`: a string is one whatever it says. */
int lk__look_read(struct lk__look *look, enum lk__look_type type, bool any, lk_lock_info *info);

/* The record of a client, as it was read; of one that tells nothing too. */
struct lk__known_client {
	UT_hash_handle hh;
	char half[LK__CLIENT_HALF + 1]; /* the beginning of its UUID */
	char *text; /* of the record, its lines parted by NULs; NULL: there is none */
	size_t text_size;
	lk_owner_info info;
};

/* Finds the beginning of the UUID of a field's client; false where the field has none. */
bool lk__owner_half(const char *field, size_t size, char half_out[LK__CLIENT_HALF + 1]);

/* The question for a client's record, and who has it; NULL when out of memory. */
struct lk__request *lk__owner_question(const lk_client *client, const char *half,
				       struct lk__node **node_out);

/* Reads the answer, NULL where there is none that can be read. NULL when out of memory. */
struct lk__known_client *lk__owner_read(const char *half, const redisReply *reply);

/* Tells who the owner of a field of that client is; false where the record tells nothing. */
bool lk__owner_tell(const struct lk__known_client *client, const char *field, size_t field_size,
		    lk_owner_info *info);
void lk__owner_free(struct lk__known_client *client);

/* Forgets the answers, so that the key is asked for again; or the key as well. */
void lk__look_forget(struct lk__look *look);

#endif
