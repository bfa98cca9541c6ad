/* SPDX-License-Identifier: MIT */
/*
 * The one door to the outside: clock, park and wake, threads, random numbers, waiting for
 * descriptors, sockets, name resolution. Nothing else in the library calls the system for these.
 *
 * door.c is the real system. A program that defines all of these functions itself links its own
 * system instead, as the simulator does (tests/sim/); no call is indirect.
 *
 * As in POSIX, what fails returns -1 and sets errno, unless stated otherwise. Descriptors are
 * non-blocking and close-on-exec.
 */
#ifndef LK__BASE_DOOR_H
#define LK__BASE_DOOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct addrinfo;
struct pollfd;

/* CLOCK_BOOTTIME, which runs through suspend. All times of a lock are read here. */
int64_t lk__now_ns(void);

/* The wall clock, in µs since 1970: for the doctor, which compares it. No lock depends on it. */
int64_t lk__wall_us(void);

/* Fills `bytes` from the kernel, and from nowhere else. 0, or LK_ESYSTEM. May block early in the
 * boot of a machine. */
int lk__random_bytes(void *bytes, size_t size);

/* ---- threads ---- */

/* How many cores the process may run on. */
unsigned lk__core_count(void);

/* Starts a thread in which all signals are blocked; detached if `thread_out` is NULL. 0 or an
 * errno. */
int lk__thread_start(pthread_t *thread_out, void *(*main)(void *), void *argument);
void lk__thread_join(pthread_t thread);

/* Thread-specific data, as in POSIX: 0 or an errno. */
int lk__thread_key_new(pthread_key_t *key_out, void (*end)(void *value));
void lk__thread_key_free(pthread_key_t key);
void *lk__thread_get(pthread_key_t key);
int lk__thread_set(pthread_key_t key, void *value);

/*
 * A parking place for one thread: wait until somebody gives the token, or a deadline passes.
 *
 * At most one token is kept, so a wake that comes early is not lost and a wake too many only
 * makes the owner look again: every wait is a loop over its own condition.
 */
struct lk__park {
	_Atomic uint32_t state; /* the door's own; 0 at first */
};

#define LK__INTERRUPTED 1 /* by a signal handler */

/* Waits for the token until `deadline_ns`. May return early without cause. Returns 0, or
 * LK__INTERRUPTED. */
int lk__park_wait(struct lk__park *park, int64_t deadline_ns);

/* Gives the token. Async-signal-safe. */
void lk__park_wake(struct lk__park *park);

/* Tells whether it is there; for the thread whose place it is. */
static inline int lk__park_has_token(const struct lk__park *park)
{
	return atomic_load(&park->state) != 0;
}

/* ---- waiting for descriptors ---- */

/* poll(). */
int lk__poll(struct pollfd *fds, size_t count, int timeout_ms);

void lk__fd_close(int fd);

/* A descriptor that is readable from lk__wake_fd(), which is async-signal-safe, to
 * lk__wake_fd_clear(). */
int lk__wake_fd_new(void);
void lk__wake_fd(int fd);
void lk__wake_fd_clear(int fd);

/* A descriptor that is readable from `at_ns` (LK__NEVER: not at all) on, until it is armed again.
 * It counts through suspend, which poll() does not. */
int lk__timer_new(void);
void lk__timer_arm(int timer_fd, int64_t at_ns);

/* A set of descriptors, which is readable when one of them is ready. */
int lk__set_new(void);

enum lk__set_event {
	LK__SET_READABLE, /* as long as it can be read */
	LK__SET_ENDED,    /* once, when the other side has ended it */
};

/* Adds a descriptor, which leaves the set when it is closed. `data` comes with its event. */
int lk__set_add(int set_fd, int fd, enum lk__set_event event, void *data);

/* For one that was added: asks for its next event, readable or ended, or writable; one only. */
int lk__set_rearm(int set_fd, int fd, int writes, void *data);

/* The data of those that are ready, `most` at most; never waits. How many. */
int lk__set_take(int set_fd, void **data_out, int most);

/* ---- sockets ---- */

/* A stream socket. */
int lk__socket_new(int family);

/* connect(), which may end with EINPROGRESS. */
int lk__socket_connect(int fd, const struct sockaddr *address, socklen_t size);

/* How connecting has ended, once the socket is writable: 0 or an errno. */
int lk__socket_failure(int fd);

/* Writes the numeric host of the other side. -1: it has none, as a socket in the file system. */
int lk__socket_peer(int fd, char *host_out, size_t size);

/* recv() and send() that never block; sending raises no SIGPIPE. */
ssize_t lk__socket_read(int fd, void *bytes, size_t size);
ssize_t lk__socket_write(int fd, const void *bytes, size_t size);

/* Ends both directions at once; the descriptor stays. */
void lk__socket_shutdown(int fd);

/* Drops, when it is closed, what the other side has not acknowledged: it is not sent once more. */
void lk__socket_discard(int fd);

/* No delay, and probes after `keepalive_s` of silence (0: none). What the kernel lacks is left. */
void lk__socket_tune(int fd, int64_t keepalive_s);

/*
 * The addresses of a name, or of an address (`flags`: AI_NUMERICHOST), for a stream to a numeric
 * port. Blocks for as long as the resolver does. 0; an EAI_… code; or EAI_SYSTEM with errno.
 */
int lk__look_up(struct addrinfo **addresses_out, const char *host, const char *port, int flags);
void lk__look_up_free(struct addrinfo *addresses);

#endif
