#include "nomem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

_Atomic long countdown;
_Atomic bool armed, for_good;

static bool fails(void)
{
	if (!armed)
		return false;
	long left = --countdown;
	return left == 0 || (left < 0 && for_good);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
	return fails() ? NULL : __real_strndup(text, size);
}

int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __real_eventfd(unsigned count, int flags);
int __real_timerfd_create(int clock, int flags);
int __real_socket(int family, int type, int protocol);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*begin)(void *), void *argument);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_socket(int family, int type, int protocol);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*begin)(void *), void *argument);

static bool refused(void)
{
	errno = EMFILE;
	return fails();
}

int __wrap_epoll_create1(int flags)
{
	return refused() ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	return refused() ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __wrap_eventfd(unsigned count, int flags)
{
	return refused() ? -1 : __real_eventfd(count, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return refused() ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_socket(int family, int type, int protocol)
{
	return refused() ? -1 : __real_socket(family, type, protocol);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*begin)(void *), void *argument)
{
	return refused() ? EAGAIN : __real_pthread_create(thread, attributes, begin, argument);
}
