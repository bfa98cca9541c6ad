/* Reading commands, and the threads that run them. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096

struct worker {
	char *name;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	struct command *first, **last;
	int ended;
};

static struct worker *workers[THREADS_MAX];
static int worker_count;

static void command_run(struct command *command)
{
	struct answer answer;
	answer_begin(&answer);
	answer_int(&answer, "id", command->id);
	answer_int(&answer, "start_ns", now_ns());
	call_run(command, &answer);
	answer_int(&answer, "end_ns", now_ns());
	answer_send(&answer);
	command_free(command);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	for (int end = 0; !end;) {
		pthread_mutex_lock(&worker->mutex);
		while (!worker->first)
			pthread_cond_wait(&worker->more, &worker->mutex);
		struct command *command = worker->first;
		worker->first = command->next;
		if (!worker->first)
			worker->last = &worker->first;
		pthread_mutex_unlock(&worker->mutex);
		end = strcmp(command->verb, "end") == 0;
		command_run(command);
	}
	return NULL;
}

static struct worker *worker_find(const char *name)
{
	for (int i = 0; i < worker_count; i++) {
		if (!workers[i]->ended && strcmp(workers[i]->name, name) == 0)
			return workers[i];
	}
	struct worker *worker = calloc(1, sizeof(*worker));
	if (!worker || worker_count == THREADS_MAX)
		abort();
	worker->name = strdup(name);
	worker->last = &worker->first;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->more, NULL);
	if (pthread_create(&worker->thread, NULL, worker_main, worker))
		abort();
	pthread_detach(worker->thread);
	workers[worker_count++] = worker;
	return worker;
}

/* Only the reading thread calls this, so `ended` and the table need no lock. */
static void worker_give(struct command *command)
{
	struct worker *worker = worker_find(command->thread);
	worker->ended = strcmp(command->verb, "end") == 0;
	pthread_mutex_lock(&worker->mutex);
	*worker->last = command;
	worker->last = &command->next;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->mutex);
}

/* freeze target=THREAD ms=MS: on the reading thread, since it alone knows the others. */
static void worker_freeze(struct command *command)
{
	struct worker *worker = worker_find(command_text(command, "target", NULL));
	struct answer answer;
	freeze_thread(worker->thread, command_number(command, "ms", 0));
	answer_begin(&answer);
	answer_int(&answer, "id", command->id);
	answer_string(&answer, "code", "OK");
	answer_send(&answer);
	command_free(command);
}

int main(void)
{
	static char line[LINE_MAX_BYTES];
	while (fgets(line, sizeof(line), stdin)) {
		struct command *command = command_parse(line);
		if (!command) {
			fprintf(stderr, "driver: malformed line: %s", line);
			return 2;
		}
		if (strcmp(command->verb, "quit") == 0) {
			command_free(command);
			break;
		}
		if (strcmp(command->verb, "freeze") == 0)
			worker_freeze(command);
		else if (strcmp(command->thread, "-") == 0)
			command_run(command);
		else
			worker_give(command);
	}
	return 0;
}
