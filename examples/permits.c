/* Works as one of at most three processes, on any machines; the permit of a dead one comes back. */
#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

static int work(lk_permit_semaphore *downloads, lk_error *error)
{
	lk_permit permit;
	if (lk_permit_semaphore_acquire(downloads, 1, &permit, 10000, NULL, error))
		return error->code;
	puts("one of three");
	return lk_permit_semaphore_release(downloads, &permit, 1, error);
}

int main(void)
{
	lk_client *client = NULL;
	lk_permit_semaphore *downloads = NULL;
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	lk_error error = {0};
	options.permits = 3;
	options.ttl_ms = INT64_C(86400000); /* the counter goes when it was not used for a day */
	if (lk_client_open(&client, NULL, &error) ||
	    lk_permit_semaphore_new(&downloads, client, "downloads", LK_STRLEN, &options, &error) ||
	    work(downloads, &error))
		fprintf(stderr, "not done: %s\n", error.message);
	lk_permit_semaphore_free(downloads);
	lk_client_free(client);
	return error.code != 0;
}
