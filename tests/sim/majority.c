/*
 * Worlds in which a program of others writes over a red lock on one node of three, and over it on a
 * second just when the first has made its holder ask all of them. Then nobody can give it back its
 * majority, and the holder must hear so within some trips, though its next renewal is far.
 *
 *   the join      The first node is silent while it is asked to join again. So what it says to the
 *                 renewal that the second one causes is no answer, and that has no outcome.
 *   the renewal   The second node is written over directly behind the renewal, which has ended the
 *                 tracking there: the look that begins it anew must have run, too. That another
 *                 thread sends the renewal before the look stands behind it is excused twice.
 */
#include "majority.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper.h>

#include "network.h"
#include "server.h"
#include "simulated_door.h"
#include "world.h"

#define KEY "majority"
#define NODES 3
#define HELD_MS 300    /* it is watched by then */
#define SILENT_MS 150  /* the first node; some trips more than */
#define BEHIND_MS 40   /* the second is written over so long behind the renewal */
#define TOLD_MS 200    /* five trips of at most 20 ms each way */
#define LIMIT_MS 20000 /* the renewal that is due tells it */
#define TIMES 5
#define EXCUSED 2 /* of them */

static bool joins, over; /* `over`: the second is written over by now, or soon */

/* SET writes over it. */
static void others_do(unsigned node, const char *command)
{
	const char *words[] = {command, KEY, "something else"};
	sim_server_do(node, words, strcmp(command, "SET") == 0 ? 3 : 2);
}

static void second_goes(void *context)
{
	sim_note("somebody writes over the key on the second node");
	others_do(1, "SET");
}

/* The first renewal is the one that the first node has caused. */
static void ran(unsigned node, const char *what, const char *key)
{
	if (over || node != !joins || strcmp(what, "lock_renew") != 0 || strcmp(key, KEY) != 0)
		return;
	over = true;
	if (joins)
		sim_server_hang(0, sim_now_ns() + SILENT_MS * SIM_MS);
	sim_at(sim_now_ns() + (joins ? BEHIND_MS * SIM_MS : SIM_US), second_goes, NULL);
}

static void clients_open(lk_client *clients[NODES])
{
	lk_error error;
	for (int i = 0; i < NODES; i++) {
		char url[64];
		snprintf(url, sizeof(url), "redis://server-%d?client_record=off", i);
		if (lk_client_open(&clients[i], url, &error) < 0)
			sim_fail("lk_client_open: %s", error.message);
	}
}

/* How long it takes until the holder is told. */
static int64_t told_ms(lk_client *client)
{
	lk_event event = LK_EVENT_INIT;
	lk_error error;
	int64_t begun_ns = sim_now_ns();
	if (lk_event_wait(client, &event, LIMIT_MS, NULL, &error) != 1 ||
	    event.type != LK_EVENT_LOST)
		sim_fail("its holder is told %d", event.type);
	if (!over)
		sim_fail("no renewal has run");
	return (sim_now_ns() - begun_ns) / SIM_MS;
}

static int64_t lose(lk_client *client, lk_lock *lock)
{
	lk_error error;
	if (lk_lock_acquire(lock, LIMIT_MS, NULL, &error) < 0)
		sim_fail("acquire: %s", error.message);
	sim_sleep(HELD_MS * SIM_MS);
	over = false;
	others_do(0, "SET");
	int64_t took_ms = told_ms(client);
	if (lk_lock_release(lock, NULL, &error) != LK_ELOST)
		sim_fail("its release does not say that it was lost");
	others_do(0, "DEL");
	others_do(1, "DEL");
	return took_ms;
}

static void *run_main(void *argument)
{
	lk_client *clients[NODES] = {NULL};
	lk_lock *lock = NULL;
	lk_error error;
	int late = 0;
	clients_open(clients);
	if (lk_red_lock_new(&lock, clients, NODES, KEY, LK_STRLEN, NULL, &error) < 0)
		sim_fail("lk_red_lock_new: %s", error.message);
	sim_server_follow(ran);
	for (int i = 0; i < TIMES; i++) {
		int64_t took_ms = lose(clients[0], lock);
		sim_note("its holder is told after %lld ms", (long long)took_ms);
		late += took_ms > TOLD_MS + (joins ? SILENT_MS : 0);
	}
	if (late > (joins ? 0 : EXCUSED))
		sim_fail("its holder is told late %d times of %d", late, TIMES);
	lk_lock_free(lock);
	for (int i = 0; i < NODES; i++)
		lk_client_free(clients[i]);
	return NULL;
}

void sim_majority_run(uint64_t seed, bool verbose)
{
	sim_begin(seed, 0, verbose);
	joins = seed % 2;
	over = true;
	sim_door_begin();
	sim_network_begin();
	sim_server_begin(NODES, false);
	sim_server_lose_messages(0);
	sim_spawn(run_main, NULL);
	sim_run();
	if (!sim_failure())
		sim_door_end();
	sim_server_end();
	sim_network_end();
	sim_end();
}
