/* Clients that are drained while they are used. */
#ifndef SIM_DRAINS_H
#define SIM_DRAINS_H

#include "clients.h"

void sim_drains_begin(void);

/* Drains it, with a limit that is drawn, and judges the answer: how long it takes, that what it
 * lists is on the server, and that nothing is granted to this client behind it. */
void sim_drain(struct sim_client *client);

#endif
