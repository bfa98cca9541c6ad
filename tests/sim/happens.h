/*
 * The faults and calls of a run have numbers, in the order in which they come. A run may leave some
 * of them out, to show which of them it takes to fail.
 */
#ifndef SIM_HAPPENS_H
#define SIM_HAPPENS_H

#include <stdbool.h>

/* The next fault or call: false, it is left out. Draw all that it needs before, so that what comes
 * behind it draws the same. */
bool sim_happens(void);

/* A run begins: sim_begin() calls it. */
void sim_happens_begin(void);

/* How many have come in this run, and how many of them were left out. */
unsigned sim_happened(void);
unsigned sim_left_out(void);

/* From the next run on, those numbers are left out, too: false, they all were before. */
bool sim_leave_out(unsigned first, unsigned count);
void sim_put_back(void); /* what the last call has changed */

#endif
