/* SPDX-License-Identifier: MIT */
#include "elect_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "exit_code.h"
#include "keeper.h"
#include "message.h"

#define LOOK_MS 1000
#define FRESH_S 5 /* an older file says nothing */

/* ---- the file ---- */

#define READY_PATH_SIZE 4096

/* Where it is written before it has its name; 0: that is too long. */
static int ready_path(const char *ready_file, char path_out[READY_PATH_SIZE])
{
	errno = ENAMETOOLONG;
	return snprintf(path_out, READY_PATH_SIZE, "%s.new", ready_file) < READY_PATH_SIZE;
}

static void ready_write(const struct elect_watch *watch)
{
	char path[READY_PATH_SIZE], line[64] = "candidate";
	uint64_t term;
	if (lk_election_term(watch->candidate, &term, NULL) == 0)
		snprintf(line, sizeof(line), "leading %" PRIu64, term);
	if (!ready_path(watch->election->ready_file, path))
		return;
	FILE *file = fopen(path, "w");
	if (!file)
		return;
	fprintf(file, "%s\n", line);
	if (fclose(file) != 0 || rename(path, watch->election->ready_file) != 0)
		unlink(path);
}

int elect_watch_prepare(const char *ready_file)
{
	char path[READY_PATH_SIZE];
	if (!ready_file)
		return 0;
	FILE *file = ready_path(ready_file, path) ? fopen(path, "w") : NULL;
	if (!file)
		return trouble_errno(errno, "cannot write %s", ready_file);
	fclose(file);
	unlink(path);
	return 0;
}

static void ready_update(const struct elect_watch *watch)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	if (lk_election_leader(watch->observer, &leader, NULL) == 0)
		ready_write(watch);
	else
		unlink(watch->election->ready_file);
}

int elect_watch_check(const char *ready_file)
{
	struct stat status;
	char line[64] = "";
	FILE *file = fopen(ready_file, "r");
	if (!file && errno == ENOENT)
		return EXIT_VACANT;
	if (!file)
		return trouble_errno(errno, "cannot read %s", ready_file);
	int fresh = fstat(fileno(file), &status) == 0 && time(NULL) - status.st_mtime <= FRESH_S &&
		    fgets(line, sizeof(line), file);
	fclose(file);
	if (!fresh)
		return EXIT_VACANT;
	fputs(line, stdout);
	return output_finish();
}

/* ---- progress ---- */

void elect_watch_progress(struct elect_watch *watch)
{
	struct stat status;
	if (!watch->election || !watch->election->progress_file ||
	    stat(watch->election->progress_file, &status) != 0)
		return;
	struct timespec at = status.st_mtim, seen = watch->touched;
	if (at.tv_sec != seen.tv_sec || at.tv_nsec != seen.tv_nsec)
		lk_election_progress(watch->candidate, NULL);
	watch->touched = at;
}

/* ---- what it is asked ---- */

static void asked_take(struct elect_watch *watch, const lk_leader *leader)
{
	uint64_t term;
	if (!*leader->asked || leader->vacant ||
	    lk_election_term(watch->candidate, &term, NULL) != 0 || term != leader->term)
		return;
	if (strncmp(leader->asked, "leav", 4) == 0)
		atomic_store(&watch->leaving, 1);
	if (strcmp(leader->asked, "leaving") == 0)
		return; /* until another waits */
	pthread_mutex_lock(&watch->mutex);
	snprintf(watch->asked, sizeof(watch->asked), "%s", leader->asked);
	pthread_mutex_unlock(&watch->mutex);
	eventfd_write(watch->asked_fd, 1);
}

int elect_watch_names_one(const char *asked)
{
	return *asked && strcmp(asked, "resign") != 0 && strcmp(asked, "leave") != 0;
}

int elect_watch_asked(struct elect_watch *watch, char asked_out[LK_FIELD_SIZE])
{
	eventfd_t count;
	if (!watch->begun || eventfd_read(watch->asked_fd, &count) != 0)
		return 0;
	pthread_mutex_lock(&watch->mutex);
	memcpy(asked_out, watch->asked, LK_FIELD_SIZE);
	pthread_mutex_unlock(&watch->mutex);
	return 1;
}

/* ---- the drain ---- */

/* The leader of that moment makes way for the first other candidate. A question that fails is put
 * again. */
static void drain_obey(struct elect_watch *watch)
{
	struct keeper_drain *drain = watch->election->drain;
	if (!drain)
		return;
	atomic_store(&drain->leads, lk_election_is_leading(watch->candidate, NULL));
	if (atomic_load(&drain->wanted) && !watch->drains)
		watch->drains = lk_election_set_standing(watch->candidate,
							 watch->election->priority,
							 LK_STAND_LEAVING, NULL) == 0;
}

/* ---- the thread ---- */

/* Only the leader observes: each change would make all who wait look. */
static void watch_turn(struct elect_watch *watch)
{
	lk_leader leader = {.struct_size = sizeof(leader)};
	struct pollfd stop = {watch->stop_fd, POLLIN, 0};
	if (!lk_election_is_leading(watch->candidate, NULL))
		poll(&stop, 1, LOOK_MS);
	else if (lk_election_observe(watch->observer, LOOK_MS, watch->cancel, &leader, NULL) == 1)
		asked_take(watch, &leader);
	else
		poll(&stop, 1, 10); /* it may have failed at once */
}

static void *watch_run(void *argument)
{
	struct elect_watch *watch = argument;
	struct pollfd stop = {watch->stop_fd, POLLIN, 0};
	while (poll(&stop, 1, 0) == 0) {
		if (watch->election->ready_file)
			ready_update(watch);
		drain_obey(watch);
		watch_turn(watch);
	}
	return NULL;
}

static int watch_start(struct elect_watch *watch)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int failed = pthread_create(&watch->thread, NULL, watch_run, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	watch->begun = !failed;
	return failed ? trouble_errno(failed, "cannot start a thread") : 0;
}

int elect_watch_begin(struct elect_watch *watch, lk_client *client, const char *name,
		      lk_election *candidate, const struct keeper_election *election)
{
	lk_error error = {0};
	if (election->drain)
		atomic_store(&election->drain->leads, lk_election_is_leading(candidate, NULL));
	if (watch->begun)
		return 0;
	watch->candidate = candidate;
	watch->election = election;
	watch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->asked_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&watch->mutex, NULL);
	if (watch->stop_fd < 0 || watch->asked_fd < 0)
		return trouble_errno(errno, "cannot make an eventfd");
	if (lk_cancel_new(&watch->cancel, &error) ||
	    lk_election_new(&watch->observer, client, name, LK_STRLEN, NULL, &error))
		return trouble_library(&error);
	return watch_start(watch);
}

void elect_watch_end(struct elect_watch *watch)
{
	if (!watch->begun)
		return;
	eventfd_write(watch->stop_fd, 1);
	lk_cancel_now(watch->cancel);
	pthread_join(watch->thread, NULL);
	lk_election_free(watch->observer);
	lk_cancel_free(watch->cancel);
	close(watch->stop_fd);
	close(watch->asked_fd);
	watch->begun = 0;
}
