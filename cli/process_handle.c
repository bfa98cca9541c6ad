/* SPDX-License-Identifier: MIT */
#include "process_handle.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Behind the name, in proc(5): the state (field 3), and the start (field 22). */
#define SKIP6 "%*s %*s %*s %*s %*s %*s "
#define STAT_FORMAT ") %c " SKIP6 SKIP6 SKIP6 "%" SCNu64

/* When it was started; 0 when it has ended, or cannot be seen. */
static uint64_t started_read(pid_t pid)
{
	char path[64], text[1024];
	uint64_t started = 0;
	char state = 'Z';
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	size_t used = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file)
		fclose(file);
	text[used] = '\0';
	const char *name_end = strrchr(text, ')'); /* the name may contain anything */
	if (!name_end || sscanf(name_end, STAT_FORMAT, &state, &started) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : started;
}

int process_handle_open(struct process_handle *process_out, pid_t pid)
{
	*process_out = (struct process_handle){.pid = pid};
	process_out->fd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
	int system_errno = process_out->fd < 0 ? errno : 0;
	process_out->started = started_read(pid);
	if (system_errno == ESRCH || (process_out->fd < 0 && !process_out->started))
		return ESRCH;
	return process_handle_lives(process_out) ? 0 : ESRCH;
}

void process_handle_close(struct process_handle *process)
{
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}

int process_handle_lives(const struct process_handle *process)
{
	struct pollfd ready = {process->fd, POLLIN, 0};
	if (process->fd >= 0)
		return poll(&ready, 1, 0) != 1;
	return started_read(process->pid) == process->started;
}

int process_handle_signal(const struct process_handle *process, int number)
{
	if (process->fd >= 0)
		return syscall(SYS_pidfd_send_signal, process->fd, number, NULL, 0) ? errno : 0;
	if (!process_handle_lives(process))
		return ESRCH;
	return kill(process->pid, number) ? errno : 0;
}

/* A set of signals in proc(5), such as SigIgn; 0 when it cannot be seen. */
static uint64_t signals_read(pid_t pid, const char *name)
{
	char path[64], line[256];
	uint64_t set = 0;
	size_t length = strlen(name);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			set = strtoull(line + length + 1, NULL, 16);
	if (file)
		fclose(file);
	return set;
}

int process_handle_ignores(const struct process_handle *process, int number)
{
	uint64_t signal = UINT64_C(1) << (number - 1);
	if (process->pid == 1)
		return !(signals_read(process->pid, "SigCgt") & signal);
	return (signals_read(process->pid, "SigIgn") & signal) != 0;
}
