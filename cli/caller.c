/* SPDX-License-Identifier: MIT */
/*
 * The parent; or where that is a part of a script (a subshell, a member of a pipeline), which ends
 * before the script does, the script's own process. A shell forks such a part and executes nothing,
 * so both have the same stack: the kernel puts it elsewhere for each program that is executed.
 */
#include "caller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "message.h"

#define PROGRAM_SIZE 256
#define DEPTH_MAX 16 /* of subshells */

/* Behind the name, in proc(5): the state, the parent (field 4), and startstack (field 28). */
#define SKIP4 "%*s %*s %*s %*s "
#define STAT_FORMAT ") %*c %d " SKIP4 SKIP4 SKIP4 SKIP4 SKIP4 "%*s %*s %*s %" SCNu64

struct process {
	int parent;
	uint64_t stack; /* 0: it is not told */
};

/* Reads a file of a process, at most `size` - 1 bytes and a NUL; how many bytes, 0 for none. */
static size_t file_read(pid_t pid, const char *leaf, char *text_out, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, leaf);
	FILE *file = fopen(path, "re");
	size_t used = file ? fread(text_out, 1, size - 1, file) : 0;
	if (file)
		fclose(file);
	text_out[used] = '\0';
	return used;
}

/* 0, or -1 when the process cannot be seen. */
static int process_read(pid_t pid, struct process *process_out)
{
	char text[1024];
	file_read(pid, "stat", text, sizeof(text));
	const char *name_end = strrchr(text, ')'); /* the name may contain anything */
	return name_end && sscanf(name_end, STAT_FORMAT, &process_out->parent,
				  &process_out->stack) == 2
		       ? 0
		       : -1;
}

pid_t caller_find(void)
{
	struct process process, parent;
	pid_t pid = getppid();
	if (pid <= 0 || process_read(pid, &process))
		return 0;
	for (int i = 0; i < DEPTH_MAX && process.parent > 0 && process.stack; i++) {
		if (process_read(process.parent, &parent) || parent.stack != process.stack)
			break;
		pid = process.parent;
		process = parent;
	}
	return pid;
}

/* Its name; with client_record=arguments its command line, words parted by blanks. */
static void program_read(pid_t pid, int arguments, char program_out[PROGRAM_SIZE])
{
	size_t size = file_read(pid, arguments ? "cmdline" : "comm", program_out, PROGRAM_SIZE);
	while (size > 0 && (program_out[size - 1] == '\0' || program_out[size - 1] == '\n'))
		program_out[--size] = '\0';
	for (size_t i = 0; i < size; i++)
		if (program_out[i] == '\0')
			program_out[i] = ' ';
}

int caller_record(lk_config *config, pid_t pid)
{
	char named[16], record[16], number[16], program[PROGRAM_SIZE];
	lk_error error = {0};
	if (lk_config_get(config, "client_pid", number, sizeof(number)) < 0 ||
	    lk_config_get(config, "client_program", named, sizeof(named)) < 0 ||
	    lk_config_get(config, "client_record", record, sizeof(record)) < 0)
		return trouble("the library has no option client_pid, _program or _record");
	if (pid == 0 || strcmp(number, "0") != 0 || *named != '\0')
		return 0;
	program_read(pid, strcmp(record, "arguments") == 0, program);
	snprintf(number, sizeof(number), "%d", (int)pid);
	return lk_config_set(config, "client_pid", number, &error) ||
			       lk_config_set(config, "client_program", program, &error)
		       ? trouble_library(&error)
		       : 0;
}
