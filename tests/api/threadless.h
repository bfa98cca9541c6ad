/*
 * A client without threads, and the loop of a program that drives it. Each test has one client and
 * one queue.
 */
#ifndef THREADLESS_H
#define THREADLESS_H

#include "fixture.h"

#define LIMIT_MS 20000

extern lk_queue *queue;
extern lk_client *client;

lk_client *open_threadless(const char *url, lk_resolve_callback resolve, const char *option,
			   const char *value);

/* Makes both; `option` may be NULL. */
void begin(const char *option, const char *value);

/* Closes and frees both. */
void end(int how);

/* Until the client has something to do, for so long; then it does that. */
void turn(int64_t limit_ms);

/* The next completion within that time; its operation is 0 if there was none. */
lk_completion next_within(int64_t limit_ms);

/* The next completion is of that operation, and ends so. */
void ends(int operation, int code);

uint64_t start_acquire(lk_lock *lock, const char *owner, int64_t wait_ms);
void start_release(lk_lock *lock, const char *owner);

#endif
