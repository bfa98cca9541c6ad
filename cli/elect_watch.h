/* SPDX-License-Identifier: MIT */
/*
 * The watch that `elect` keeps beside its keeper: on the progress of the command; and, in a thread,
 * on what the leader is asked to do, with a file that says that the candidate is there.
 *
 * The file has the line "candidate" or "leading TERM". It is written again each second while the
 * server answers, and removed when it does not; so one that is older than a few seconds says
 * nothing any more.
 */
#ifndef CLI_ELECT_WATCH_H
#define CLI_ELECT_WATCH_H

#include <pthread.h>

#include <lockkeeper.h>

struct keeper_election;

struct elect_watch {
	lk_election *candidate;
	lk_election *observer;
	lk_cancel *cancel;
	const struct keeper_election *election;
	struct timespec touched; /* when the progress file was last touched */
	int stop_fd;             /* readable: the thread is to end */
	int asked_fd;            /* readable: the leader was asked for something */
	pthread_t thread;
	pthread_mutex_t mutex;
	char asked[LK_FIELD_SIZE]; /* for what; under the mutex */
	_Atomic int leaving;       /* it is about to end, as somebody has said */
	int begun;
	int drains; /* it stands as one that is leaving */
};

/* Tells whether that file can be written, which may be NULL: 0, or EXIT_TROUBLE (said). */
int elect_watch_prepare(const char *ready_file);

/* Begins to look after this candidate, which lives on until elect_watch_end(). Does nothing if it
 * was begun before. 0, or EXIT_TROUBLE (said). */
int elect_watch_begin(struct elect_watch *watch, lk_client *client, const char *name,
		      lk_election *candidate, const struct keeper_election *election);
void elect_watch_end(struct elect_watch *watch);

/* Tells the library of progress if the file that shows it was touched since the last call. */
void elect_watch_progress(struct elect_watch *watch);

/* Returns 1 if the leader was asked for something, "resign" or an id; 0: nothing. */
int elect_watch_asked(struct elect_watch *watch, char asked_out[LK_FIELD_SIZE]);

/* Tells whether that names who is to lead. */
int elect_watch_names_one(const char *asked);

/* Checks the file of another process, and prints it: 0; 1, it says nothing (any more); or
 * EXIT_TROUBLE (said). */
int elect_watch_check(const char *ready_file);

#endif
