/* SPDX-License-Identifier: MIT */
/* lockkeeper wait: returns when a lock is free, without taking it. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "commands.h"
#include "connect.h"
#include "exit_code.h"
#include "message.h"
#include "report.h"
#include "session.h"

/* Between two looks, where nobody tells: at first, and at most. */
#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 250

/* How long a server that answered once may be silent. */
#define SILENCE_MS INT64_C(30000)

const struct option_row wait_options[] = {
	{'n', "nonblock", NULL, "fail if the lock is held, instead of waiting"},
	{'w', "wait", "WAIT", "wait at most this long"},
	SEVERAL_ROW,
	WAIT_STATUS_ROWS("the command"),
	{0, NULL, NULL, NULL},
};

struct wait_state {
	int64_t wait_ms; /* -1: no limit */
	int limits;      /* -n or -w was given */
};

static int wait_take(void *context, int id, const char *value)
{
	struct wait_state *state = context;
	if (state->limits++)
		return trouble("-n and -w exclude each other");
	if (id == 'w')
		return option_duration("-w", value, 0, LK_WAIT_MAX_MS, &state->wait_ms);
	state->wait_ms = 0;
	return 0;
}

/* Where one looks: one server tells the kind too, a majority of several whether it is held. Of one
 * server a watch tells when it is time to look again. */
struct place {
	lk_scan *scan;
	lk_watch *watch; /* NULL: not yet, or there is a quorum */
	lk_lock *quorum; /* or NULL */
	const char *name;
	const lk_config *config;
	lk_client *client;
};

static int place_make(struct place *place, const struct session *session, lk_error *error)
{
	*place = (struct place){
		.name = session->argv[0], .config = session->config, .client = session->client};
	if (session->count == 1)
		return lk_scan_new(&place->scan, session->client, NULL, error);
	return lk_red_lock_new(&place->quorum, session->clients, session->count, place->name,
			       strlen(place->name), NULL, error);
}

static void place_free(struct place *place)
{
	lk_watch_free(place->watch);
	lk_scan_free(place->scan);
	lk_lock_free(place->quorum);
}

/* 1: the lock is free, 0: it is held, or a negative error code. */
static int look(const struct place *place, lk_error *error)
{
	const char *name = place->name;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	int locked = 0;
	int result = place->quorum ? lk_lock_is_locked(place->quorum, &locked, error)
				   : lk_scan_show(place->scan, name, strlen(name), &info, error);
	if (place->quorum)
		return result < 0 ? result : !locked;
	if (result)
		return result;
	if (info.is_counter || strcmp(info.type, "foreign semaphore") == 0) {
		error->code = LK_EWRONGTYPE;
		snprintf(error->message, sizeof(error->message),
			 "wait: %.100s is a %s, not a lock%s", name, info.type,
			 strstr(info.type, "latch") ? " (lockkeeper latch wait waits for a latch)"
						    : "");
		return LK_EWRONGTYPE;
	}
	return info.holder_count == 0;
}

static int64_t since_ms(int64_t began_ns)
{
	return (clock_now_ns() - began_ns) / NS_PER_MS;
}

/* Tells whether it is worth while to look again after a failure: a limit covers what may pass. */
static int failure_passes(const struct place *place, int result, int64_t wait_ms, int64_t heard_ns)
{
	if (result == LK_EREFUSED) /* what passes of these concerns writes alone */
		return 0;
	if (wait_ms < 0)
		return lk_error_is_retryable(result) && heard_ns != 0 &&
		       since_ms(heard_ns) <= SILENCE_MS;
	return trouble_passes(place->config, result);
}

/* Where the server tells of changes it is asked nothing more. A gap is what it did not tell. */
static int watch_open(struct place *place)
{
	lk_watch_options options = LK_WATCH_OPTIONS_INIT;
	options.poll_ms = PAUSE_MAX_MS;
	if (place->watch || place->quorum)
		return place->watch != NULL;
	if (lk_watch_new(&place->watch, place->client, &options, NULL) ||
	    lk_watch_add(place->watch, place->name, strlen(place->name), NULL))
		place->watch = lk_watch_free(place->watch);
	return place->watch != NULL;
}

/* Sleeps until it is time to look again: the watch says that the lock is free, or can say nothing
 * of it; or without a watch for the pause. */
static void held_sleep(struct place *place, int64_t left_ms, int pause_ms)
{
	int64_t end_ns = clock_now_ns() + left_ms * NS_PER_MS;
	int told = watch_open(place);
	while (told) {
		lk_change change = LK_CHANGE_INIT;
		int64_t now_ns = clock_now_ns();
		if (left_ms >= 0)
			left_ms = now_ns < end_ns ? (end_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS
						  : 0;
		told = lk_watch_next(place->watch, left_ms, NULL, &change, NULL);
		if (told == 0 || (told == 1 && change.holder_count == 0))
			return;
		told = told == 1 && change.kind != LK_CHANGE_GAP;
	}
	poll(NULL, 0, left_ms >= 0 && left_ms < pause_ms ? (int)left_ms : pause_ms);
}

/* The last look: the lock is free, the time is up, or waiting cannot help. */
static int wait_free(struct place *place, int64_t wait_ms, lk_error *error)
{
	int64_t began_ns = clock_now_ns(), heard_ns = 0;
	int result;
	for (int pause_ms = PAUSE_MIN_MS; (result = look(place, error)) != 1;) {
		if (result < 0 && !failure_passes(place, result, wait_ms, heard_ns))
			return result;
		int64_t left_ms = wait_ms < 0 ? -1 : wait_ms - since_ms(began_ns);
		if (wait_ms >= 0 && left_ms <= 0)
			return result;
		if (result == 0) {
			held_sleep(place, left_ms, pause_ms);
			heard_ns = clock_now_ns();
		} else {
			poll(NULL, 0, left_ms >= 0 && left_ms < pause_ms ? (int)left_ms : pause_ms);
		}
		pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
	}
	return result;
}

static int wait_serve(struct session *session, struct place *place, struct wait_state *state)
{
	lk_error error = {0};
	struct report report;
	report_begin(&report, place->name, session->told.verbose);
	session->told.once = state->wait_ms == 0;
	wait_status_begin(&session->waiting, session->client, NULL, place->name, &session->told);
	int result = wait_free(place, state->wait_ms, &error);
	wait_status_end(&session->waiting);
	if (result < 0)
		return trouble_library(&error);
	if (result == 1)
		return 0;
	wait_status_nested(&session->waiting);
	report_missed(&report);
	if (session->told.verbose)
		wait_status_conclude(&session->waiting);
	return EXIT_NOT_ACQUIRED;
}

int cmd_wait(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct wait_state state = {.wait_ms = -1};
	struct place place = {.scan = NULL};
	lk_error error = {0};
	int result = session_begin(&session, command, argc, argv, wait_take, &state, 1, 1);
	if (result)
		return -1 - result;
	int code = *session.argv[0] ? session_open(&session) : trouble("NAME is empty");
	if (code == 0 && place_make(&place, &session, &error))
		code = trouble_library(&error);
	if (code == 0)
		code = wait_serve(&session, &place, &state);
	place_free(&place);
	return session_end(&session, code);
}
