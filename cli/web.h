/* SPDX-License-Identifier: MIT */
/*
 * Pages over HTTP, by libmicrohttpd, which is loaded here alone: all other commands start faster
 * without it.
 *
 * At most WEB_CONNECTIONS at once, each with a thread of its own and WEB_IDLE_S seconds to say
 * something. It answers GET and HEAD. Where it listens on the loopback alone, a request has to name
 * that as its host: a page of somebody else, in the browser of a user here, cannot read it under a
 * name of its own.
 */
#ifndef CLI_WEB_H
#define CLI_WEB_H

#include <signal.h>
#include <stddef.h>

#define WEB_CONNECTIONS 16
#define WEB_IDLE_S 10

struct web_request {
	const char *path;
	const char *accept;                    /* the header of that name; "" where there is none */
	const char *sort, *kind, *q, *refresh; /* arguments of the URL; the same */
};

struct web_answer {
	int status;
	const char *type; /* of the content */
	char *body;       /* to be freed; NULL is an answer without one */
	size_t size;
	int refresh_s; /* 0: the page is not fetched again */
};

/* On any thread, several at once. */
typedef void (*web_handler)(void *context, const struct web_request *request,
			    struct web_answer *answer_out);

/*
 * Serves at `address`: PORT, or ADDRESS:PORT with [ADDRESS] for IPv6; without an address on
 * 127.0.0.1. Says where, and returns after one of the signals `ending`, which this thread blocks
 * and no other takes. 0, or EXIT_TROUBLE (said).
 */
int web_serve(const char *address, web_handler handler, void *context, const sigset_t *ending,
	      int *signal_out);

#endif
