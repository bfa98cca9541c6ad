/*
 * The processes below a process, by /proc: the only way to those that left the process group. A
 * subreaper (PR_SET_CHILD_SUBREAPER) keeps all its descendants below it, orphans too.
 *
 * What cannot be caught: a program that forks and ends, on purpose and without pause, faster than
 * /proc is read, each time in a new session. Only a cgroup or a pid namespace holds that.
 */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* Sends a signal to every living descendant of `root`, or, with `group` > 0, to those of that
 * process group. Returns how many there were; -1 when /proc cannot be read. */
int tree_signal(pid_t root, pid_t group, int number);

/* How many living descendants `root` has; -1 when /proc cannot be read. */
int tree_count(pid_t root);

/* The parent of a living process, or -1. */
pid_t tree_parent(pid_t pid);

/* 1 when the process is stopped by a signal, else 0. */
int tree_is_stopped(pid_t pid);

/* 1 when `pid` is a living descendant of `root`, else 0. */
int tree_contains(pid_t root, pid_t pid);

#endif
