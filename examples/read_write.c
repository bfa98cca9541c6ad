/*
 * A price list: many read, one changes it. The one that changed it goes on reading, and admits
 * other readers at once, before anybody can change it again.
 *
 * usage: read_write
 */
#include <stdio.h>

#include <lockkeeper.h>

static int change_then_look(lk_lock *reading, lk_lock *writing, lk_error *error)
{
	if (lk_lock_acquire(writing, 60000, NULL, error))
		return error->code;
	printf("changed, alone\n");
	int rc = lk_lock_acquire(reading, -1, NULL,
				 error); /* does not wait: we hold the write side */
	if (lk_lock_release(writing, NULL, rc ? NULL : error) && !rc)
		rc = error->code; /* we did not hold it to the end */
	if (rc)
		return rc;
	printf("looking, beside others\n");
	return lk_lock_release(reading, NULL, error);
}

int main(void)
{
	lk_read_write_options options = LK_READ_WRITE_OPTIONS_INIT;
	lk_client *client = NULL;
	lk_lock *reading = NULL, *writing = NULL;
	lk_error error = {0};

	options.prefer_writers = 1; /* changes are rare, and must not wait for ever */
	if (lk_client_open(&client, NULL, &error) ||
	    lk_read_lock_new(&reading, client, "prices", LK_STRLEN, &options, &error) ||
	    lk_write_lock_new(&writing, client, "prices", LK_STRLEN, &options, &error) ||
	    change_then_look(reading, writing, &error))
		fprintf(stderr, "not to the end: %s\n", error.message);
	lk_lock_free(reading);
	lk_lock_free(writing);
	lk_client_free(client);
	return error.code != 0;
}
