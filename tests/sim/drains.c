#include "drains.h"

#include <stdio.h>
#include <string.h>

#include "../harness/request.h"
#include "failovers.h"
#include "judge.h"
#include "kind.h"
#include "network.h"
#include "server.h"
#include "world.h"

#define HELD_MAX 32
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Those that have answered, and what they held then. */
static struct drained {
	const char *id;
	int count;
	lk_held held[HELD_MAX];
} drained[SIM_CLIENTS];
static size_t drained_count;

/* A copy of its request may come late. */
static bool had(const struct drained *client, const char *field)
{
	for (int i = 0; i < client->count && i < HELD_MAX; i++)
		if (strcmp(client->held[i].field, field) == 0)
			return true;
	return false;
}

/* What a release keeps is nobody's. */
static void made(unsigned number, const struct sim_key *key, const struct sim_item *item)
{
	if (strcmp(key->name, SIM_KEY) != 0 || strstr(item->bytes, ":kept:"))
		return;
	for (size_t i = 0; i < drained_count; i++)
		if (strncmp(item->bytes, drained[i].id, strlen(drained[i].id)) == 0 &&
		    !had(&drained[i], item->bytes))
			sim_fail("server %u grants to a client that is drained: %s", number,
				 item->bytes);
}

void sim_drains_begin(void)
{
	drained_count = 0;
}

static int drain_by_loop(const struct sim_client *client, int64_t wait_ms, lk_error *error)
{
	lk_completion got = LK_COMPLETION_INIT;
	int rc = lk_queue_start(client->closes,
				request_of(DRAIN, .client = client->client, .wait_ms = wait_ms),
				NULL, error);
	if (rc < 0)
		return rc;
	if (lk_queue_take(client->closes, &got, 1, -1, error) != 1)
		sim_fail("a drain was not completed");
	*error = got.error;
	return got.error.code;
}

/* The one of that field is in the list still. */
static bool is_listed(const struct sim_client *client, const char *field)
{
	lk_held held[HELD_MAX] = {LK_HELD_INIT};
	lk_error error;
	int count = lk_client_held(client->client, held, HELD_MAX, &error);
	for (int i = 0; i < count && i < HELD_MAX; i++)
		if (strcmp(held[i].field, field) == 0)
			return true;
	return false;
}

/* Permits are in other keys. */
static void check_listed(const struct sim_client *client, const lk_held *held)
{
	int64_t until_ns;
	bool known = strstr(held->kind, "lock") && sim_stage.calm && sim_servers() == 1;
	if (known && !sim_server_has(0, SIM_KEY, held->field, &until_ns) &&
	    is_listed(client, held->field))
		sim_fail("%s is listed as held, and the server does not have it", held->field);
}

static int check_list(const struct sim_client *client, lk_held *held)
{
	lk_error error;
	held[0] = (lk_held)LK_HELD_INIT;
	int count = lk_client_held(client->client, held, HELD_MAX, &error);
	if (count < 0)
		sim_fail("held: %s", error.message);
	for (int i = 0; i < count && i < HELD_MAX; i++)
		check_listed(client, &held[i]);
	return count;
}

void sim_drain(struct sim_client *client)
{
	static const int64_t limits_ms[] = {0, 50, 3000};
	static const int expected[] = {0, LK_EHELD, LK_EMAYBEHELD};
	int64_t wait_ms = limits_ms[sim_random(COUNT(limits_ms))];
	lk_error error = {.code = 0};
	struct sim_call call = sim_call("drain");
	client->draining = true;
	int rc = client->threadless ? drain_by_loop(client, wait_ms, &error)
				    : lk_client_drain(client->client, wait_ms, NULL, &error);
	sim_note("drain within %lld: %s", (long long)wait_ms, sim_outcome(rc));
	sim_check_limit(&call, wait_ms > SIM_COMMAND_MS ? wait_ms : SIM_COMMAND_MS);
	sim_check_code("drain", rc, expected, sim_stage.calm ? 2 : 3, false, &error);
	struct drained *answered = &drained[drained_count];
	answered->id = lk_client_id(client->client);
	answered->count = check_list(client, answered->held);
	if (rc == 0 && answered->count > 0)
		sim_fail("drained, and %d are held", answered->count);
	if (rc != 0 && rc != LK_EHELD)
		return;
	drained_count++;
	/* One that leaves a barrier waits there under a number of its own. */
	if (!sim_has_trait(SIM_ORDER) && sim_stage.kind->open != sim_barrier_open)
		sim_server_watch(made);
}
