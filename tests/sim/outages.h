/* Servers that hang, stop, vanish and start again, or whose connections are forgotten, one at a
 * time, while SIM_OUTAGES lasts. */
#ifndef SIM_OUTAGES_H
#define SIM_OUTAGES_H

#include <stdbool.h>

/* Of so many servers from that one on. `forget`: they may start without their data, or
 * without the last second of it. */
void sim_outages_begin(unsigned first, unsigned servers, bool forget);

/* All troubles cease, and those that are down start. */
void sim_outages_end(void);

#endif
