/*
 * Time in tests: limits that grow with LK_TEST_SLOW, and waits for a condition.
 *
 * LK_TEST_SLOW (default 1) is how many times slower than a plain build this run may be;
 * sanitizers want about 4. Every lease and limit of a suite goes through slow_ms().
 */
#ifndef HARNESS_WAITING_H
#define HARNESS_WAITING_H

#include <stdint.h>

#include "check.h"

long long slow_ms(int64_t ms);

/* CLOCK_BOOTTIME, as the library's deadlines. */
int64_t now_ns(void);
int64_t now_ms(void);

/* Sleeps the whole time, whatever signals arrive. Only where time itself is under test. */
void sleep_ms(int64_t ms);

/* Looks every ms whether `condition` has come true; fails after `limit_ms` (times slow). */
#define wait_until(condition, limit_ms)                                                            \
	do {                                                                                       \
		int64_t wait_end_ms = now_ms() + slow_ms(limit_ms);                                \
		while (!(condition)) {                                                             \
			if (now_ms() > wait_end_ms) {                                              \
				check_fail(__FILE__, __LINE__, "not within %lld ms: %s",           \
					   slow_ms(limit_ms), #condition);                         \
				break;                                                             \
			}                                                                          \
			sleep_ms(1);                                                               \
		}                                                                                  \
	} while (0)

#endif
