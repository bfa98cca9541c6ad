/* SPDX-License-Identifier: MIT */
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
#include <stdint.h>
#include <sys/types.h>

/* The processes that we may not signal, because they run as another user. */
struct tree_denied {
	int count;
	pid_t pid; /* one of them; 0: there is none */
};

/* 1 when /proc shows this process under its own number, else 0. */
int tree_is_readable(void);

/* Sends a signal to every living descendant of `root`, or, with `group` > 0, to those of that
 * process group. Returns how many there were; -1 when /proc cannot be read. `denied_out` may be
 * NULL. */
int tree_signal(pid_t root, pid_t group, int number, struct tree_denied *denied_out);

/* The parent of a living process, or -1. */
pid_t tree_parent(pid_t pid);

/* 1 when the process is stopped by a signal, else 0. */
int tree_is_stopped(pid_t pid);

/* The user that a process runs as, or (uid_t)-1. */
uid_t tree_user(pid_t pid);

/* 1 when `pid` is a living descendant of `root`, else 0. */
int tree_contains(pid_t root, pid_t pid);

/*
 * Ending all descendants by rounds of SIGKILL: how long to pause between two rounds, and the truth
 * about those that cannot be ended, because they run as another user (a set-user-ID program, sudo).
 */
struct kill_rounds {
	int64_t began_ns;
	int64_t pause_ns; /* until the next round */
	int left;         /* all that still lives cannot be ended */
	pid_t pid;        /* one of these; 0: /proc does not show it */
	int unseen;       /* rounds on end that found nobody */
	int said;
};

/* Before the first round. */
void kill_rounds_begin(struct kill_rounds *rounds);

/* Judges one round: how many processes it found, and which it might not signal. Zombies are reaped
 * between two rounds; the rounds end when no child is left. */
void kill_rounds_judge(struct kill_rounds *rounds, int living, const struct tree_denied *denied);

/* Says once what is left, which keeps the lock. */
void kill_rounds_say(struct kill_rounds *rounds);

/* Says that what is left goes on without the lock. */
void kill_rounds_give_up(const struct kill_rounds *rounds);

#endif
