/*
 * Waits until three parts of a job are done; here the parts are threads, elsewhere machines.
 * If another process has already begun the job, it waits for that one's parts.
 */
#include <pthread.h>
#include <stdio.h>

#include <lockkeeper.h>

#define PARTS 3

static void *part(void *latch)
{
	lk_error error = {0};
	/* … the part's work … */
	if (lk_latch_count_down(latch, 1, NULL, &error))
		fprintf(stderr, "not counted: %s\n", error.message);
	return NULL;
}

static int whole(lk_latch *latch, lk_error *error)
{
	pthread_t threads[PARTS];
	int begun = 0, set = lk_latch_try_set(latch, PARTS, error);
	if (set < 0)
		return set;
	if (set == 0)
		puts("begun by somebody else");
	fflush(stdout);
	while (set && begun < PARTS && !pthread_create(&threads[begun], NULL, part, latch))
		begun++;
	int code = lk_latch_await(latch, 10000, NULL, error);
	while (begun > 0)
		pthread_join(threads[--begun], NULL);
	if (code == 0)
		puts("all parts are done");
	return code;
}

int main(void)
{
	lk_client *client = NULL;
	lk_latch *latch = NULL;
	lk_error error = {0};
	if (lk_client_open(&client, NULL, &error) ||
	    lk_latch_new(&latch, client, "parts", LK_STRLEN, NULL, &error) || whole(latch, &error))
		fprintf(stderr, "not done: %s\n", error.message);
	lk_latch_free(latch);
	lk_client_free(client);
	return error.code != 0;
}
