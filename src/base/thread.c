#include "base/thread.h"

#include <signal.h>

int lk__thread_start(pthread_t *thread_out, int detached, void *(*main)(void *), void *argument)
{
	sigset_t all, saved;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	if (detached)
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	int rc = pthread_create(thread_out, &attributes, main, argument);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attributes);
	return rc;
}
