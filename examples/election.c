/*
 * Serves while it leads an election, and stands by otherwise.
 *
 * usage: election NAME ADDRESS
 *
 * One thread reads the notices: it starts the work at LEADING and ends it at STOP. Each write shows
 * the term to what it writes to, here a key in Redis that refuses an older one.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#define STEP_MS 100
#define PAUSE_MS 1000
#define RESIGN_LIMIT_MS 5000

static lk_cancel *ended; /* by a signal */

static void end(int number)
{
	(void)number;
	lk_cancel_now(ended);
}

/* One step of the work, while it leads. */
static void step(lk_client *client, lk_election *election, uint64_t term, const char *address)
{
	lk_error error = {0};
	int64_t left_ms;
	if (lk_election_remaining_ms(election, &left_ms, NULL) || left_ms < STEP_MS)
		return; /* a notice says why */
	if (lk_fence_write(client, "served-by", LK_STRLEN, term, address, strlen(address), NULL,
			   NULL, &error))
		fprintf(stderr, "not written: %s\n", error.message);
}

/* Works while it leads; waits for notices otherwise. Returns when a signal has come. */
static int serve(lk_client *client, lk_election *election, const char *address, lk_error *error)
{
	uint64_t term = 0;
	lk_event event = LK_EVENT_INIT;
	int result;
	while ((result = lk_event_wait(client, &event, term ? STEP_MS : -1, ended, error)) >= 0) {
		if (result == 0) {
			step(client, election, term, address);
			continue;
		}
		switch (event.type) {
		case LK_EVENT_LEADING:
			term = event.fence;
			printf("leading, term %" PRIu64 "\n", term);
			break;
		case LK_EVENT_STOP: /* the work has ended: it stands again */
			term = 0;
			printf("stopped: %s\n", event.reason);
			lk_election_resign(election, RESIGN_LIMIT_MS, NULL);
			if (lk_election_join(election, error))
				return error->code;
			break;
		case LK_EVENT_NOT_LEADING:
			if (event.fence || !event.code)
				break;
			fprintf(stderr, "refused: %s\n", event.reason);
			poll(NULL, 0, PAUSE_MS);
			if (lk_election_join(election, error))
				return error->code;
			break;
		}
		fflush(stdout);
	}
	return result == LK_ECANCELLED ? 0 : result;
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_election *election = NULL;
	lk_error error = {0};
	lk_election_options options = LK_ELECTION_OPTIONS_INIT;
	options.value = argc > 2 ? argv[2] : "here";
	options.value_size = LK_STRLEN;
	if (lk_cancel_new(&ended, &error) == 0) {
		signal(SIGINT, end);
		signal(SIGTERM, end);
	}
	if (!error.code && lk_client_open(&client, NULL, &error) == 0 &&
	    lk_election_new(&election, client, argc > 1 ? argv[1] : "web", LK_STRLEN, &options,
			    &error) == 0 &&
	    lk_election_join(election, &error) == 0)
		serve(client, election, options.value, &error);
	if (error.code && error.code != LK_ECANCELLED)
		fprintf(stderr, "%s\n", error.message);
	if (election)
		lk_election_resign(election, RESIGN_LIMIT_MS, NULL);
	lk_election_free(election);
	lk_client_free(client);
	lk_cancel_free(ended);
	return error.code && error.code != LK_ECANCELLED;
}
