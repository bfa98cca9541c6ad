/* SPDX-License-Identifier: MIT */
/*
 * Questions to servers, as the doctor and inspection put them: commands that change nothing. Each
 * node is asked by itself, over a client's connection, one command or a list of commands that leave
 * in one write, and each answer has a limit.
 */
#ifndef LK__API_ASKING_H
#define LK__API_ASKING_H

#include "lock/client.h"

/* The node that is asked, for a thread of its client. */
struct lk__asked {
	lk_client *client;
	struct lk__node *node;
	struct lk__thread *thread;
	const char *what; /* for the errors: "inspect" */
	const char *key;  /* of the lock that is asked about, with the prefix */
	size_t key_size;
	const struct lk_config *serves; /* of the clients whose locks it has, or may have next */
};

/* Commands for one node, whose answers come as one array. What becomes of them all is what becomes
 * of the first: TIME, which the handshake has shown to be allowed. */
struct lk__questions {
	struct lk__request *batch; /* NULL: out of memory; then nothing is added any more */
	const char *key;           /* of the lock that the next ones are about, with the prefix */
	size_t key_size;
	const char *record; /* the key of the client's record; NULL: none asks for it */
};

/* TIME, and at most so many commands more. */
struct lk__questions lk__questions_begin(size_t most);

/* The words of a command, up to a NULL: those of `before` as they are (NULL: there are none), then
 * those of `words`, of which some stand for a name: "=" for the key of the record, "~" for the
 * lock's, "~prefix" and "~:suffix" for keys that are derived from that, "&prefix" for a channel,
 * "&&prefix" for one whose prefix has no colon behind it, "!prefix" for that of "&prefix" where
 * only watches listen. */
void lk__questions_add(struct lk__questions *questions, const char *const *before,
		       const char *const *words);

/* Adds one of other words. */
void lk__questions_put(struct lk__questions *questions, struct lk__words *words);

/* Behind a lock's channel: where its release by force is told. */
#define LK__BROKEN ":broken"

/* Tells whether a word stands for a name; and that name, to be freed, or NULL when out of
 * memory. */
bool lk__word_is_name(const char *word);
char *lk__word_name(const char *word, const char *key, size_t key_size, size_t *size_out);

/* Asks within the command limit: LK__WAIT_READY, else a code with `error` filled and the request
 * gone. A NULL request means that memory was missing for it. */
int lk__asked_ask(const struct lk__asked *asked, struct lk__request *request, lk_error *error);

/* Asks one command of these words: the request with its answer, to be freed; or NULL. The code is
 * told in any case. */
struct lk__request *lk__asked_say(const struct lk__asked *asked, const char *const *words,
				  int *code_out, lk_error *error);

#endif
