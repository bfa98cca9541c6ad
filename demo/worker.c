/* SPDX-License-Identifier: MIT */
/*
 * One of the processes that fight in the demo: takes the lock, adds 1 to a number in a shared file
 * in the slowest way there is, releases, and again, until SIGTERM.
 *
 * usage: worker FOLDER NUMBER locked|bare
 *
 * FOLDER/balance is the shared file: read, think, write. FOLDER/journal takes a line for every
 * entry and every exit ("<ns of CLOCK_MONOTONIC> <number> enter|leave"), by which demo.py judges
 * from outside. SIGUSR1: the next turn never ends; somebody has to kill the process.
 */
#include <lockkeeper.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static lk_cancel *cancel;
static volatile sig_atomic_t stopped, hang;

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
	lk_cancel_now(cancel);
}

static void on_hang(int number)
{
	(void)number;
	hang = 1;
}

static void think(long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&pause, NULL);
}

static void journal_write(int journal, int worker, const char *what)
{
	struct timespec now;
	char line[64];
	clock_gettime(CLOCK_MONOTONIC, &now);
	int size = snprintf(line, sizeof(line), "%lld %d %s\n",
			    (long long)now.tv_sec * 1000000000 + now.tv_nsec, worker, what);
	if (write(journal, line, (size_t)size) != size)
		_exit(1);
}

/* Reads the number, thinks, writes it back: whoever comes between is forgotten. */
static void balance_add_one(int balance, unsigned *seed)
{
	char text[16] = "";
	if (pread(balance, text, sizeof(text) - 1, 0) < 0)
		_exit(1);
	think(10 + rand_r(seed) % 40);
	int size = snprintf(text, sizeof(text), "%06ld\n", strtol(text, NULL, 10) + 1);
	if (pwrite(balance, text, (size_t)size, 0) != size)
		_exit(1);
}

static void turn(int balance, int journal, int worker, unsigned *seed)
{
	journal_write(journal, worker, "enter");
	while (hang)
		pause();
	balance_add_one(balance, seed);
	journal_write(journal, worker, "leave");
}

static int fail(const char *what, const lk_error *error)
{
	fprintf(stderr, "worker: %s: %s\n", what, error->message);
	return 1;
}

static int fight(lk_lock *lock, int balance, int journal, int worker)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_error error;
	unsigned seed = (unsigned)worker;

	options.cancel = cancel;
	while (!stopped) {
		if (lock && lk_lock_acquire(lock, -1, &options, &error))
			return stopped ? 0 : fail("acquire", &error);
		turn(balance, journal, worker, &seed);
		if (lock && lk_lock_release(lock, NULL, &error))
			return fail("release", &error);
		think(1 + rand_r(&seed) % 10);
	}
	return 0;
}

static int shared_open(const char *folder, const char *name, int flags)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error;

	if (argc != 4)
		return 2;
	if (lk_cancel_new(&cancel, &error))
		return fail("cancel", &error);
	signal(SIGTERM, on_stop);
	signal(SIGUSR1, on_hang);
	if (strcmp(argv[3], "locked") == 0 && (lk_client_open(&client, NULL, &error) ||
					       lk_lock_new(&lock, client, "balance", 7, &error)))
		return fail("open", &error);

	int result = fight(lock, shared_open(argv[1], "balance", O_RDWR),
			   shared_open(argv[1], "journal", O_WRONLY | O_APPEND), atoi(argv[2]));
	lk_lock_free(lock);
	lk_client_free(client);
	lk_cancel_free(cancel);
	return result;
}
