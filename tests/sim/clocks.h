/*
 * With SIM_CLOCKS the clocks of servers drift, by less than clients allow for, and step back now
 * and then. With SIM_SUSPENDS a process is given no time for up to three of its leases, as when a
 * machine sleeps: the clock that the library reads goes on.
 */
#ifndef SIM_CLOCKS_H
#define SIM_CLOCKS_H

/* Of so many servers, which have one clock if they copy one another, and so many processes, which
 * have the numbers from 1 on (sim_belong()). */
void sim_clocks_begin(unsigned servers, unsigned processes);

/* The troubles are over: waits until no process is suspended any more. */
void sim_clocks_settle(void);

/* How far a clock has stepped back in all: by so much longer may a lease last. */
int sim_clocks_back_ms(void);

#endif
