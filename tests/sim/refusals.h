/* A server that refuses for a time, in each way that a Redis that is well does, or forgets the
 * scripts, while SIM_REFUSALS lasts. */
#ifndef SIM_REFUSALS_H
#define SIM_REFUSALS_H

/* Of the first server. */
void sim_refusals_begin(void);

/* All troubles cease. */
void sim_refusals_end(void);

#endif
