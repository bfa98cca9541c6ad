/* SPDX-License-Identifier: MIT */
/*
 * The parent, unless that ends before the script does:
 *
 * - A part of the script (a subshell, a member of a pipeline). A shell forks it and executes
 *   nothing, so both have the same stack: the kernel puts it elsewhere for each program that is
 *   executed.
 * - A program that was given this command to run, and nothing else: `timeout 10 lockkeeper lock …`,
 *   which has the words of the command among its own; `sh -c 'lockkeeper lock …'`.
 *
 * Of one that was given more (`sh -c 'lockkeeper lock …; …'`) nobody can tell: it may be the
 * script, or a part of it.
 */
#include "caller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "message.h"

#define PROGRAM_SIZE 256
#define DEPTH_MAX 16 /* of subshells, and of programs that run a command */

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

/* The process that executed the program of this one, of which this may be a part; and the parent of
 * that. 0: it cannot be seen. */
static pid_t whole_find(pid_t pid, pid_t *parent_out)
{
	struct process process, parent;
	if (pid <= 0 || process_read(pid, &process))
		return 0;
	for (int i = 0; i < DEPTH_MAX && process.parent > 0 && process.stack; i++) {
		if (process_read(process.parent, &parent) || parent.stack != process.stack)
			break;
		pid = process.parent;
		process = parent;
	}
	*parent_out = process.parent;
	return pid;
}

/* The role of a process for this command, by its words. */
enum role { ROLE_SCRIPT, ROLE_RUNS_IT, ROLE_UNCLEAR, ROLE_HIDDEN };

static int is_this_program(const char *word)
{
	const char *slash = strrchr(word, '/');
	return strcmp(slash ? slash + 1 : word, program_invocation_short_name) == 0;
}

/* Judges the word: behind an option such as -c it may be a line of commands. */
static enum role word_judge(const char *word, int is_line)
{
	size_t length = strlen(program_invocation_short_name);
	const char *name = strstr(word, program_invocation_short_name);
	int runs_it = name && strncmp(name + length, " lock ", 6) == 0;
	if (runs_it && is_line && !strpbrk(word, ";&|(){}`\n"))
		return ROLE_RUNS_IT; /* and nothing behind it */
	return runs_it || strstr(word, "--while") ? ROLE_UNCLEAR : ROLE_SCRIPT;
}

static enum role role_find(pid_t pid)
{
	char path[64], *word = NULL;
	enum role role = ROLE_SCRIPT;
	size_t room = 0;
	int is_named = 0, is_line = 0; /* the word before is this program; is -c */
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return ROLE_HIDDEN;
	for (int i = 0; role != ROLE_RUNS_IT && getdelim(&word, &room, '\0', file) > 0; i++) {
		enum role judged = is_named && strcmp(word, "lock") == 0
					   ? ROLE_RUNS_IT
					   : word_judge(word, is_line);
		role = judged == ROLE_SCRIPT ? role : judged;
		is_named = i > 0 && is_this_program(word);
		is_line = word[0] == '-' && word[1] != '-' && word[strlen(word) - 1] == 'c';
	}
	free(word);
	fclose(file);
	return is_named && role == ROLE_SCRIPT ? ROLE_UNCLEAR : role;
}

/* Where the search ends, and how. 0: nobody can be seen. */
static pid_t script_find(enum role *role_out)
{
	pid_t parent = 0, pid = whole_find(getppid(), &parent);
	*role_out = pid ? role_find(pid) : ROLE_HIDDEN;
	for (int i = 0; i < DEPTH_MAX && *role_out == ROLE_RUNS_IT; i++) {
		pid = whole_find(parent, &parent);
		*role_out = pid ? role_find(pid) : ROLE_HIDDEN;
	}
	return pid;
}

pid_t caller_find(void)
{
	enum role role;
	return script_find(&role);
}

int caller_take(pid_t *pid_out)
{
	enum role role;
	char program[PROGRAM_SIZE];
	pid_t pid = script_find(&role);
	if (pid == 0 || role == ROLE_HIDDEN || (pid == 1 && getsid(1) != getsid(0)))
		return trouble("option --while: the calling process cannot be seen");
	if (role != ROLE_SCRIPT) {
		program_read(pid, 0, program);
		return trouble("option --while: caller cannot be told here: %s (process %d) was "
			       "given the command to run, and may end before the script does; name "
			       "a process, such as $$ of a shell",
			       program, (int)pid);
	}
	*pid_out = pid;
	return 0;
}

int caller_check(pid_t pid)
{
	if (pid != getpid() && role_find(pid) != ROLE_RUNS_IT)
		return 0;
	return trouble("option --while: process %d runs this command alone, and ends with it; name "
		       "the process that works under the lock",
		       (int)pid);
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
