/*
 * The simulated server: enough of Redis for the reentrant lock. Its scripts are written again in C,
 * as src/sync/lock/ has them in Lua.
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_link;

void sim_server_begin(void);
void sim_server_end(void);

/* Bytes arrive, or the connection is gone. */
void sim_server_take(struct sim_link *link, const void *bytes, size_t size);
void sim_server_gone(struct sim_link *link);

/* Who has the lock now: the owner's field, and since when; or NULL when nobody does. */
const char *sim_server_owner(const char *key, int64_t *since_ns_out);

/* From now on nothing may be granted: nobody asks any more. */
void sim_server_close(void);

#endif
