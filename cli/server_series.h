/* SPDX-License-Identifier: MIT */
/* The state of a server as series: a text that is both Prometheus' 0.0.4 and OpenMetrics. */
#ifndef CLI_SERVER_SERIES_H
#define CLI_SERVER_SERIES_H

#include <stdio.h>

#include "server_look.h"

#define NAMES_MOST 1000 /* locks that have series of their own */

struct series_wish {
	int names;   /* series for single locks, too */
	int watches; /* the process looks again and again: it knows since when something is there */
};

/* The last look. */
void server_series_print(FILE *stream, struct server_look *look, const struct series_wish *wish);

#endif
