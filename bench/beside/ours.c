/* SPDX-License-Identifier: MIT */
/* Lockkeeper, with the kinds of kinds.h. Threads share one client, as in a program. */
#include <lockkeeper.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "kinds.h"
#include "turns.h"

#define NAMES_MAX 4096

struct session {
	const char *kind;
	lk_lock *locks[NAMES_MAX]; /* in the order in which they were taken first */
	char last[128];            /* the name of the newest of them */
	int count;
	lk_error error;
};

static lk_client *client;
static const char *client_url;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Passes on what the library tells, until the client is closed: never, here. */
static void *listen_main(void *argument)
{
	lk_event event = LK_EVENT_INIT;
	lk_error error;
	while (lk_event_wait(client, &event, -1, NULL, &error) == 1)
		turns_tell(event.type == LK_EVENT_AT_RISK ? "at risk"
			   : event.type == LK_EVENT_LOST  ? "lost"
							  : "abandoned");
	return argument;
}

static void open_client(void)
{
	lk_error error;
	pthread_t thread;
	if (lk_client_open(&client, client_url, &error))
		bench_die("%s", error.message);
	if (pthread_create(&thread, NULL, listen_main, NULL) || pthread_detach(thread))
		bench_die("no thread");
}

static void *ours_open(const char *url, const char *kind)
{
	struct session *session = calloc(1, sizeof(*session));
	if (!session)
		bench_die("out of memory");
	client_url = url;
	pthread_once(&once, open_client);
	session->kind = kind;
	return session;
}

/* A thread takes its one name again and again; `keep` takes each name once. */
static lk_lock *lock_of(struct session *session, const char *name)
{
	if (session->count && strcmp(session->last, name) == 0)
		return session->locks[session->count - 1];
	if (session->count == NAMES_MAX)
		bench_die("too many names");
	snprintf(session->last, sizeof(session->last), "%s", name);
	session->locks[session->count] = bench_lock(client, session->kind, name);
	return session->locks[session->count++];
}

static enum turns_outcome ours_lock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	*text = session->error.message;
	return lk_lock_acquire(lock_of(session, name), -1, NULL, &session->error) ? TURNS_FAILED
										  : TURNS_OK;
}

static enum turns_outcome ours_unlock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	*text = session->error.message;
	int code = lk_lock_release(lock_of(session, name), NULL, &session->error);
	return code == 0                                  ? TURNS_OK
	       : code == LK_ELOST || code == LK_ENOTOWNER ? TURNS_LOST
							  : TURNS_FAILED;
}

int main(int argc, char **argv)
{
	static const struct turns_lock lock = {ours_open, ours_lock, ours_unlock};
	return turns_main(argc, argv, &lock);
}
