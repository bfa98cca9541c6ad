/*
 * Shares a lock with a Python program, which takes it with redis-py:
 *
 *	with redis.Redis().lock("newsletter", timeout=30):
 *		...
 */
#include <stdio.h>

#include <lockkeeper.h>

int main(void)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	lk_plain_lock_options options = LK_PLAIN_LOCK_OPTIONS_INIT;
	options.poll_ms = 50; /* redis-py sends no message when it releases */
	if (lk_client_open(&client, NULL, &error) ||
	    lk_plain_lock_new(&lock, client, "newsletter", LK_STRLEN, &options, &error) ||
	    lk_lock_acquire(lock, 10000, NULL, &error)) {
		fprintf(stderr, "no lock: %s\n", error.message);
	} else {
		puts("alone, in C and in Python");
		if (lk_lock_release(lock, NULL, &error))
			fprintf(stderr, "not alone to the end: %s\n", error.message);
	}
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
