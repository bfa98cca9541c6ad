/* Money goes from one account to another: both are locked, or none. */
#include <stdio.h>

#include <lockkeeper.h>

static int transfer(lk_client *client, const char *from, const char *to, lk_error *error)
{
	lk_lock *parts[2] = {NULL, NULL}, *both = NULL;
	int result = lk_lock_new(&parts[0], client, from, LK_STRLEN, error);
	if (result == 0)
		result = lk_lock_new(&parts[1], client, to, LK_STRLEN, error);
	if (result == 0)
		result = lk_multi_lock_new(&both, parts, 2, error);
	/* The order does not matter: another transfer may go the other way at this moment. */
	if (result == 0)
		result = lk_lock_acquire(both, 10000, NULL, error);
	if (result == 0) {
		printf("from %s to %s\n", from, to);
		result = lk_lock_release(both, NULL, error);
	}
	lk_lock_free(both);
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
	return result;
}

int main(int argc, char **argv)
{
	lk_error error = {0};
	lk_client *client = NULL;
	int result = lk_client_open(&client, argc > 1 ? argv[1] : NULL, &error);
	if (result == 0)
		result = transfer(client, "account:7", "account:9", &error);
	if (result == 0)
		result = transfer(client, "account:9", "account:7", &error);
	if (result < 0)
		fprintf(stderr, "many: %s\n", error.message);
	lk_client_free(client);
	return result < 0;
}
