/* Writes a report under a fenced lock: a process that slept past its lease writes nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

static int report(lk_client *client, lk_lock *lock, const char *text, lk_error *error)
{
	uint64_t token;
	if (lk_lock_acquire(lock, 10000, NULL, error) || lk_lock_fence(lock, NULL, &token, error))
		return error->code;
	/* Time may pass here, more than the lease. The write itself checks the token. */
	int code = lk_fence_write(client, "report-text", LK_STRLEN, token, text, strlen(text), NULL,
				  NULL, error);
	lk_lock_release(lock, NULL, NULL); /* lost or not: the token has decided */
	if (code == 0)
		printf("written with token %" PRIu64 "\n", token);
	return code;
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	if (lk_client_open(&client, NULL, &error) ||
	    lk_fenced_lock_new(&lock, client, "report-lock", LK_STRLEN, NULL, &error) ||
	    report(client, lock, argc > 1 ? argv[1] : "all is well", &error))
		fprintf(stderr, "not written: %s\n", error.message);
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
