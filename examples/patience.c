/*
 * Waits for a lock, up to a limit or until Ctrl-C, and says how the wait ended.
 *
 * usage: patience NAME WAIT_MS
 *
 * lk_cancel_now() may be called in a signal handler. A cancel tells the truth: if the grant came
 * first, the call succeeds.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

static lk_cancel *cancel;

static void on_interrupt(int number)
{
	(void)number;
	lk_cancel_now(cancel);
}

static int report(int code, const lk_error *error)
{
	switch (code) {
	case 0:
		puts("granted");
		return 0;
	case LK_ETIMEDOUT:
	case LK_EBUSY:
		puts("somebody else has it");
		return 1;
	case LK_ECANCELLED:
		puts("cancelled");
		return 1;
	default:
		/* The server did not answer, or refused: that is not "held by another owner". */
		fprintf(stderr, "%s: %s\n", lk_error_name(code), error->message);
		return 2;
	}
}

int main(int argc, char **argv)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	char *end = NULL;
	int64_t wait_ms = argc == 3 ? strtoll(argv[2], &end, 10) : 0;
	int code;

	if (argc != 3 || end == argv[2] || *end) {
		fprintf(stderr, "usage: patience NAME WAIT_MS\n");
		return 2;
	}
	if ((code = lk_cancel_new(&cancel, &error)) == 0 &&
	    (code = lk_client_open(&client, NULL, &error)) == 0 &&
	    (code = lk_lock_new(&lock, client, argv[1], LK_STRLEN, &error)) == 0) {
		signal(SIGINT, on_interrupt);
		options.cancel = cancel;
		code = lk_lock_acquire(lock, wait_ms, &options, &error);
		if (code == 0)
			code = lk_lock_release(lock, NULL, &error);
	}
	lk_lock_free(lock);
	lk_client_free(client);
	lk_cancel_free(cancel);
	return report(code, &error);
}
