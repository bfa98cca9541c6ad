/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "clock.h"
#include "message.h"

struct process {
	pid_t pid, parent, group;
	char state; /* as in proc(5) */
	int below;  /* a descendant of the root */
};

struct table {
	struct process *rows;
	size_t count, room;
};

struct stat_line {
	char state;
	int parent, group, threads;
};

/* Reads "pid (name) state parent group …"; the name may hold anything, so its last ")" counts. */
static int stat_read(int proc, const char *path, struct stat_line *line_out)
{
	char text[512];
	int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	const char *rest = strrchr(text, ')');
	return rest && sscanf(rest,
			      ") %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
			      "%*d %*d %d",
			      &line_out->state, &line_out->parent, &line_out->group,
			      &line_out->threads) == 4
		       ? 0
		       : -1;
}

/* 'X' and 'x' are dead, 'Z' is dead but for its exit status. */
static int is_dead(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

/* The state of a process whose main thread has ended: that of a living thread, or 'Z'. */
static char threads_state(int proc, const char *entry)
{
	char path[64], state = 'Z';
	struct stat_line line;
	snprintf(path, sizeof(path), "%.20s/task", entry);
	int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *task;
	if (fd >= 0 && !folder)
		close(fd);
	while (folder && is_dead(state) && (task = readdir(folder)) != NULL) {
		snprintf(path, sizeof(path), "%.20s/task/%.20s/stat", entry, task->d_name);
		if (task->d_name[0] != '.' && stat_read(proc, path, &line) == 0)
			state = line.state;
	}
	if (folder)
		closedir(folder);
	return state;
}

/* Reads a process that lives; a zombie does nothing any more, and its children have been handed
 * on, unless other threads of it go on. */
static int process_read(int proc, const char *entry, struct process *process_out)
{
	char path[32];
	struct stat_line line;
	snprintf(path, sizeof(path), "%.20s/stat", entry);
	if (stat_read(proc, path, &line))
		return -1;
	if (line.state == 'Z' && line.threads > 1)
		line.state = threads_state(proc, entry);
	*process_out = (struct process){atoi(entry), line.parent, line.group, line.state, 0};
	return is_dead(line.state) ? -1 : 0;
}

static int table_append(struct table *table, const struct process *process)
{
	if (table->count == table->room) {
		size_t room = table->room ? 2 * table->room : 512;
		struct process *rows = realloc(table->rows, room * sizeof(*rows));
		if (!rows)
			return -1;
		table->rows = rows;
		table->room = room;
	}
	table->rows[table->count++] = *process;
	return 0;
}

static int table_read(struct table *table)
{
	struct process process;
	DIR *folder = opendir("/proc");
	if (!folder)
		return -1;
	int failed = 0;
	const struct dirent *entry;
	while (!failed && (entry = readdir(folder)) != NULL) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		if (process_read(dirfd(folder), entry->d_name, &process) == 0)
			failed = table_append(table, &process);
	}
	closedir(folder);
	return failed;
}

static int process_compare(const void *left, const void *right)
{
	const struct process *a = left, *b = right;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

static int is_below(const struct table *table, pid_t pid)
{
	struct process key = {.pid = pid};
	const struct process *found = bsearch(&key, table->rows, table->count, sizeof(*table->rows),
					      process_compare);
	return found && found->below;
}

/* Marks the descendants; as many passes as the tree is deep, for numbers may have wrapped. */
static void table_mark(struct table *table, pid_t root)
{
	int found = 1;
	qsort(table->rows, table->count, sizeof(*table->rows), process_compare);
	while (found) {
		found = 0;
		for (size_t i = 0; i < table->count; i++) {
			struct process *row = &table->rows[i];
			if (row->below || (row->parent != root && !is_below(table, row->parent)))
				continue;
			row->below = 1;
			found = 1;
		}
	}
}

/* Reads all processes and marks those below `root`; 0, or -1 with an empty table. */
static int table_fill(struct table *table, pid_t root)
{
	*table = (struct table){NULL, 0, 0};
	if (table_read(table) || table->count == 0) {
		free(table->rows);
		*table = (struct table){NULL, 0, 0};
		return -1;
	}
	table_mark(table, root);
	return 0;
}

int tree_signal(pid_t root, pid_t group, int number, struct tree_denied *denied_out)
{
	struct table table;
	struct tree_denied denied = {0, 0};
	int count = 0;
	if (table_fill(&table, root))
		return -1;
	for (size_t i = 0; i < table.count; i++) {
		const struct process *row = &table.rows[i];
		if (!row->below || (group > 0 && row->group != group))
			continue;
		count++;
		if (kill(row->pid, number) && errno == EPERM)
			denied = (struct tree_denied){denied.count + 1, row->pid};
	}
	free(table.rows);
	if (denied_out)
		*denied_out = denied;
	return count;
}

int tree_contains(pid_t root, pid_t pid)
{
	struct table table;
	if (table_fill(&table, root))
		return 0;
	int found = is_below(&table, pid);
	free(table.rows);
	return found;
}

static int process_find(pid_t pid, struct process *process_out)
{
	char entry[16];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -1;
	snprintf(entry, sizeof(entry), "%d", (int)pid);
	int result = process_read(proc, entry, process_out);
	close(proc);
	return result;
}

pid_t tree_parent(pid_t pid)
{
	struct process process;
	return process_find(pid, &process) ? -1 : process.parent;
}

int tree_is_stopped(pid_t pid)
{
	struct process process;
	return process_find(pid, &process) == 0 && process.state == 'T';
}

int tree_is_readable(void)
{
	char self[16] = "", pid[16];
	struct process process;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && strcmp(self, pid) == 0 &&
	       process_find(getpid(), &process) == 0;
}

uid_t tree_user(pid_t pid)
{
	char path[32], line[256];
	unsigned effective = (unsigned)-1;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "Uid: %*u %u", &effective) == 1)
			break;
	}
	if (status)
		fclose(status);
	return effective;
}

/* ---- rounds of SIGKILL ---- */

#define PAUSE_MIN_NS (2 * NS_PER_MS)
#define PAUSE_MAX_NS (1000 * NS_PER_MS)

/* After this many rounds, a child that /proc does not show is hidden (hidepid): a child that just
 * ended would have been reaped before the next round. */
#define HIDDEN_ROUNDS 50

void kill_rounds_begin(struct kill_rounds *rounds)
{
	*rounds = (struct kill_rounds){.began_ns = clock_now_ns(), .pause_ns = PAUSE_MIN_NS};
}

/* "process 7 of user root" */
static const char *left_text(const struct kill_rounds *rounds, char *text, size_t size)
{
	uid_t user = rounds->pid ? tree_user(rounds->pid) : (uid_t)-1;
	const struct passwd *entry = user == (uid_t)-1 ? NULL : getpwuid(user);
	if (rounds->pid == 0)
		snprintf(text, size, "a process that /proc does not show");
	else if (entry)
		snprintf(text, size, "process %d of user %s", (int)rounds->pid, entry->pw_name);
	else
		snprintf(text, size, "process %d of another user", (int)rounds->pid);
	return text;
}

void kill_rounds_judge(struct kill_rounds *rounds, int living, const struct tree_denied *denied)
{
	int64_t spent_ns = clock_now_ns() - rounds->began_ns;
	rounds->unseen = living == 0 ? rounds->unseen + 1 : 0;
	rounds->left = living > 0 ? denied->count == living : rounds->unseen > HIDDEN_ROUNDS;
	rounds->pid = rounds->left ? denied->pid : 0;
	rounds->pause_ns = rounds->left ? spent_ns / 8 : PAUSE_MIN_NS;
	if (rounds->pause_ns < PAUSE_MIN_NS)
		rounds->pause_ns = PAUSE_MIN_NS;
	if (rounds->pause_ns > PAUSE_MAX_NS)
		rounds->pause_ns = PAUSE_MAX_NS;
}

void kill_rounds_say(struct kill_rounds *rounds)
{
	char text[128];
	if (rounds->said)
		return;
	rounds->said = 1;
	message("this user cannot end %s; lockkeeper keeps the lock while it runs and the "
		"server answers",
		left_text(rounds, text, sizeof(text)));
}

void kill_rounds_give_up(const struct kill_rounds *rounds)
{
	char text[128];
	message("could not end %s; it continues without the lock",
		left_text(rounds, text, sizeof(text)));
}
