/* A job that several hosts start by the clock: one of them does it, however quick it is. */
#include <stdio.h>

#include <lockkeeper.h>

static int work(lk_lock *lock, lk_error *error)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.keep_ms = 60000; /* the clocks of the hosts differ by less */
	int code = lk_lock_acquire(lock, 0, NULL, error);
	if (code == LK_EBUSY) {
		puts("somebody else does it, or has just done it");
		error->code = 0;
	}
	if (code)
		return error->code;
	puts("the report is made");
	return lk_lock_release(lock, &options, error); /* nobody gets it for a minute from here */
}

int main(void)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	if (lk_client_open(&client, NULL, &error) ||
	    lk_lock_new(&lock, client, "report", LK_STRLEN, &error) || work(lock, &error))
		fprintf(stderr, "not done: %s\n", error.message);
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
