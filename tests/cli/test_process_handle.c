/* A process that is watched, also by a kernel without pidfd_open(). */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "waiting.h"
#include "../../cli/process_handle.h"

static int has_pidfd;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long words[4];
	va_list arguments;
	va_start(arguments, number);
	for (int i = 0; i < 4; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_pidfd_open && !has_pidfd) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(number, words[0], words[1], words[2], words[3]);
}

static pid_t start_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	check(pid > 0);
	return pid;
}

/* A zombie is not alive, nor is what has ended; and a signal reaches nobody then. */
static void watch(void)
{
	struct process_handle process;
	pid_t pid = start_child();
	check_int(process_handle_open(&process, pid), ==, 0);
	check(process_handle_lives(&process));
	check((process.fd >= 0) == has_pidfd);
	check_int(process_handle_signal(&process, SIGTERM), ==, 0);
	wait_until(!process_handle_lives(&process), 10000);
	check_int(waitpid(pid, NULL, 0), ==, pid);
	check(!process_handle_lives(&process));
	check_int(process_handle_signal(&process, SIGTERM), ==, ESRCH);
	check_int(process_handle_open(&process, pid), ==, ESRCH);
	process_handle_close(&process);
}

static void test_by_a_descriptor(void **state)
{
	has_pidfd = 1;
	watch();
}

static void test_by_its_start(void **state)
{
	has_pidfd = 0;
	watch();
}

/* Another process that has the number now. */
static void test_a_number_that_is_used_again(void **state)
{
	struct process_handle process;
	has_pidfd = 0;
	check_int(process_handle_open(&process, getpid()), ==, 0);
	check(process_handle_lives(&process));
	process.started--;
	check(!process_handle_lives(&process));
	check_int(process_handle_signal(&process, SIGKILL), ==, ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_a_descriptor),
		cmocka_unit_test(test_by_its_start),
		cmocka_unit_test(test_a_number_that_is_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
