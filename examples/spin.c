/* Counts a visit, under a lock that sends no messages; waits without a subscription. */
#include <stdio.h>

#include <lockkeeper.h>

int main(void)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	lk_spin_lock_options options = LK_SPIN_LOCK_OPTIONS_INIT;
	options.spin_min_ms = 2;  /* then 4, 8, … */
	options.spin_max_ms = 50; /* each shortened at random by up to a half */
	if (lk_client_open(&client, NULL, &error) ||
	    lk_spin_lock_new(&lock, client, "visits", LK_STRLEN, &options, &error) ||
	    lk_lock_acquire(lock, 10000, NULL, &error)) {
		fprintf(stderr, "no lock: %s\n", error.message);
	} else {
		puts("alone for a moment");
		if (lk_lock_release(lock, NULL, &error))
			fprintf(stderr, "not alone to the end: %s\n", error.message);
	}
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
