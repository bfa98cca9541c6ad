/* Stacks, and the way from one to another; the sanitizers are told of it. */
#ifndef SIM_SWITCH_H
#define SIM_SWITCH_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#if defined(__has_feature) /* clang; gcc defines __SANITIZE_…__ */
#define SIM_FEATURE(name) __has_feature(name)
#else
#define SIM_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SIM_FEATURE(address_sanitizer)
#define SIM_ADDRESS_SANITIZER 1
#else
#define SIM_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__) || SIM_FEATURE(thread_sanitizer)
#define SIM_THREAD_SANITIZER 1
#else
#define SIM_THREAD_SANITIZER 0
#endif

struct sim_fiber {
	ucontext_t context;
	void (*main)(void);
	jmp_buf place; /* where it left, … */
	bool left;     /* … if it has */
	void *stack;
	size_t size;
	void *sanitizer; /* what it knows the stack by */
};

/* The stack that this is called on. */
void sim_fiber_here(struct sim_fiber *fiber);

/* A stack of its own, on which `main` runs, whose first words are sim_fiber_arrived(). */
bool sim_fiber_new(struct sim_fiber *fiber, size_t size, void (*main)(void));
void sim_fiber_free(struct sim_fiber *fiber);

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to);
void sim_fiber_arrived(void);

#endif
