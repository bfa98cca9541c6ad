/*
 * What recipes share: how the call of a script is put together, and how the usual answers of
 * scripts are read.
 *
 *   struct lk__words words = {0};
 *   lk__words_add(&words, target->key, target->key_size);    keys first
 *   lk__words_text(&words, field);                           then arguments
 *   lk__words_number(&words, lease_ms);
 *   return lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
 *
 * A word may be NULL (out of memory when it was made): then there is no request.
 */
#ifndef LK__SYNC_SCRIPT_H
#define LK__SYNC_SCRIPT_H

#include <stdbool.h>

#include "sync/recipe.h"

#define LK__WORDS_MAX 16 /* keys and arguments of one script call */

struct lk__words {
	size_t count;
	const char *argv[LK__WORDS_MAX];
	size_t sizes[LK__WORDS_MAX];
	char numbers[LK__WORDS_MAX][24];
};

/* The word is lent: it stays as it is until the request is made. */
void lk__words_add(struct lk__words *words, const char *word, size_t size);
void lk__words_text(struct lk__words *words, const char *text);
void lk__words_number(struct lk__words *words, int64_t number);

/* EVALSHA with the first `key_count` words as keys. NULL when out of memory. */
struct lk__request *lk__words_script(const struct lk__words *words, enum lk__script_id script,
				     size_t key_count);

/* The words as a command of their own. NULL when out of memory. */
struct lk__request *lk__words_command(const struct lk__words *words);

/* One call for several renewals: all keys, then field and lease of each. */
struct lk__request *lk__renew_script(enum lk__script_id script, const struct lk__renewal *renewals,
				     size_t count);

/* The words as one more command of a batch. False when out of memory. */
bool lk__words_batch(struct lk__request *batch, const struct lk__words *words);

/* What a try that has no reply (request->code is set) comes to. */
struct lk__acquire_event lk__reply_refusal(const struct lk__request *request);

/* Whether the reply is "LATE <server us>"; then the time is written. */
bool lk__reply_late(const redisReply *reply, int64_t *server_us);

/*
 * The answer to one of `count` renewals: 1 renewed, 0 not the owner, -1 none. Scripts answer an
 * array of these; a batch has two answers for each: the renewal's own, and who has it.
 */
int lk__reply_renewed(const struct lk__request *request, size_t count, size_t index,
		      const char *field);

/* nil: granted; integer: busy, with the ttl in ms, or -1; status "LATE <server us>". */
void lk__reply_acquired(const struct lk__request *request, struct lk__answer *answer);

/* nil: not the owner; integer: released, so many heard of it. */
enum lk__released lk__reply_released(const struct lk__request *request, int64_t *listeners);

/* nil: taken; -3: the giver had it not; status FREED: given up only; else nothing was done. */
enum lk__exchanged lk__reply_exchanged(const struct lk__request *request);

#endif
