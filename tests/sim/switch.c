/* Its longjmp() refuses to go from one stack to another. */
#undef _FORTIFY_SOURCE

#include "switch.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SPARES_MAX 64

/* Stacks are used again: making one costs more than a run of it. */
static void *spares[SPARES_MAX];
static size_t spare_count;

#if SIM_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>

static void leave(struct sim_fiber *from, const struct sim_fiber *to)
{
	__sanitizer_start_switch_fiber(&from->sanitizer, to->stack, to->size);
}

static void arrive(const struct sim_fiber *here)
{
	__sanitizer_finish_switch_fiber(here ? here->sanitizer : NULL, NULL, NULL);
}
#elif SIM_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

static void leave(struct sim_fiber *from, const struct sim_fiber *to)
{
	__tsan_switch_to_fiber(to->sanitizer, 0);
}

static void arrive(const struct sim_fiber *here)
{
}
#else
static void leave(struct sim_fiber *from, const struct sim_fiber *to)
{
}

static void arrive(const struct sim_fiber *here)
{
}
#endif

static void prepare(struct sim_fiber *fiber)
{
#ifdef __GLIBC__
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = fiber->size;
	makecontext(&fiber->context, fiber->main, 0);
#else
#endif
}

void sim_fiber_here(struct sim_fiber *fiber)
{
	memset(fiber, 0, sizeof(*fiber));
#if SIM_ADDRESS_SANITIZER
	pthread_attr_t attributes;
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &fiber->stack, &fiber->size);
	pthread_attr_destroy(&attributes);
#elif SIM_THREAD_SANITIZER
	fiber->sanitizer = __tsan_get_current_fiber();
#endif
}

bool sim_fiber_new(struct sim_fiber *fiber, size_t size, void (*main)(void))
{
	memset(fiber, 0, sizeof(*fiber));
	fiber->stack = spare_count > 0 ? spares[--spare_count] : malloc(size);
	if (!fiber->stack)
		return false;
	fiber->size = size;
#if SIM_THREAD_SANITIZER
	fiber->sanitizer = __tsan_create_fiber(0);
#endif
	fiber->main = main;
	prepare(fiber);
	return true;
}

void sim_fiber_free(struct sim_fiber *fiber)
{
#if SIM_THREAD_SANITIZER
	__tsan_destroy_fiber(fiber->sanitizer);
#endif
	if (spare_count < SPARES_MAX)
		spares[spare_count++] = fiber->stack;
	else
		free(fiber->stack);
	fiber->stack = NULL;
}

#if SIM_ADDRESS_SANITIZER || SIM_THREAD_SANITIZER
static void change_stacks(struct sim_fiber *from, struct sim_fiber *to)
{
	swapcontext(&from->context, &to->context);
}
#else
/* Begins on that stack, which never comes back. musl has no contexts. */
static void enter(const struct sim_fiber *fiber)
{
#ifdef __GLIBC__
	setcontext(&fiber->context);
#else
	uintptr_t top = ((uintptr_t)fiber->stack + fiber->size) & ~(uintptr_t)15;
#if defined(__x86_64__)
	__asm__ volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tcall *%1\n\tud2"
			 :
			 : "r"(top), "r"(fiber->main)
			 : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov sp, %0\n\tmov x29, xzr\n\tblr %1\n\tbrk #1"
			 :
			 : "r"(top), "r"(fiber->main)
			 : "memory");
#else
#error "how does a stack begin on this processor?"
#endif
#endif
}

/* Without swapcontext(), which is two system calls: they took half of a
 * run. */
static void change_stacks(struct sim_fiber *from, struct sim_fiber *to)
{
	if (_setjmp(from->place) != 0)
		return;
	from->left = true;
	if (to->left)
		_longjmp(to->place, 1);
	enter(to);
}
#endif

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to)
{
	leave(from, to);
	change_stacks(from, to);
	arrive(from);
}

void sim_fiber_arrived(void)
{
	arrive(NULL);
}
