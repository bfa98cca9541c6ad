#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

long long slow_ms(int64_t ms)
{
	const char *text = getenv("LK_TEST_SLOW");
	int64_t factor = text ? strtoll(text, NULL, 10) : 1;
	return factor > 1 ? ms * factor : ms;
}

int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

void sleep_ms(int64_t ms)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}
