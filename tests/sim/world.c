/* Coroutines, the virtual clock, and what is to happen. */
#include "world.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "happens.h"
#include "switch.h"

#define TASKS_MAX 4096 /* of one run */
#define STACK_SIZE (256 * 1024)
#define STEPS_MAX 2000000
#define TIME_MAX_NS (600 * 1000 * SIM_MS)
#define CLOCK_NS 30 /* what reading the clock takes */

struct sim_task {
	struct sim_fiber fiber;
	unsigned number;
	void *(*main)(void *);
	void *argument;
	bool ended;
	bool (*ready)(const void *subject);
	const void *subject;
	int64_t until_ns;
	unsigned trouble; /* that may befall it as it wakes */
	int64_t stalled_until_ns;
	unsigned process;
	int saved_errno;
	int mutexes; /* that it holds */
	void *values[SIM_KEYS];
};

struct event {
	int64_t at_ns;
	void (*happen)(void *context);
	void *context;
};

static struct {
	uint64_t seed, random, course;
	unsigned troubles, first_troubles;
	bool verbose;
	int64_t now_ns, stalled_ns;
	struct sim_task *tasks[TASKS_MAX], *running;
	unsigned count, first; /* tasks; the first that may not have ended */
	struct event *events;
	size_t event_count, event_room;
	struct {
		bool used;
		void (*end)(void *value);
	} keys[SIM_KEYS];
	struct sim_fiber scheduler;
	char failure[512];
} world;
static unsigned no_troubles; /* of this sort */

/* ---- chance and time ---- */

static uint64_t random_next(void)
{
	uint64_t z = (world.random += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t sim_random(uint64_t below)
{
	return random_next() % below;
}

int64_t sim_between(int64_t least, int64_t most)
{
	return least + (int64_t)sim_random((uint64_t)(most - least) + 1);
}

bool sim_chance(unsigned in_1000)
{
	return sim_random(1000) < in_1000;
}

bool sim_has(unsigned trouble)
{
	return world.troubles & trouble;
}

void sim_cease(void)
{
	sim_note("all troubles cease");
	world.troubles = 0;
}

int64_t sim_now_ns(void)
{
	return world.now_ns;
}

int64_t sim_clock_ns(void)
{
	return world.now_ns += CLOCK_NS;
}

uint64_t sim_course(void)
{
	return world.course;
}

const char *sim_failure(void)
{
	return world.failure[0] ? world.failure : NULL;
}

void sim_fail(const char *format, ...)
{
	va_list arguments;
	if (world.failure[0])
		return;
	int used = snprintf(world.failure, sizeof(world.failure),
			    "seed %llu, at %.3f ms: ", (unsigned long long)world.seed,
			    (double)world.now_ns / 1e6);
	va_start(arguments, format);
	vsnprintf(world.failure + used, sizeof(world.failure) - (size_t)used, format, arguments);
	va_end(arguments);
}

void sim_note(const char *format, ...)
{
	va_list arguments;
	if (!world.verbose)
		return;
	printf("%12.3f %4d  ", (double)world.now_ns / 1e6,
	       world.running ? (int)world.running->number : -1);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

void sim_at(int64_t at_ns, void (*happen)(void *context), void *context)
{
	if (world.event_count == world.event_room) {
		world.event_room = world.event_room ? 2 * world.event_room : 64;
		world.events = realloc(world.events, world.event_room * sizeof(*world.events));
	}
	world.events[world.event_count++] = (struct event){at_ns, happen, context};
}

/* The next event; what is due at the same time happens in the order it was planned. */
static size_t next_event(void)
{
	size_t next = 0;
	for (size_t i = 1; i < world.event_count; i++)
		if (world.events[i].at_ns < world.events[next].at_ns)
			next = i;
	return next;
}

static void happen_next(void)
{
	size_t next = next_event();
	struct event event = world.events[next];
	memmove(&world.events[next], &world.events[next + 1],
		(--world.event_count - next) * sizeof(event));
	event.happen(event.context);
}

/* ---- tasks ---- */

struct sim_task *sim_self(void)
{
	return world.running;
}

unsigned sim_number(const struct sim_task *task)
{
	return task->number;
}

struct sim_task *sim_task_of(unsigned number)
{
	return world.tasks[number];
}

bool sim_ended(const void *task)
{
	return ((const struct sim_task *)task)->ended;
}

int64_t sim_stalled_ns(void)
{
	int64_t ahead_ns = 0;
	for (unsigned i = world.first; i < world.count; i++)
		if (!world.tasks[i]->ended && world.tasks[i]->stalled_until_ns > world.now_ns)
			ahead_ns += world.tasks[i]->stalled_until_ns - world.now_ns;
	return world.stalled_ns - ahead_ns;
}

static void end_values(struct sim_task *task)
{
	for (unsigned i = 0; i < SIM_KEYS; i++) {
		void *value = task->values[i];
		task->values[i] = NULL;
		if (value && world.keys[i].used && world.keys[i].end)
			world.keys[i].end(value);
	}
}

static void task_main(void)
{
	struct sim_task *task = world.running;
	sim_fiber_arrived();
	task->main(task->argument);
	end_values(task);
	task->ended = true;
	sim_fiber_switch(&task->fiber, &world.scheduler);
}

struct sim_task *sim_spawn(void *(*main)(void *), void *argument)
{
	struct sim_task *task = world.count < TASKS_MAX ? calloc(1, sizeof(*task)) : NULL;
	if (!task || !sim_fiber_new(&task->fiber, STACK_SIZE, task_main)) {
		sim_fail("no room for a task");
		free(task);
		return NULL;
	}
	task->number = world.count;
	task->process = world.running ? world.running->process : 0;
	task->main = main;
	task->argument = argument;
	world.tasks[world.count++] = task;
	return task;
}

void sim_belong(unsigned process)
{
	world.running->process = process;
}

unsigned sim_process(void)
{
	return world.running ? world.running->process : 0;
}

void sim_suspend(unsigned process, int64_t until_ns)
{
	sim_note("process %u is suspended for %.3f ms", process,
		 (double)(until_ns - world.now_ns) / 1e6);
	for (unsigned i = world.first; i < world.count; i++) {
		struct sim_task *task = world.tasks[i];
		int64_t from_ns = task->stalled_until_ns > world.now_ns ? task->stalled_until_ns
									: world.now_ns;
		if (task->ended || task->process != process || from_ns >= until_ns)
			continue;
		world.stalled_ns += until_ns - from_ns;
		task->stalled_until_ns = until_ns;
	}
}

static void task_wait(bool (*ready)(const void *subject), const void *subject, int64_t until_ns,
		      unsigned trouble)
{
	struct sim_task *task = world.running;
	if (task->mutexes > 0)
		sim_fail("a thread waits while it holds a mutex");
	task->ready = ready;
	task->subject = subject;
	task->until_ns = until_ns;
	task->saved_errno = errno;
	task->trouble = trouble;
	sim_fiber_switch(&task->fiber, &world.scheduler);
	errno = task->saved_errno;
}

void sim_wait(bool (*ready)(const void *subject), const void *subject, int64_t until_ns)
{
	task_wait(ready, subject, until_ns, SIM_STALLS);
}

static bool never(const void *subject)
{
	return false;
}

bool sim_had(unsigned trouble)
{
	return world.first_troubles & trouble;
}

bool sim_has_mutex(void)
{
	return world.running && world.running->mutexes > 0;
}

void sim_sleep(int64_t duration_ns)
{
	sim_wait(never, NULL, world.now_ns + duration_ns);
}

static bool can_run(const struct sim_task *task)
{
	return !task->ended && task->stalled_until_ns <= world.now_ns &&
	       (!task->ready || task->until_ns <= world.now_ns || task->ready(task->subject));
}

/* One of those who can run, or NULL; and when the first of the others can. */
static struct sim_task *choose(int64_t *next_ns)
{
	struct sim_task *able[64];
	size_t count = 0;
	while (world.first < world.count && world.tasks[world.first]->ended)
		world.first++;
	for (unsigned i = world.first; i < world.count; i++) {
		struct sim_task *task = world.tasks[i];
		if (task->ended)
			continue;
		if (can_run(task)) {
			if (count < sizeof(able) / sizeof(able[0]))
				able[count++] = task;
			continue;
		}
		bool stalled = task->stalled_until_ns > world.now_ns;
		int64_t at_ns = stalled ? task->stalled_until_ns : task->until_ns;
		if (at_ns < *next_ns)
			*next_ns = at_ns;
	}
	return count > 0 ? able[sim_random(count)] : NULL;
}

/* Now and then the system gives a thread that could run no time for long. */
static bool stalls(struct sim_task *task)
{
	if (!sim_has(task->trouble) || !sim_chance(8))
		return false;
	int64_t stall_ns = sim_between(0, sim_chance(500) ? 20 * SIM_MS : 900 * SIM_MS);
	if (!sim_happens())
		return false;
	task->stalled_until_ns = world.now_ns + stall_ns;
	world.stalled_ns += stall_ns;
	sim_note("thread %u gets no time for %.3f ms", task->number, (double)stall_ns / 1e6);
	return true;
}

static void run(struct sim_task *task)
{
	world.course = (world.course ^ task->number ^ (uint64_t)world.now_ns) *
		       UINT64_C(0x100000001b3);
	task->ready = NULL;
	world.running = task;
	sim_fiber_switch(&world.scheduler, &task->fiber);
	world.running = NULL;
	world.now_ns += (int64_t)sim_random(2 * SIM_US);
	if (task->ended)
		sim_fiber_free(&task->fiber);
}

void sim_run(void)
{
	for (unsigned steps = 0; !world.failure[0]; steps++) {
		while (world.event_count > 0 && world.events[next_event()].at_ns <= world.now_ns)
			happen_next();
		int64_t next_ns = world.event_count ? world.events[next_event()].at_ns : SIM_NEVER;
		struct sim_task *task = choose(&next_ns);
		if (task && !stalls(task))
			run(task);
		else if (task)
			continue;
		else if (next_ns == SIM_NEVER)
			break;
		else
			world.now_ns = next_ns;
		if (steps > STEPS_MAX || world.now_ns > TIME_MAX_NS)
			sim_fail("it goes on and on");
	}
	for (unsigned i = world.first; i < world.count; i++)
		if (!world.tasks[i]->ended)
			sim_fail("thread %u waits for what will never come", i);
}

void sim_begin(uint64_t seed, unsigned troubles, bool verbose)
{
	memset(&world, 0, sizeof(world));
	world.seed = world.random = seed;
	world.troubles = world.first_troubles = troubles & ~no_troubles;
	sim_happens_begin();
	world.verbose = verbose;
	world.now_ns = 1000 * SIM_MS;
	sim_fiber_here(&world.scheduler);
}

void sim_leave_out_troubles(unsigned troubles)
{
	no_troubles = troubles;
}

void sim_end(void)
{
	for (unsigned i = 0; i < world.count; i++)
		free(world.tasks[i]);
	free(world.events);
}

/* ---- thread-specific data ---- */

int sim_key_new(void (*end)(void *value))
{
	for (int i = 0; i < SIM_KEYS; i++) {
		if (world.keys[i].used)
			continue;
		world.keys[i].used = true;
		world.keys[i].end = end;
		return i;
	}
	return -1;
}

void sim_key_free(unsigned key)
{
	world.keys[key].used = false;
	for (unsigned i = 0; i < world.count; i++)
		world.tasks[i]->values[key] = NULL;
}

void **sim_key_value(unsigned key)
{
	return &world.running->values[key];
}

/* ---- mutexes: nobody waits for one, but behind the last unlock anything may happen ---- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_trylock(mutex);
	if (world.running && rc == 0)
		world.running->mutexes++;
	return rc;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (!world.running)
		return __real_pthread_mutex_lock(mutex);
	int rc = __wrap_pthread_mutex_trylock(mutex);
	if (rc != 0)
		sim_fail("a mutex is locked twice");
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_unlock(mutex);
	if (world.running && --world.running->mutexes == 0 && sim_chance(100) && sim_happens())
		task_wait(never, NULL, world.now_ns, SIM_PREEMPTS);
	return rc;
}
