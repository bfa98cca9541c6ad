/* Worlds without chance in what happens: one course each, which seeds find seldom. */
#ifndef SIM_SCRIPTED_H
#define SIM_SCRIPTED_H

#include <stddef.h>
#include <stdint.h>

/* Each runs its world, and leaves what failed to sim_failure(). The seed decides who runs when. */
void sim_close_gives_back_what_was_lost(uint64_t seed);
unsigned sim_closes_of_what_was_lost(void); /* seeds that have shown it */
void sim_multi_lock_connects_to_all_at_once(uint64_t seed);
void sim_waiter_behind_an_extension_that_comes_late(uint64_t seed);
void sim_silence_is_waited_for_once(uint64_t seed);

#endif
