/*
 * The program of these examples, the same in each loop: it takes a lock, works for a while and
 * releases it. It knows no loop; no call in it blocks but job_end().
 */
#ifndef JOB_H
#define JOB_H

#include <lockkeeper.h>

LK_BEGIN_DECLS

struct job {
	const char *name; /* of the lock */
	long work_ms;
	lk_client *client;
	lk_queue *queue;
	lk_lock *lock;
	int ended, status;
	void (*work)(struct job *job); /* the loop's: calls job_worked() when that time is over */
	void (*end)(struct job *job);  /* the loop's: stops the loop */
	lk_queue_callback wake;        /* of a loop that watches no descriptor; else NULL */
	void *wake_context;
};

/* Reads the arguments NAME [MS] and starts the acquire. Set the functions before. */
void job_start(struct job *job, int argc, char **argv);

/* Takes what has completed: call it when lk_queue_fd(job->queue) is readable. */
void job_ready(void *job);

/* Starts the release. */
void job_worked(struct job *job);

/* Frees everything, after the loop. Returns the exit status. */
int job_end(struct job *job);

LK_END_DECLS

#endif
