/* Asynchronous calls in a line: a queue and its client, starts and completions. */
#ifndef API_QUEUED_H
#define API_QUEUED_H

#include "fixture.h"

extern lk_queue *queue;
extern lk_client *client;

/* Every kind on one server, under the name "kind". */
enum kind { KIND_REENTRANT, KIND_FAIR, KIND_READ, KIND_WRITE, KIND_FENCED, KIND_SPIN, KIND_PLAIN };
#define KINDS (KIND_PLAIN + 1)

lk_lock *new_kind(enum kind kind, lk_client *of);

void open_queue(void);
/* The same, with options of the client. */
void open_queue_with(const char *options);
/* Takes what is left, which is `left` completions, and closes both. */
void close_queue(size_t left);

/* A request that starts; one that is refused. */
#define starts(...) expect(0, lk_queue_start(queue, request_of(__VA_ARGS__), NULL, &err))
#define refuses(...) expect(LK_EINVAL, lk_queue_start(queue, request_of(__VA_ARGS__), NULL, &err))

/* Each returns the id. The tag of a release and an extension is 7. */
uint64_t begin_acquire(lk_lock *lock, const char *owner, int64_t wait_ms, uint64_t tag);
uint64_t begin_release(lk_lock *lock, const char *owner);
uint64_t begin_extend(lk_lock *lock, const char *owner, int64_t lease_ms);

/* The next completion, or a failed check. */
lk_completion next_completion(void);

/* The same, of that request, with that code. */
lk_completion completed(uint64_t id, int code);

/* In one: acquired, released. */
lk_completion acquire(lk_lock *lock, const char *owner);
void release(lk_lock *lock, const char *owner);

/* The same through a queue of its own, which is freed: the code of the completion. */
int acquire_apart(lk_lock *lock, const lk_acquire_options *options);
int release_apart(lk_lock *lock, const char *owner);

/* A release, and what it lets in: their completions come in any order. */
void release_to(lk_lock *lock, const char *owner, uint64_t next);

bool queue_is_readable(void);

/* A multi lock over two clients, and the queue: two parts on `server`, one on `other_server`. */
#define MULTI_PARTS 3

struct multi_set {
	lk_client *client[2];
	lk_lock *part[MULTI_PARTS], *all;
};

void open_multi_set(struct multi_set *set, const char *options);

#endif
