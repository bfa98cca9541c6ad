/* SPDX-License-Identifier: MIT */
/* Questions to one server or sentinel over a connection of their own: one after another, each with
 * a limit. */
#ifndef LK__API_DOCTOR_ASKING_H
#define LK__API_DOCTOR_ASKING_H

#include "topo/link.h"

struct lk__asking {
	struct lk__link link;
	int64_t limit_ms;
	char reason[256]; /* why it gives no answer */
};

/* Connects to where `config` leads, which it takes over. 0, or a code with the reason. */
int lk__asking_open(struct lk__asking *asking, struct lk_config *config);

/* The answer, to be freed; or NULL, with the code and the reason. */
redisReply *lk__asking_ask(struct lk__asking *asking, size_t argc, const char **argv,
			   int *code_out);

#endif
