#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
	pid_t pid, parent, group;
	char state; /* as in proc(5) */
	int below;  /* a descendant of the root */
};

struct table {
	struct process *rows;
	size_t count, room;
};

/* Reads "pid (name) state parent group …"; the name may hold anything, so its last ")" counts. */
static int process_read(int proc, const char *entry, struct process *process_out)
{
	char path[32], text[512];
	if (snprintf(path, sizeof(path), "%.20s/stat", entry) >= (int)sizeof(path))
		return -1;
	int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	const char *rest = strrchr(text, ')');
	if (!rest || sscanf(rest, ") %c %d %d", &process_out->state, &process_out->parent,
			    &process_out->group) != 3)
		return -1;
	process_out->pid = atoi(entry);
	process_out->below = 0;
	/* A zombie does nothing any more, and its children have been handed on. */
	return process_out->state == 'Z' || process_out->state == 'X' ? -1 : 0;
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

int tree_signal(pid_t root, pid_t group, int number)
{
	struct table table;
	int count = 0;
	if (table_fill(&table, root))
		return -1;
	for (size_t i = 0; i < table.count; i++) {
		const struct process *row = &table.rows[i];
		if (!row->below || (group > 0 && row->group != group))
			continue;
		count++;
		if (number)
			kill(row->pid, number);
	}
	free(table.rows);
	return count;
}

int tree_count(pid_t root)
{
	return tree_signal(root, 0, 0);
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
