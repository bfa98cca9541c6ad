/*
 * Loaded into a program before its libraries (LD_PRELOAD), it puts the program's wall clock so
 * many ms ahead, or back: LOCKKEEPER_TEST_CLOCK_MS. The clocks that only run stay as they are.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND INT64_C(1000000000)

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	const char *text = getenv("LOCKKEEPER_TEST_CLOCK_MS");
	if (result || !text || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return result;
	int64_t ns = now->tv_sec * NS_PER_SECOND + now->tv_nsec + strtoll(text, NULL, 10) * 1000000;
	*now = (struct timespec){.tv_sec = ns / NS_PER_SECOND, .tv_nsec = ns % NS_PER_SECOND};
	return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec exact;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	*now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *out)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
