/* SPDX-License-Identifier: MIT */
/*
 * One command on its way: its bytes, its answer, and who cares for it.
 *
 * A request is made by a caller, handed to a connection by lk__conn_submit(), and comes back done.
 * As long as `thread` is set that thread waits for it and frees it. When nobody waits (any more),
 * the reader of the answer calls `finish`, which then owns the request.
 */
#ifndef LK__CONN_REQUEST_H
#define LK__CONN_REQUEST_H

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/containers.h"
#include "conf/config.h"
#include "scripts.h"

struct lk__conn;
struct lk__node;
struct lk__thread;
struct lk__wait;

#define LK__NO_SCRIPT (-1)
#define LK__STAMP_SIZE 16 /* digits of a time in µs, until the year 2286 */

struct lk__request {
	struct lk__request *prev, *next; /* in the connection's order */
	struct lk__conn *_Atomic conn;   /* to which it was submitted; written under its mutex */
	struct lk__buffer bytes;
	size_t stamp_at;  /* where the bytes have the deadline's digits; 0: they do not */
	char turn;        /* of a try that asks for one: its last word; else 0 */
	int script;       /* LK__SCRIPT_…, to load it when the server has lost it */
	unsigned loads;   /* how often that happened */
	bool spelled_out; /* it has the script's text */
	size_t batch; /* commands in it, whose answers come as one array; 0: it is one command */
	redisReply *parts; /* the array, while it fills */
	struct lk__thread *thread;
	struct lk__wait *wait; /* of that thread, while it stands in the connection's list */
	void (*finish)(struct lk__request *request);
	void *owner;        /* for finish */
	bool resend;        /* safe and useful to send again after a lost connection */
	bool patient;       /* while its keys move it waits in the connection, and is sent again */
	bool postponed;     /* it does */
	bool return_unsent; /* a lost connection ends it if it was not sent yet */
	bool contended;     /* other processes are at it too: their need of a core is ours */
	enum lk__durable durable;   /* which answers need enough replicas */
	bool once;                  /* a lost connection ends it if it was sent */
	struct lk__node *elsewhere; /* done: the server says that it is to be asked there */
	unsigned redirects;         /* how often that was done */
	bool asking;                /* it is sent behind ASKING */
	bool is_load;               /* the connection sends a script */
	bool sharded;               /* it subscribes to sharded messages, or ends that */
	bool leaves;                /* it ends a subscription */
	bool question;              /* it changes nothing: nothing is unknown without an answer */
	bool tells_time;            /* the connection asks what the server's clock says, */
	bool asks_acks;             /* or waits for replicas, */
	int wants_acks, more_acks;  /* so many that are known, and others */
	bool asks_again;            /* and for some a second time */
	bool appended;              /* to what the present connection sends: an answer will come */
	_Atomic bool done;   /* set last: its thread may then read, and free, without a mutex */
	unsigned sends;      /* copies that may have run; never reset */
	int64_t sent_ns;     /* before it was last written */
	int64_t deadline_ns; /* not to be sent after this */
	int64_t needed_ns;   /* when the answer is needed, where that is before; or 0: conn.c */
	int code;     /* done: 0 with a reply; LK_ENOTDURABLE with one, too, that too few replicas
				have; LK_EMAYBEHELD unknown (also when one of several copies was
				refused); else not done; of a batch: what became of its first
				command */
	bool lasting; /* done: refused with an error that the server will give again */
	bool passing; /* done: refused for a reason that a wait with a limit outlasts */
	bool parted;  /* its keys may have moved: TRYAGAIN; of a batch, MOVED or ASK */
	bool ran;     /* done: its script has run, once, into an error; no copy of it can come */
	redisReply *reply;
	char reason[160]; /* for a code */
};

/* Appends one command of `argc` words, each with its size. 0 or LK_ENOMEM. */
int lk__write_command(struct lk__buffer *buffer, size_t argc, const char **argv,
		      const size_t *sizes);

/* Words up to their NULL. */
#define LK__SAY(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Makes a request of plain words. NULL when out of memory. */
struct lk__request *lk__request_new(size_t argc, const char **argv, const size_t *sizes);

/* Makes an empty batch for at most `most` commands; then they are added (lk__words_batch()). They
 * leave together, their answers come as one array, and a lost connection sends them all again. NULL
 * when out of memory. */
struct lk__request *lk__request_batch(size_t most);

/*
 * Marks a request that frees whatever somebody has: its caller is answered when replicas have that.
 * It is sent once: a copy that has run may have let another in, whom the next copy would throw out.
 */
void lk__request_frees(struct lk__request *request);

/* Forgets the answer, if there is one: the request is sent again. */
void lk__request_drop_answer(struct lk__request *request);

/* The script as it is for messages of that kind. */
const struct lk__script *lk__script_of(int script, enum lk__messages told_by);

/* Puts the script's text into a request that calls it (EVAL), which then needs no SCRIPT LOAD.
 * False, and nothing is changed: out of memory. */
bool lk__request_spell_out(struct lk__request *request, enum lk__messages told_by);

/* Makes its bytes those for the server that they go to next: they call the script for messages of
 * that kind, tell the deadline by its clock, where that shows `server_us` then, and ask for no turn
 * behind ASKING. Answers so far to a batch are forgotten: it is sent as a whole. */
void lk__request_address(struct lk__request *request, enum lk__messages told_by, int64_t server_us);

void lk__request_free(struct lk__request *request);

/* For requests whose answer is of no interest. */
void lk__request_forget(struct lk__request *request);

/* ---- words ---- */

/*
 * The words of a command or of a script's call, put together one by one:
 *
 *   struct lk__words words = {0};
 *   lk__words_add(&words, target->key, target->key_size);    keys first
 *   lk__words_text(&words, field);                           then arguments
 *   lk__words_number(&words, lease_ms);
 *   return lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
 *
 * A word may be NULL (out of memory when it was made): then no request is made. The words end with
 * the request that is made of them; so each is used for exactly one.
 */
struct lk__words {
	struct lk__buffer bytes; /* of the words as they are sent, behind room for what is before */
	size_t count;
	bool incomplete;    /* a word is missing: out of memory */
	size_t deadline_at; /* where its digits are; 0: there is none */
	char turn;          /* the last word, of a try that asks for a turn; else 0 */
};

/* The word is copied. */
void lk__words_add(struct lk__words *words, const char *word, size_t size);
void lk__words_text(struct lk__words *words, const char *text);

/* The word was allocated, and is freed. */
void lk__words_own(struct lk__words *words, char *word, size_t size);

void lk__words_number(struct lk__words *words, int64_t number);

/* The deadline of a script's call, in µs by the clock of the server that it is sent to. One a
 * request; lk__request_address() fills it in. */
void lk__words_deadline(struct lk__words *words);

/* EVALSHA with the first `key_count` words as keys. NULL when out of memory. */
struct lk__request *lk__words_script(struct lk__words *words, enum lk__script_id script,
				     size_t key_count);

/* The words as a command of their own. NULL when out of memory. */
struct lk__request *lk__words_command(struct lk__words *words);

/* The words as one more command of a batch, which may be NULL. False when out of memory. */
bool lk__words_batch(struct lk__request *batch, struct lk__words *words);

/* ---- the server's time ---- */

#define LK__TIME_SCRIPT "return redis.call('TIME')"

/* The key of a script that asks for it: a proxy sends a script to the server of its key. It is one
 * of those that the user may name. NULL when out of memory. */
char *lk__time_key(const struct lk_config *config);

/* Makes a request for it, with TIME or past a proxy. NULL: out of memory. */
struct lk__request *lk__time_request(const struct lk_config *config, bool by_script);

/* The time that the answer to TIME tells, in µs, or -1. */
int64_t lk__time_answer(const redisReply *reply);

/* The time of an answer of Envoy's redis_proxy, which tells that of its own clock, or -1. */
int64_t lk__time_of_proxy(const redisReply *reply);

/* ---- what a refusal means ---- */

/* The meaning of an error reply of a server. */
struct lk__refusal {
	int code; /* LK_EMAYBEHELD: it is not known, and the command may have run */
	int size; /* of its words, without the place at their end: " script: <hash>, on …" */
	const char *hint; /* to be shown with them, or "" */
	/* It is an error of a command, or from inside a script, that is not known: the server will
	 * give it again. One with a word of its own in place of ERR tells of a state, which may
	 * pass. */
	bool lasting;
	/* A wait with a limit outlasts it, and one without is told at once (LK_EREFUSED): the
	 * replicas that are missing come back, a save succeeds again. Not OOM: tries add to it. */
	bool passes;
	bool ran;        /* it comes from inside a script, which has run as far as that */
	bool replica;    /* from a server that is one */
	bool unscripted; /* the server has not the script of that SHA-1: nothing ran */
	bool unknown;    /* the server does not know the command: nothing ran */
	bool redirects;  /* another server of a cluster has the key: nothing ran */
	/* Some keys of a script are there, the rest at another, while their slot moves: nothing
	 * ran. */
	bool parted;
};

struct lk__refusal lk__refusal(const char *text);

#endif
