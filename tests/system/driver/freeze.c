/* Stopping a single thread of this process, wherever it is, as a debugger would. */
#include "driver.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

static _Atomic int64_t frozen_ms;

static void freeze(int signal_number)
{
	int64_t ms = atomic_load(&frozen_ms);
	int saved = errno;
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	(void)signal_number;
	while (nanosleep(&left, &left))
		;
	errno = saved;
}

void freeze_thread(pthread_t thread, int64_t ms)
{
	struct sigaction action = {.sa_handler = freeze, .sa_flags = SA_RESTART};
	atomic_store(&frozen_ms, ms);
	sigaction(SIGUSR2, &action, NULL);
	pthread_kill(thread, SIGUSR2);
}
