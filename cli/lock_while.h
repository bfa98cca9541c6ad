/* SPDX-License-Identifier: MIT */
/*
 * lockkeeper lock --while: a process in the background that renews the lock while another one
 * lives, or until it is told to release it.
 *
 *   script ── lockkeeper lock ── keeper        the keeper takes the lock, as `lock` does
 *   script    (has ended)        keeper        and stays: in a session of its own, without the
 *                                              descriptors that it was started with
 *
 * - The first process waits for the keeper's word, prints the owner, and says that it is printed.
 *   Before that, its end (a signal, a kill) ends the keeper's wait, or has it give the lock back.
 * - The keeper watches the process by a descriptor, or by its start: never another one that gets
 *   its number. When that has ended, the keeper releases the lock and ends.
 * - `unlock` finds the keeper by a socket whose name has the owner in it, and has it release: so
 *   the keeper knows that the lock is not lost. Only the keeper's own user is heard.
 * - When the lease is about to end, or the lock is lost, the process is sent a signal, once. The
 *   keeper then stays to say so to `unlock`.
 * - A keeper that is told to end (SIGTERM, a shutdown) sends that signal too, and leaves the lock
 *   to its lease: nobody gets it while the process may still work.
 */
#ifndef CLI_LOCK_WHILE_H
#define CLI_LOCK_WHILE_H

#include <lockkeeper.h>
#include <lockkeeper/config.h>

#include "process_handle.h"

struct lock_while {
	struct process_handle watched;
	int signal;       /* for the process when the lock is lost */
	int needs_folder; /* a path is meant from the script's */
	int wire;         /* to the first process */
	int listener;     /* for `unlock` */
	int told;         /* the process was sent the signal */
	int lost;
	lk_event notice; /* the last one */
	char owner[LK_FIELD_SIZE];
};

/*
 * Forks. In the first process: 1, when the keeper is on its own or has failed, with the exit code;
 * in the keeper: 0. -1: neither is there, and the exit code says why.
 */
int while_split(struct lock_while *keeper, int *code_out);

/* Below: in the keeper. Has the owner printed and leaves the script: 0; or an exit code, and the
 * lock is to be given back. */
int while_hand(struct lock_while *keeper, lk_lock *lock);

/* Holds the lock as long as it should be. Returns when it is released, or left to its lease. */
void while_keep(struct lock_while *keeper, lk_client *client, lk_lock *lock, const char *name);

/* It ends: tells the first process the exit code, if that still waits. */
void while_end(struct lock_while *keeper, int code);

/* In `unlock`: has the keeper of that owner release. 1, with the exit code (said, as is a success
 * if `verbose`); 0: there is none here. */
int while_unlock(const char *name, const char *owner, int verbose, int *code_out);

/* Tells whether an option's path is meant from there: the library has it from the root, unless that
 * path would be too long, or the folder has none. */
int working_folder_needed(const lk_config *config);

#endif
