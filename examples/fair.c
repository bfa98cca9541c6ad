/*
 * One counter, many customers, each a process: first come, first served.
 *
 * usage: fair CUSTOMER
 */
#include <stdio.h>

#include <lockkeeper.h>

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};

	if (argc != 2) {
		fprintf(stderr, "usage: fair CUSTOMER\n");
		return 2;
	}
	if (lk_client_open(&client, NULL, &error) ||
	    lk_fair_lock_new(&lock, client, "counter", LK_STRLEN, &error) ||
	    lk_lock_acquire(lock, 60000, NULL, &error)) {
		fprintf(stderr, "not served: %s\n", error.message);
	} else {
		printf("%s is served\n", argv[1]);
		fflush(stdout);
		if (lk_lock_release(lock, NULL, &error))
			fprintf(stderr, "not alone to the end: %s\n", error.message);
	}
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
