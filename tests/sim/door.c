/* The door of src/base/door.h, to the simulated world: linked instead of the real one. */
#include "base/door.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "happens.h"
#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define FD_FIRST 1000000 /* far from real descriptors: one that goes past the door is noticed */
#define FDS_MAX 512
#define SHORT 300 /* in 1,000 connections, for want of a descriptor */
#define MEMBERS_MAX 32

enum kind { FREE, WAKE, TIMER, SET, SOCKET };

struct member {
	int fd; /* 0: none */
	enum lk__set_event event;
	bool once;   /* it tells once more, whatever it is */
	bool writes; /* that it can be written, too */
	void *data;
};

struct descriptor {
	enum kind kind;
	bool woken;
	int64_t at_ns;
	struct member members[MEMBERS_MAX];
	struct sim_link *link;
};

static struct descriptor descriptors[FDS_MAX];
static int used; /* those behind were never open in this run */

void sim_door_begin(void)
{
	memset(descriptors, 0, sizeof(descriptors));
	used = 0;
}

void sim_door_end(void)
{
	for (int i = 0; i < FDS_MAX; i++)
		if (descriptors[i].kind != FREE)
			sim_fail("descriptor %d, of kind %d, was never closed", i,
				 descriptors[i].kind);
}

/* ---- clock, random numbers ---- */

int64_t lk__now_ns(void)
{
	return sim_clock_ns();
}

int64_t lk__wall_us(void)
{
	return sim_clock_ns() / 1000;
}

int lk__random_bytes(void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)sim_random(256);
	return 0;
}

/* Instead of the system's: the course of a seed is the same on every machine. */
int gethostname(char *name, size_t size)
{
	snprintf(name, size, "machine");
	return 0;
}

unsigned lk__core_count(void)
{
	return 2;
}

/* ---- threads ---- */

int lk__thread_start(pthread_t *thread_out, void *(*main)(void *), void *argument)
{
	struct sim_task *task = sim_spawn(main, argument);
	if (!task)
		return EAGAIN;
	if (thread_out)
		*thread_out = (pthread_t)(uintptr_t)sim_number(task);
	return 0;
}

void lk__thread_join(pthread_t thread)
{
	sim_wait(sim_ended, sim_task_of((unsigned)(uintptr_t)thread), SIM_NEVER);
}

int lk__thread_key_new(pthread_key_t *key_out, void (*end)(void *value))
{
	int key = sim_key_new(end);
	*key_out = (pthread_key_t)key;
	return key < 0 ? EAGAIN : 0;
}

void lk__thread_key_free(pthread_key_t key)
{
	sim_key_free(key);
}

void *lk__thread_get(pthread_key_t key)
{
	return *sim_key_value(key);
}

int lk__thread_set(pthread_key_t key, void *value)
{
	*sim_key_value(key) = value;
	return 0;
}

static bool has_token(const void *subject)
{
	return atomic_load(&((const struct lk__park *)subject)->state) != 0;
}

int lk__park_wait(struct lk__park *park, int64_t deadline_ns)
{
	sim_wait(has_token, park, sim_chance(5) ? sim_now_ns() : deadline_ns);
	atomic_store(&park->state, 0);
	return 0;
}

void lk__park_wake(struct lk__park *park)
{
	atomic_store(&park->state, 1);
}

/* ---- descriptors ---- */

static int descriptor_new(enum kind kind)
{
	for (int i = 0; i < FDS_MAX; i++) {
		if (descriptors[i].kind != FREE)
			continue;
		descriptors[i] = (struct descriptor){.kind = kind, .at_ns = SIM_NEVER};
		used = i < used ? used : i + 1;
		return FD_FIRST + i;
	}
	errno = EMFILE;
	return -1;
}

static struct descriptor *descriptor_of(int fd)
{
	static struct descriptor none;
	struct descriptor *at = &descriptors[fd - FD_FIRST];
	if (fd >= FD_FIRST && fd < FD_FIRST + FDS_MAX && at->kind != FREE)
		return at;
	sim_fail("descriptor %d is used, which is not open", fd - FD_FIRST);
	return &none;
}

static void leave_sets(int fd)
{
	for (int i = 0; i < used; i++)
		for (int j = 0; j < MEMBERS_MAX; j++)
			if (descriptors[i].members[j].fd == fd)
				descriptors[i].members[j].fd = 0;
}

void lk__fd_close(int fd)
{
	struct descriptor *closed = descriptor_of(fd);
	if (closed->link)
		sim_link_shutdown(closed->link);
	closed->kind = FREE;
	leave_sets(fd);
}

static bool set_ready(const struct descriptor *set);

static bool readable(const struct descriptor *at)
{
	switch (at->kind) {
	case WAKE:
		return at->woken;
	case TIMER:
		return at->at_ns <= sim_now_ns();
	case SET:
		return set_ready(at);
	case SOCKET:
		return at->link && sim_link_readable(at->link);
	case FREE:
		break;
	}
	return false;
}

static bool member_ready(const struct member *member)
{
	if (member->fd == 0)
		return false;
	const struct descriptor *at = descriptor_of(member->fd);
	bool ended = at->kind == SOCKET && sim_link_ended(at->link);
	bool writable = member->writes && at->link && sim_link_writable(at->link);
	return ended || writable || (member->event != LK__SET_ENDED && readable(at));
}

static bool set_ready(const struct descriptor *set)
{
	for (int i = 0; i < MEMBERS_MAX; i++)
		if (member_ready(&set->members[i]))
			return true;
	return false;
}

struct polled {
	struct pollfd *fds;
	size_t count;
};

/* A connection may be lost, and its descriptor closed, before it is polled (lk__conn_poll()). */
static short events_of(const struct pollfd *polled)
{
	const struct descriptor *at = &descriptors[polled->fd - FD_FIRST];
	if (polled->fd >= FD_FIRST && polled->fd < FD_FIRST + FDS_MAX && at->kind == FREE)
		return POLLNVAL;
	at = descriptor_of(polled->fd);
	short events = readable(at) ? POLLIN : 0;
	if (at->kind == SOCKET && at->link && sim_link_writable(at->link))
		events |= POLLOUT;
	short told = at->kind == SOCKET && at->link && sim_link_ended(at->link) ? POLLHUP : 0;
	return (short)((events & polled->events) | told);
}

static bool poll_ready(const void *subject)
{
	const struct polled *polled = subject;
	for (size_t i = 0; i < polled->count; i++)
		if (polled->fds[i].fd >= 0 && events_of(&polled->fds[i]))
			return true;
	return false;
}

int lk__poll(struct pollfd *fds, size_t count, int timeout_ms)
{
	const struct polled polled = {fds, count};
	int ready = 0;
	sim_wait(poll_ready, &polled,
		 timeout_ms < 0 ? SIM_NEVER : sim_now_ns() + timeout_ms * SIM_MS);
	for (size_t i = 0; i < count; i++) {
		fds[i].revents = fds[i].fd < 0 ? 0 : events_of(&fds[i]);
		ready += fds[i].revents != 0;
	}
	return ready;
}

int lk__wake_fd_new(void)
{
	return descriptor_new(WAKE);
}

void lk__wake_fd(int fd)
{
	descriptor_of(fd)->woken = true;
}

void lk__wake_fd_clear(int fd)
{
	descriptor_of(fd)->woken = false;
}

static void nothing(void *context)
{
}

int lk__timer_new(void)
{
	return descriptor_new(TIMER);
}

/* The event lets the world look at that time; what waits for the timer is found ready then. */
void lk__timer_arm(int timer_fd, int64_t at_ns)
{
	descriptor_of(timer_fd)->at_ns = at_ns;
	if (at_ns != SIM_NEVER)
		sim_at(at_ns, nothing, NULL);
}

int lk__set_new(void)
{
	return descriptor_new(SET);
}

int lk__set_add(int set_fd, int fd, enum lk__set_event event, void *data)
{
	struct descriptor *set = descriptor_of(set_fd);
	descriptor_of(fd); /* fails if it is not open */
	for (int i = 0; i < MEMBERS_MAX; i++) {
		if (set->members[i].fd != 0)
			continue;
		set->members[i] = (struct member){
			.fd = fd, .event = event, .once = event == LK__SET_ENDED, .data = data};
		return 0;
	}
	errno = ENOSPC;
	return -1;
}

int lk__set_rearm(int set_fd, int fd, int writes, void *data)
{
	struct descriptor *set = descriptor_of(set_fd);
	struct member *free_place = NULL;
	descriptor_of(fd);
	for (int i = MEMBERS_MAX - 1; i >= 0; i--)
		if (set->members[i].fd == 0 || set->members[i].fd == fd)
			free_place = &set->members[i];
	for (int i = 0; i < MEMBERS_MAX; i++)
		if (set->members[i].fd == fd)
			set->members[i].fd = 0;
	if (!free_place) {
		errno = ENOSPC;
		return -1;
	}
	*free_place = (struct member){
		.fd = fd, .event = LK__SET_READABLE, .once = true, .writes = writes, .data = data};
	return 0;
}

int lk__set_take(int set_fd, void **data_out, int most)
{
	struct descriptor *set = descriptor_of(set_fd);
	int count = 0;
	for (int i = 0; i < MEMBERS_MAX && count < most; i++) {
		struct member *member = &set->members[i];
		if (!member_ready(member))
			continue;
		data_out[count++] = member->data;
		if (member->once)
			member->fd = 0;
	}
	return count;
}

/* ---- sockets ---- */

int lk__socket_new(int family)
{
	if (sim_has(SIM_SHORTAGES) && sim_chance(SHORT) && sim_happens()) {
		sim_note("no descriptor is left");
		errno = EMFILE;
		return -1;
	}
	return descriptor_new(SOCKET);
}

int lk__socket_connect(int fd, const struct sockaddr *address, socklen_t size)
{
	const struct sockaddr_in *server = (const struct sockaddr_in *)address;
	descriptor_of(fd)->link = sim_link_new(ntohl(server->sin_addr.s_addr));
	errno = EINPROGRESS;
	return -1;
}

int lk__socket_failure(int fd)
{
	return sim_link_failure(descriptor_of(fd)->link);
}

/* The names of simulated servers are their addresses. */
int lk__socket_peer(int fd, char *host_out, size_t size)
{
	snprintf(host_out, size, "10.0.0.%u", sim_link_server(descriptor_of(fd)->link));
	return 0;
}

ssize_t lk__socket_read(int fd, void *bytes, size_t size)
{
	if (!sim_has_mutex())
		sim_sleep(0); /* anything may come before */
	return sim_link_read(descriptor_of(fd)->link, bytes, size);
}

ssize_t lk__socket_write(int fd, const void *bytes, size_t size)
{
	return sim_link_write(descriptor_of(fd)->link, bytes, size);
}

void lk__socket_shutdown(int fd)
{
	sim_link_shutdown(descriptor_of(fd)->link);
}

void lk__socket_discard(int fd)
{
	sim_link_discard(descriptor_of(fd)->link);
}

void lk__socket_tune(int fd, int64_t keepalive_s)
{
}

/* "server-3" and 10.0.0.3 have the number 3, and "server" 0. */
int lk__look_up(struct addrinfo **addresses_out, const char *host, const char *port, int flags)
{
	static struct sockaddr_in addresses[SIM_SERVERS_MAX];
	static struct addrinfo found[SIM_SERVERS_MAX];
	const char *digits = strchr(host, '-');
	size_t number = digits ? (size_t)atoi(digits + 1) % SIM_SERVERS_MAX : 0;
	if (flags & AI_NUMERICHOST) {
		if (strncmp(host, "10.0.0.", 7) != 0)
			return EAI_NONAME;
		number = (size_t)atoi(host + 7) % SIM_SERVERS_MAX;
	} else
		sim_sleep(sim_between(0, 5) * SIM_MS);
	addresses[number] = (struct sockaddr_in){.sin_family = AF_INET,
						 .sin_addr.s_addr = htonl((uint32_t)number)};
	found[number] = (struct addrinfo){.ai_family = AF_INET,
					  .ai_socktype = SOCK_STREAM,
					  .ai_addrlen = sizeof(addresses[number]),
					  .ai_addr = (struct sockaddr *)&addresses[number]};
	*addresses_out = &found[number];
	return 0;
}

void lk__look_up_free(struct addrinfo *addresses)
{
}
