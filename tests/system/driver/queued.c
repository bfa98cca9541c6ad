/* The calls on a lock that have an asynchronous form, through a queue of their own. */
#include "driver.h"

#include <string.h>

/* What a token can cancel: the acquires that are under way. */
struct waiting {
	struct waiting *next;
	const char *token;
	lk_queue *queue;
	uint64_t id;
};

static struct waiting *all_waiting;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void waiting_add(struct waiting *waiting)
{
	pthread_mutex_lock(&mutex);
	waiting->next = all_waiting;
	all_waiting = waiting;
	pthread_mutex_unlock(&mutex);
}

static void waiting_remove(const struct waiting *waiting)
{
	pthread_mutex_lock(&mutex);
	struct waiting **at = &all_waiting;
	while (*at != waiting)
		at = &(*at)->next;
	*at = waiting->next;
	pthread_mutex_unlock(&mutex);
}

void queued_cancel(const char *token)
{
	pthread_mutex_lock(&mutex);
	for (const struct waiting *one = all_waiting; one; one = one->next)
		if (one->token && strcmp(one->token, token) == 0)
			lk_queue_cancel(one->queue, one->id, NULL);
	pthread_mutex_unlock(&mutex);
}

/* What the completion says; starting it gave `result`. */
static int queued_take(lk_queue *queue, int result, lk_error *error)
{
	lk_completion completion = {.struct_size = sizeof(lk_completion),
				    .error = {.code = LK_EINTERNAL}};
	if (result != 0)
		return result;
	lk_queue_take(queue, &completion, 1, -1, error);
	*error = completion.error;
	return completion.error.code;
}

int queued_acquire(lk_lock *lock, int64_t wait_ms, const lk_acquire_options *options,
		   const char *token, lk_error *error)
{
	struct waiting waiting = {.token = token};
	int result = lk_queue_new(&waiting.queue, 1, error);
	if (result == 0)
		result = lk_queue_start(waiting.queue,
					request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
						   .acquire = options,
						   .tag = options ? options->tag : 0),
					&waiting.id, error);
	waiting_add(&waiting);
	result = queued_take(waiting.queue, result, error);
	waiting_remove(&waiting);
	lk_queue_free(waiting.queue, NULL);
	return result;
}

int queued_release(lk_lock *lock, const lk_release_options *options, lk_error *error)
{
	lk_queue *queue = NULL;
	int result = lk_queue_new(&queue, 1, error);
	if (result == 0)
		result = lk_queue_start(
			queue, request_of(RELEASE, .lock = lock, .release = options), NULL, error);
	result = queued_take(queue, result, error);
	lk_queue_free(queue, NULL);
	return result;
}

int queued_extend(lk_lock *lock, int64_t lease_ms, const char *owner, lk_error *error)
{
	lk_queue *queue = NULL;
	int result = lk_queue_new(&queue, 1, error);
	if (result == 0)
		result = lk_queue_start(queue,
					request_of(EXTEND, .lock = lock, .lease_ms = lease_ms,
						   .extend = extend_by(owner)),
					NULL, error);
	result = queued_take(queue, result, error);
	lk_queue_free(queue, NULL);
	return result;
}
