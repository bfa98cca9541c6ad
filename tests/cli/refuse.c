/* Runs a program under a filter that refuses some system calls, as containers and units do:
 *
 *     refuse ERRNO NAME… -- PROGRAM [ARG…]
 *
 * With "kill" for ERRNO the first of these calls is the program's end, as SIGKILL would be.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 16

static const struct {
	const char *name;
	unsigned number;
} calls[] = {
	{"close_range", SYS_close_range},
	{"pidfd_open", SYS_pidfd_open},
	{"pidfd_send_signal", SYS_pidfd_send_signal},
	{"signalfd4", SYS_signalfd4},
	{"timerfd_create", SYS_timerfd_create},
	{"eventfd2", SYS_eventfd2},
	{"epoll_create1", SYS_epoll_create1},
	{"getrandom", SYS_getrandom},
	{"ftruncate", SYS_ftruncate},
	{"fsync", SYS_fsync},
	{"renameat", SYS_renameat},
	{"write", SYS_write},
};

static unsigned number_of(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	fprintf(stderr, "refuse: %s is not known\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	struct sock_filter filter[2 * CALLS_MAX + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	unsigned short size = 1;
	int at = 2;
	unsigned action = SECCOMP_RET_KILL_PROCESS;
	if (argc > 1 && strcmp(argv[1], "kill") != 0)
		action = SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1]);
	for (; at < argc && strcmp(argv[at], "--") != 0 && at < CALLS_MAX; at++) {
		filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							      number_of(argv[at]), 0, 1);
		filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {size, filter};
	if (at + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("refuse");
		return 77;
	}
	execv(argv[at + 1], argv + at + 1);
	perror(argv[at + 1]);
	return 1;
}
