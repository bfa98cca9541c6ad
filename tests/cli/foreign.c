/* Set-user-ID root in a test: becomes another user altogether, as sudo does, then runs a command;
 * or, with `--thread SECONDS`, ends its main thread and goes on in another. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *work(void *seconds)
{
	sleep((unsigned)atoi(seconds));
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc == 3 && strcmp(argv[1], "--thread") == 0) {
		if (pthread_create(&thread, NULL, work, argv[2]))
			return 1;
		pthread_exit(NULL);
	}
	if (argc < 2 || setresgid(0, 0, 0) || setresuid(0, 0, 0)) {
		perror("foreign");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
