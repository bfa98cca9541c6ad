/*
 * One thread takes the lock, another releases it: the owner is not a thread but "job 7".
 *
 * usage: relay NAME
 */
#include <pthread.h>
#include <stdio.h>

#include <lockkeeper.h>

#define OWNER "job 7"

/* Returns NULL, or an error text. */
static void *second_half(void *argument)
{
	static char stolen[] = "a thread released what it does not own";
	static char stuck[] = "the owner could not release";
	lk_lock *lock = argument;
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_error error;

	/* Without the owner's name this thread holds nothing to release. */
	if (lk_lock_release(lock, NULL, &error) != LK_ENOTOWNER)
		return stolen;
	options.owner = OWNER;
	return lk_lock_release(lock, &options, &error) ? stuck : NULL;
}

static int first_half(lk_lock *lock, lk_error *error)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	pthread_t thread;
	void *complaint = NULL;

	options.owner = OWNER;
	if (lk_lock_acquire(lock, -1, &options, error))
		return 1;
	if (pthread_create(&thread, NULL, second_half, lock) || pthread_join(thread, &complaint))
		return 1;
	puts(complaint ? (const char *)complaint : "handed over and released");
	return complaint != NULL;
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	int result = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: relay NAME\n");
		return 2;
	}
	if (lk_client_open(&client, NULL, &error) == 0 &&
	    lk_lock_new(&lock, client, argv[1], LK_STRLEN, &error) == 0)
		result = first_half(lock, &error);
	if (error.code)
		fprintf(stderr, "%s\n", error.message);
	lk_lock_free(lock);
	lk_client_free(client);
	return result;
}
