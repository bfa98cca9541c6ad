/* Before and after a run: no descriptor may be left. */
#ifndef SIM_SIMULATED_DOOR_H
#define SIM_SIMULATED_DOOR_H

void sim_door_begin(void);
void sim_door_end(void);

#endif
