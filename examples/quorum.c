/* One lock on a majority of several servers: quorum URL URL URL … */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

static int work(lk_lock *lock, lk_error *error)
{
	int64_t left_ms = 0;
	int result = lk_lock_acquire(lock, 10000, NULL, error);
	if (result < 0)
		return result;
	lk_lock_remaining_ms(lock, NULL, &left_ms, NULL);
	printf("held, and certain for %" PRId64 " ms, renewed while a majority agrees\n", left_ms);
	return lk_lock_release(lock, NULL, error);
}

int main(int argc, char **argv)
{
	lk_error error = {0};
	lk_client *nodes[LK_RED_NODES_MAX] = {NULL};
	lk_lock *lock = NULL;
	int result = 0, count = argc - 1;
	if (count < LK_RED_NODES_MIN || count > LK_RED_NODES_MAX) {
		fprintf(stderr, "usage: quorum URL URL URL …\n");
		return 2;
	}
	for (int i = 0; result == 0 && i < count; i++)
		result = lk_client_open(&nodes[i], argv[i + 1], &error);
	if (result == 0)
		result = lk_red_lock_new(&lock, nodes, (size_t)count, "payroll", LK_STRLEN, NULL,
					 &error);
	if (result == 0)
		result = work(lock, &error);
	if (result < 0)
		fprintf(stderr, "quorum: %s\n", error.message);
	lk_lock_free(lock);
	for (int i = 0; i < count; i++)
		lk_client_free(nodes[i]);
	return result < 0;
}
