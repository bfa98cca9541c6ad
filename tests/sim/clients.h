/* Clients of a world: with a thread of the library's, or without one, driven by a loop. */
#ifndef SIM_CLIENTS_H
#define SIM_CLIENTS_H

#include <stdbool.h>

#include <lockkeeper.h>

struct sim_client {
	lk_client *client;
	bool threadless;
	bool draining;         /* it takes nothing new */
	bool closing;          /* its close has begun */
	bool closed;           /* its loop may end */
	struct sim_task *loop; /* of a threadless client, as a program's */
	lk_queue *closes;      /* the same: for the completion of its close */
};

void sim_client_open(struct sim_client *client, const char *url, bool threadless);

/* `how`: LK_CLOSE_…. Judges how long it takes; LK_EHELD leaves it open. */
int sim_client_close(struct sim_client *client, int how, lk_error *error);
void sim_client_free(struct sim_client *client);

#endif
