#include "order.h"

#include <stdio.h>
#include <string.h>

#include "failovers.h"
#include "keyspace.h"
#include "server.h"
#include "world.h"

#define FIELD_SIZE 128
#define PLACES_MAX 1024 /* in the queue, of one run */

static const char *lock;
static char queue[256];
static char places[PLACES_MAX][FIELD_SIZE]; /* who has queued up, in that order */
static int place_count;

/* Its newest place; -1: it never queued up. */
static int place_of(const char *field)
{
	for (int i = place_count - 1; i >= 0; i--)
		if (strcmp(places[i], field) == 0)
			return i;
	return -1;
}

static void queue_up(const char *field)
{
	if (place_count == PLACES_MAX)
		sim_fail("no room for a place in the queue");
	else
		snprintf(places[place_count++], FIELD_SIZE, "%s", field);
}

/* Who has a place may leave it before the grant, or behind it; who has none comes last. */
static void check_first(unsigned server, const char *field)
{
	const struct sim_key *waiting = sim_server_key(server, queue);
	int place = place_of(field);
	for (size_t i = 0; waiting && i < waiting->count; i++) {
		const char *other = waiting->items[i].bytes;
		if (strcmp(other, field) != 0 && (place < 0 || place_of(other) < place))
			sim_fail("%s is granted the lock, and %s was in the queue before", field,
				 other);
	}
}

static void made(unsigned server, const struct sim_key *key, const struct sim_item *item)
{
	if (!lock || server != sim_keeper(lock))
		return;
	/* What a release keeps passes by the queue: it is nobody's. */
	if (strcmp(key->name, lock) == 0 && !strstr(item->bytes, ":kept:"))
		check_first(server, item->bytes);
	else if (strcmp(key->name, queue) == 0)
		queue_up(item->bytes);
}

void sim_order_of(unsigned server)
{
	const struct sim_key *waiting = lock ? sim_server_key(server, queue) : NULL;
	place_count = 0;
	for (size_t i = 0; waiting && i < waiting->count; i++)
		queue_up(waiting->items[i].bytes);
}

void sim_order_begin(const char *key)
{
	lock = key;
	place_count = 0;
	if (key)
		snprintf(queue, sizeof(queue), "redisson_lock_queue:{%s}", key);
	sim_server_watch(key ? made : NULL);
}
