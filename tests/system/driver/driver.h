/*
 * The driver of the system tests: C clients in the hands of a Python program.
 *
 * It reads commands, one a line, from stdin:
 *
 *   <id> <thread> <verb> key=value …        values are %XX-encoded
 *
 * and runs each on the named thread, made at first use; "-" is the reading thread itself. Commands
 * of one thread run in turn. Ids rise. Each is answered by one line of JSON with its id, when it is
 * done. Only the public interface of the library is used.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <lockkeeper.h>

#include "../../harness/request.h"

#define ARGUMENTS_MAX 32
#define LINE_MAX_BYTES (1 << 18)

struct argument {
	char *key;
	char *value;
	size_t size;
};

struct command {
	struct command *next; /* in the queue of its thread */
	char *line;           /* holds the texts below */
	long id;
	const char *thread;
	const char *verb;
	int count;
	struct argument arguments[ARGUMENTS_MAX];
};

/* command.c: NULL when the line is malformed. */
struct command *command_parse(const char *line);
void command_free(struct command *command);
/* The argument's value, or NULL; the size in bytes goes to size_out unless it is NULL. */
const char *command_text(const struct command *command, const char *key, size_t *size_out);
int64_t command_number(const struct command *command, const char *key, int64_t otherwise);

/* answer.c: one JSON object a line, written whole. Begin and end from one thread. */
struct answer {
	char *bytes;
	size_t size;
	size_t room;
};
void answer_begin(struct answer *answer);
void answer_int(struct answer *answer, const char *key, int64_t value);
void answer_text(struct answer *answer, const char *key, const char *text, size_t size);
void answer_string(struct answer *answer, const char *key, const char *text);
void answer_send(struct answer *answer);
/* The result of a library call: "result", "code", "message". */
void answer_result(struct answer *answer, int result, const lk_error *error);

/* kinds.c: makes the lock that kind=WORD asks for ("lock" without one): 0 or a code. */
int kind_make(lk_lock **lock_out, const struct command *command, lk_client *client,
	      const char *name, size_t name_size, lk_error *error);
int kind_known(const struct command *command);

/* calls.c: runs one command and adds its outcome to the answer. */
void call_run(const struct command *command, struct answer *answer);

/* queued.c: the asynchronous forms of the calls with these names, waited for. */
int queued_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
		   const char *token, lk_error *error);
int queued_release(lk_lock *lock, const lk_release_options *options, lk_error *error);
int queued_extend(lk_lock *lock, int64_t lease_ms, const char *owner, lk_error *error);
/* Cancels the acquires that were given this token (or NULL). */
void queued_cancel(const char *token);

/* synchronizers.c: the verbs with kind=semaphore, permits or latch; 0: it is none of these. */
int synchronizer_run(const struct command *command, struct answer *answer);

/* The tables by index, NULL behind the end; list.c tells of them all. */
const char *kind_at(size_t index);
const char *lock_verb_at(size_t index);
const char *client_verb_at(size_t index);
const char *synchronizer_at(size_t index, const char **kind_out);

/* list.c: "operations": each as KIND:VERB, those on a client itself with the kind "client". */
void list_run(struct answer *answer);

/* handles.c: clients and cancel tokens by name; NULL when there is none (for a token: made). */
lk_client *handle_client(const struct command *command);
lk_client *handle_client_named(const char *name);
void handle_client_set(const char *name, lk_client *client);
lk_cancel *handle_cancel(const char *name);

/* stress.c */
void stress_run(const struct command *command, struct answer *answer);
void stress_stop_all(const struct command *command);

/* freeze.c: stops a thread for so long; returns at once. One length for all at a time. */
void freeze_thread(pthread_t thread, int64_t ms);

static inline int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
