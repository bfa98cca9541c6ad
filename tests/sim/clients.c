#include "clients.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/door.h"
#include "../harness/request.h"
#include "judge.h"
#include "world.h"

#define LOOK_MS 50 /* the loop of a client that was closed ends within this */

/* ---- the program's own loop ---- */

static void *loop_main(void *argument)
{
	const struct sim_client *client = argument;
	lk_error error;
	while (!client->closed) {
		struct pollfd polled = {.fd = lk_client_fd(client->client, &error),
					.events = POLLIN};
		lk__poll(&polled, 1, LOOK_MS);
		int rc = client->closed ? 0 : lk_client_process(client->client, &error);
		if (rc == LK_ECLOSED) /* its descriptor stays readable */
			sim_sleep(LOOK_MS * SIM_MS);
		else if (rc < 0)
			sim_fail("lk_client_process: %s", error.message);
	}
	return NULL;
}

/* "server-3" is 10.0.0.3, and "server" 10.0.0.0. */
static int resolve(void *context, const char *host, char *address_out, size_t size)
{
	const char *number = strchr(host, '-');
	snprintf(address_out, size, "10.0.0.%s", number ? number + 1 : "0");
	return 0;
}

void sim_client_open(struct sim_client *client, const char *url, bool threadless)
{
	lk_config *config = NULL;
	lk_error error;
	*client = (struct sim_client){.threadless = threadless};
	int rc = lk_config_new(&config, &error);
	rc = rc < 0 ? rc : lk_config_set(config, "url", url, &error);
	if (rc == 0 && threadless)
		lk_config_set_threadless(config, resolve, NULL);
	rc = rc < 0 ? rc : lk_client_new(&client->client, config, &error);
	lk_config_free(config);
	if (rc == 0 && threadless)
		rc = lk_queue_new(&client->closes, 0, &error);
	if (rc < 0)
		sim_fail("a client: %s", error.message);
	else if (threadless)
		client->loop = sim_spawn(loop_main, client);
}

/* ---- its close ---- */

static int close_by_loop(const struct sim_client *client, int how, lk_error *error)
{
	lk_completion got = LK_COMPLETION_INIT;
	int rc = lk_queue_start(client->closes,
				request_of(CLOSE, .client = client->client, .how = how), NULL,
				error);
	if (rc < 0)
		return rc;
	if (lk_queue_take(client->closes, &got, 1, -1, error) != 1)
		sim_fail("a close was not completed");
	*error = got.error;
	return got.error.code;
}

int sim_client_close(struct sim_client *client, int how, lk_error *error)
{
	static const char *const names[] = {"if idle", "and release", "and abandon"};
	struct sim_call call = sim_call("close");
	int rc = client->threadless ? close_by_loop(client, how, error)
				    : lk_client_close(client->client, how, error);
	sim_note("close %s: %s", names[how], sim_outcome(rc));
	sim_check_limit(&call, SIM_CLOSE_MS);
	return rc;
}

void sim_client_free(struct sim_client *client)
{
	lk_error error;
	client->closed = true;
	if (client->loop)
		sim_wait(sim_ended, client->loop, SIM_NEVER);
	lk_client_free(client->client);
	if (client->closes && lk_queue_free(client->closes, &error) < 0)
		sim_fail("lk_queue_free: %s", error.message);
}
