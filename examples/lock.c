#include <stdio.h>

#include <lockkeeper.h>

int main(void)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};

	if (lk_client_open(&client, NULL, &error) || /* NULL: what LOCKKEEPER_URL says */
	    lk_lock_new(&lock, client, "backup", LK_STRLEN, &error) ||
	    lk_lock_acquire(lock, 10000, NULL, &error)) {
		fprintf(stderr, "no lock: %s\n", error.message);
	} else {
		puts("alone at work"); /* a lease of 30 s, renewed until the release */
		if (lk_lock_release(lock, NULL, &error))
			fprintf(stderr, "not alone to the end: %s\n", error.message);
	}
	lk_lock_free(lock);
	lk_client_free(client);
	return error.code != 0;
}
