/*
 * The end of a service: it takes nothing new, its work may end what it holds, and what is left
 * after the limit is named before it is given up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <lockkeeper.h>

#define SHOWN 16

static void say_what_is_held(lk_client *client)
{
	lk_held held[SHOWN] = {LK_HELD_INIT};
	struct timespec now;
	int count = lk_client_held(client, held, SHOWN, NULL);
	clock_gettime(CLOCK_BOOTTIME, &now);
	for (int i = 0; i < count && i < SHOWN; i++) {
		int64_t now_ms = now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
		printf("still held: %s \"%s\", since %" PRId64 " ms\n", held[i].kind, held[i].name,
		       now_ms - held[i].since_ns / 1000000);
	}
}

int main(void)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL, *other = NULL;
	lk_error error = {0};
	int failed = lk_client_open(&client, NULL, &error) ||
		     lk_lock_new(&lock, client, "job", LK_STRLEN, &error) ||
		     lk_lock_new(&other, client, "next job", LK_STRLEN, &error) ||
		     lk_lock_acquire(lock, 5000, NULL, &error);
	if (!failed && lk_client_drain(client, 100, NULL, &error) == LK_EHELD)
		say_what_is_held(client);
	if (!failed && lk_lock_acquire(other, 5000, NULL, &error) == LK_EDRAINING)
		puts("nothing new is taken");
	if (failed || lk_client_close(client, LK_CLOSE_RELEASE, &error)) {
		fprintf(stderr, "%s\n", error.message);
		failed = 1;
	}
	lk_lock_free(lock);
	lk_lock_free(other);
	lk_client_free(client);
	return failed;
}
