/* Those who only observe an election: each is told what is so, whatever was lost before. */
#ifndef SIM_OBSERVERS_H
#define SIM_OBSERVERS_H

#include <stdbool.h>

#include <lockkeeper.h>

#define SIM_LOOK_AGAIN_MS 1000 /* an observer's client looks by itself */

/* The first one, 0, or the next, in the process that the caller belongs to. */
void sim_observer_begin(unsigned number, lk_client *client);

/* Fails where one does not know what the server has, within a bound. `calm`: nothing is lost. */
void sim_observers_check(bool calm);

void sim_observers_end(void);

#endif
