/* SPDX-License-Identifier: MIT */
/*
 * A new client each round: how long it takes to connect and then to ping, or to acquire and
 * release. Its end is not measured. Both sides are run by this one program.
 *
 * usage: PROGRAM URL KEEPER_URL ROUNDS ping|cold|warm
 *
 * cold: the server's script cache is emptied before each round; warm: it has the scripts. That is
 * done over KEEPER_URL, so that a proxy in URL counts nothing but the clients.
 */
#ifndef BENCH_CONNECT_H
#define BENCH_CONNECT_H

#include <stdbool.h>

#define BENCH_CONNECT_NAME "bench:connect"

struct bench_visitor {
	void (*start)(void);
	void (*ping)(const char *url); /* connects, and stays connected */
	void (*pair)(const char *url, bool warm);
	void (*leave)(void);
};

int bench_connects(int argc, char **argv, const struct bench_visitor *side);

#endif
