/*
 * Loaded into a program before its libraries (LD_PRELOAD), it puts the program's wall clock so
 * many ms ahead, or back: LOCKKEEPER_TEST_CLOCK_MS. Or as many as the text says that the file
 * LOCKKEEPER_TEST_CLOCK_FILE begins with, which may change at any time. The clocks that only run
 * stay as they are.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND INT64_C(1000000000)

#define PAGE 4096 /* of the file, which is not shorter */

static const char *page;

__attribute__((constructor)) static void page_map(void)
{
	const char *path = getenv("LOCKKEEPER_TEST_CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *made = fd >= 0 ? mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (made != MAP_FAILED)
		page = made;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	const char *text = page ? page : getenv("LOCKKEEPER_TEST_CLOCK_MS");
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
