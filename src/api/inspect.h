/*
 * One key under the eye: what kind of lock it is, who holds it and who waits.
 *
 * inspect_ask.c asks the server, in one batch or two; inspect_read.c reads what kind it is out of
 * the answers; inspect.c walks from key to key.
 */
#ifndef LK__API_INSPECT_H
#define LK__API_INSPECT_H

#include <lockkeeper/inspect.h>
#include <lockkeeper/permit_semaphore.h>

#include "conn/request.h"

/* What a batch asks, by place. LOOK_VALUE: a hash's fields, a string's bytes. */
enum lk__look_hash {
	LK__HASH_VALUE,
	LK__HASH_TTL,
	LK__HASH_TIME,
	LK__HASH_LISTENERS,
	LK__HASH_QUEUE,
	LK__HASH_WRITERS,
	LK__HASH_FENCE,
	LK__HASH_JAVA_FENCE,
	LK__HASH_PARTS
};
enum lk__look_string {
	LK__STRING_VALUE,
	LK__STRING_TTL,
	LK__STRING_TIME,
	LK__STRING_LISTENERS,
	LK__STRING_PERMITS,
	LK__STRING_PARTS
};

struct lk__look {
	lk_client *client;
	struct lk__thread *thread;
	char *key;
	size_t key_size;
	struct lk__request *answers; /* the fields of holders and waiters stand in there */
	lk_holder *holders;
	lk_waiter *waiters;
	char *ids; /* of permits */
};

/* Sends a request that is about the key and waits: LK__WAIT_READY, else a code with `error`. */
int lk__look_ask(struct lk__look *look, struct lk__request *request, lk_error *error);

/* Looks at a key: 1 and the picture, 0 when it is no lock, or a code. `any`: a string with a time
 * to live is one whatever it says. */
int lk__look_at_hash(struct lk__look *look, lk_lock_info *info, lk_error *error);
int lk__look_at_string(struct lk__look *look, bool any, lk_lock_info *info, lk_error *error);

/* Reads the answers: 1, 0 when the key is no lock, or LK_ENOMEM. */
int lk__look_read_hash(struct lk__look *look, lk_lock_info *info);
int lk__look_read_string(struct lk__look *look, bool any, lk_lock_info *info);

/* Forgets the key and its answers. */
void lk__look_clear(struct lk__look *look);

#endif
