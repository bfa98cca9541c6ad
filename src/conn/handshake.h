/* SPDX-License-Identifier: MIT */
/* The first words on a new connection: AUTH, ROLE, SELECT, CLIENT SETNAME, TIME, SCRIPT
 * EXISTS, WAITAOF, HELLO. */
#ifndef LK__CONN_HANDSHAKE_H
#define LK__CONN_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

#include "conn/conn.h"
#include "scripts.h"

struct lk__greeter;
struct lk__reader;
struct lk__readiness;
struct lk__stream;
struct lk_config;

struct lk__greeting {
	int64_t server_us;              /* the server's clock … */
	int64_t sent_ns;                /* … as it was some time between this … */
	int64_t received_ns;            /* … and this */
	bool scripts[LK__SCRIPT_COUNT]; /* which of our scripts the server has */
	bool spreads;                   /* it is a proxy that answers for several servers */
	bool no_hello;                  /* it does not answer HELLO */
	bool time_by_script;            /* it is a proxy whose TIME is not the server's */
	int64_t client_id;   /* what the server calls the connection; -1: it does not say */
	uint64_t generation; /* of the node's finder, where it has one */
	char place[LK__CONN_PLACE_SIZE]; /* and where that found the server; else "" */
};

#define LK__GREET_SCRIPTS 1u /* ask for our scripts */
#define LK__GREET_MASTER 4u  /* refuse what is not a master */
#define LK__GREET_HELLO 16u  /* ask who answers */
#define LK__GREET_ID 32u     /* ask what it calls the connection */
#define LK__GREET_DISK 8u    /* refuse what cannot tell whether its disk has something */
#define LK__GREET_FIRST 2u   /* the server has never been reached: what may be a refusal is one */

/* A text says this about a node that lacks the commands of a server. */
#define LK__LIKE_SENTINEL "a Sentinel? name the server that it watches"

/* The time that the answer to TIME tells, in µs, or -1. */
int64_t lk__time_answer(const redisReply *reply);

/* The same of an answer of Envoy's redis_proxy, which tells the time of its own clock, or -1. */
int64_t lk__time_of_proxy(const redisReply *reply);

/* Makes a request for the server's time, with TIME or past a proxy. NULL: out of memory. */
struct lk__request *lk__time_request(const struct lk_config *config, bool by_script);

#define LK__TIME_SCRIPT "return redis.call('TIME')"

/*
 * Begins to speak them, in one batch, and asks for our scripts if the flags say so. What the
 * connection can do without (the name, the question for scripts) may be refused. Stream and
 * configuration must outlive it. LK_ENOMEM. Free it in any state.
 */
int lk__greeter_new(struct lk__greeter **greeter_out, struct lk__stream *stream,
		    const struct lk_config *config, unsigned flags, int64_t deadline_ns,
		    lk_error *error);
void lk__greeter_free(struct lk__greeter *greeter);

/* As far as it goes without waiting. 1: all is answered, and the reader goes on reading; 0: what it
 * waits for is written; or a code. */
int lk__greeter_step(struct lk__greeter *greeter, struct lk__reader **reader_out,
		     struct lk__greeting *greeting_out, struct lk__readiness *readiness_out,
		     lk_error *error);

#endif
