/*
 * The simulated world: virtual time, coroutines for threads, and a seed for every choice.
 *
 * All coroutines share one thread of the system. One runs until it waits; then the seed chooses who
 * runs next, and if nobody can, time moves to the next thing that happens. So the same seed gives
 * the same run.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_MS INT64_C(1000000)
#define SIM_US INT64_C(1000)
#define SIM_NEVER INT64_MAX
#define SIM_KEYS 16 /* of thread-specific data */

struct sim_task;

#define SIM_LOSSES 1u    /* connections are refused, slow, lost */
#define SIM_STALLS 2u    /* the system gives a thread that waits no time, now and then for long */
#define SIM_PREEMPTS 4u  /* the same behind any unlock */
#define SIM_OUTAGES 8u   /* outages.h, for who makes them */
#define SIM_REFUSALS 16u /* refusals.h, likewise */
#define SIM_MOVES 32u    /* cluster.h, likewise */
#define SIM_CLOCKS 64u   /* clocks.h, likewise */
#define SIM_SUSPENDS 128u
#define SIM_SHORTAGES 256u /* no descriptor is left for a connection, now and then */
#define SIM_ALL_TROUBLES 511u

/* `troubles`: SIM_…. With `verbose`, sim_note() prints. */
void sim_begin(uint64_t seed, unsigned troubles, bool verbose);

/* Runs until every task has ended and nothing is left to happen, or the first failure. */
void sim_run(void);
void sim_end(void);

/* From the next run on, none of these troubles. */
void sim_leave_out_troubles(unsigned troubles);

bool sim_has(unsigned trouble);
bool sim_had(unsigned trouble); /* in this run: what began then may end later */
void sim_cease(void);           /* from here on there are no troubles */
int64_t sim_now_ns(void);
int64_t sim_clock_ns(void); /* the same, and reading it takes time */
uint64_t sim_random(uint64_t below);
int64_t sim_between(int64_t least, int64_t most);
bool sim_chance(unsigned in_1000);

/* The first failure, with seed and time, or NULL. A failure ends the run. */
const char *sim_failure(void);
__attribute__((format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* A line for who runs one seed to see what happened. */
__attribute__((format(printf, 1, 2))) void sim_note(const char *format, ...);

/* A number that two runs share only if they took the same course. */
uint64_t sim_course(void);

/* Something happens at that time. */
void sim_at(int64_t at_ns, void (*happen)(void *context), void *context);

/* ---- tasks ---- */

struct sim_task *sim_spawn(void *(*main)(void *), void *argument);
struct sim_task *sim_self(void); /* NULL outside of any */
unsigned sim_number(const struct sim_task *task);
struct sim_task *sim_task_of(unsigned number);
bool sim_ended(const void *task);

/* The running task, and those that it starts from now on, are of that process; at first, of 0. A
 * process that is suspended is given no time until then. */
void sim_belong(unsigned process);
unsigned sim_process(void); /* of the running task */
void sim_suspend(unsigned process, int64_t until_ns);

/* For how long all tasks together were given no time so far. */
int64_t sim_stalled_ns(void);

/* The running task waits until `ready(subject)` or a time; holding a mutex is a failure. */
void sim_wait(bool (*ready)(const void *subject), const void *subject, int64_t until_ns);
void sim_sleep(int64_t duration_ns);
bool sim_has_mutex(void); /* the running task */

/* Thread-specific data: of the running task. `end` of a key is called as a task ends. */
int sim_key_new(void (*end)(void *value)); /* or -1 */
void sim_key_free(unsigned key);
void **sim_key_value(unsigned key);

#endif
