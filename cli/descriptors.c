/* SPDX-License-Identifier: MIT */
#include "descriptors.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockkeeper.h>

#include "message.h"

/* A client has up to 12: connections, and what wakes its threads. Some for /proc. */
#define EACH_CLIENT 12
#define SPARE 4

#define DESCRIPTORS_USUAL 65536

#define CHECK_MAX (EACH_CLIENT * LK_RED_NODES_MAX + SPARE)

void descriptors_raise(struct rlimit *saved_out)
{
	struct rlimit raised;
	if (getrlimit(RLIMIT_NOFILE, saved_out))
		*saved_out = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
	raised = (struct rlimit){saved_out->rlim_max, saved_out->rlim_max};
	setrlimit(RLIMIT_NOFILE, &raised); /* descriptors_check() tells whether there are enough */
}

/* By making them, because the limit does not tell how many are open. Stdin is open: see main.c. */
int descriptors_check(size_t servers)
{
	int opened[CHECK_MAX];
	size_t needed = EACH_CLIENT * servers + SPARE, count = 0;
	while (count < needed) {
		opened[count] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
		if (opened[count] < 0)
			break;
		count++;
	}
	int failed = count < needed;
	for (size_t i = 0; i < count; i++)
		close(opened[i]);
	return failed ? trouble("too few descriptors: %zu are free, %zu are needed (ulimit -n)",
				count, needed)
		      : 0;
}

/* An old kernel lacks close_range(), and a filter may refuse it. Then one by one, as far as they
 * are likely to go: a copy that stays open in a server keeps a pipe open for ever. */
void descriptors_close(unsigned first, unsigned last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	for (unsigned fd = first; fd <= last && fd < DESCRIPTORS_USUAL; fd++)
		close((int)fd);
}
