/*
 * Checks that may be made in any thread.
 *
 * In the thread that runs the suite a failed check ends the test, as cmocka's own do. In threads
 * started by threads_start() it is written down, the thread goes on, and threads_join() fails.
 */
#ifndef HARNESS_CHECK_H
#define HARNESS_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <lockkeeper/error.h>

/* The calling thread's lk_error, for calls inside expect(). */
extern _Thread_local lk_error err;

/* True in threads that threads_start() has started. */
extern _Thread_local bool check_in_thread;

__attribute__((format(printf, 3, 4))) void check_fail(const char *file, int line,
						      const char *format, ...);

/* How many checks failed in threads since the last call. */
int check_take_failures(void);

/* Ends the test as skipped, and says why, in words that many tests may share. */
_Noreturn void check_skip(const char *why);

void check_clear_error(void);
int check_code(int got, int wanted, const char *call, const char *file, int line);

#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			check_fail(__FILE__, __LINE__, "%s", #condition);                          \
	} while (0)

/* Two integers; both are shown when the comparison fails. */
#define check_int(left, operator, right)                                                           \
	do {                                                                                       \
		long long check_left = (left), check_right = (right);                              \
		if (!(check_left operator check_right))                                            \
			check_fail(__FILE__, __LINE__, "%s %s %s: %lld, %lld", #left, #operator,   \
				   #right, check_left, check_right);                               \
	} while (0)

/*
 * The call must answer `wanted`; a call that fails must have put its code and a text into `err`,
 * and `call` must pass &err. The answer is the macro's value.
 */
#define expect(wanted, call)                                                                       \
	(check_clear_error(), check_code((call), (wanted), #call, __FILE__, __LINE__))

#endif
