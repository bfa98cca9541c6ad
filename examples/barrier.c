/*
 * Three parts of a job go on together, step by step; here the parts are threads, elsewhere
 * machines. None begins a step before all have ended the one before. The one that dies is missed:
 * the others wait for its replacement, or until their limit.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include <lockkeeper.h>

#define PARTS 3
#define STEPS 3

static void *part(void *client)
{
	lk_barrier *barrier = NULL; /* each part has a handle of its own */
	lk_error error = {0};
	uint64_t generation = 0;
	int code = lk_barrier_new(&barrier, client, "step", LK_STRLEN, PARTS, NULL, &error);
	for (int step = 0; code == 0 && step < STEPS; step++) {
		/* … the part's work in this step … */
		code = lk_barrier_await(barrier, 10000, NULL, &generation, &error);
		if (code == 0)
			printf("all have ended step %d: generation %" PRIu64 "\n", step,
			       generation);
	}
	if (code)
		fprintf(stderr, "not met: %s\n", error.message);
	lk_barrier_free(barrier);
	return NULL;
}

int main(void)
{
	pthread_t threads[PARTS];
	lk_client *client = NULL;
	lk_error error = {0};
	int begun = 0;
	if (lk_client_open(&client, NULL, &error)) {
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	while (begun < PARTS && !pthread_create(&threads[begun], NULL, part, client))
		begun++;
	while (begun > 0)
		pthread_join(threads[--begun], NULL);
	lk_client_free(client);
	return 0;
}
