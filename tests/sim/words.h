/* Draws commands for a real server and a simulated one, from the rows of orders.def. */
#ifndef SIM_WORDS_H
#define SIM_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keyspace.h"

#define ORDER_WORDS 32

struct order {
	size_t count;
	const char *words[ORDER_WORDS];
	size_t sizes[ORDER_WORDS];
	char bytes[2048];
	bool listens;   /* it is a listener's */
	bool unordered; /* the answer's order says nothing */
};

/* The same seed draws the same orders, but for `now_us`, which is the server's time. */
void order_draw(struct order *order, uint64_t *random, int64_t now_us);
uint64_t order_random(uint64_t *random, uint64_t below);

/* A script without a row, or NULL. */
const char *order_missing(void);

#endif
