/* The order of a fair lock, by what happens on its server. */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

/* From here on, whoever is granted that lock must be the first of its queue. NULL: no lock. */
void sim_order_begin(const char *key);

/* From here on that server has the lock, with its queue: places that it lacks are lost. */
void sim_order_of(unsigned server);

#endif
