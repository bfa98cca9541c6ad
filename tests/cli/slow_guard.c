/* Preloaded into lockkeeper: what its guard says is late, so that a test can be faster. */
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#define DELAY_NS 300000000L

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	ssize_t (*next)(int, const void *, size_t, int);
	void *found = dlsym(RTLD_NEXT, "send");
	char name[16] = "";
	memcpy(&next, &found, sizeof(next));
	prctl(PR_GET_NAME, name);
	if (strcmp(name, "lk-guard") == 0) {
		struct timespec delay = {0, DELAY_NS};
		nanosleep(&delay, NULL);
	}
	return next(fd, bytes, length, flags);
}
