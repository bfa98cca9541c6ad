/*
 * A threadless client in the hands of a loop that may run out of memory at any request.
 */
#ifndef API_NOMEM_LOOPED_H
#define API_NOMEM_LOOPED_H

#include <lockkeeper.h>

struct looped {
	lk_client *client;
	lk_queue *queue;
	lk_lock *lock;
};

/* Makes it from `config`, takes a lock and gives it back. 0, or the first code. */
int looped_run(struct looped *looped, lk_config *config);

/* Closes it, with memory again, until nothing may be held; and frees all. */
void looped_end(struct looped *looped);

#endif
