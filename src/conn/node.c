/* SPDX-License-Identifier: MIT */
/* The knowledge of a server: where it has been, since when, and what its clock says. */
#include "conn/node.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conf/url.h"

void lk__node_note_greeting(struct lk__node *node, int64_t sent_ns)
{
	int64_t last_ns = atomic_load(&node->greeted_ns);
	while (last_ns < sent_ns &&
	       !atomic_compare_exchange_weak(&node->greeted_ns, &last_ns, sent_ns))
		continue;
	atomic_store(&node->judges, true);
}

void lk__node_note_place(struct lk__node *node, const char *place)
{
	struct lk__stays *stays = &node->stays;
	if (!*place)
		return;
	pthread_mutex_lock(&stays->mutex);
	bool stayed = stays->count > 0 &&
		      strcmp(stays->at[(stays->count - 1) % LK__STAYS_MAX].place, place) == 0;
	if (!stayed) {
		size_t i = stays->count++ % LK__STAYS_MAX;
		snprintf(stays->at[i].place, sizeof(stays->at[i].place), "%s", place);
		stays->at[i].epoch = atomic_load(&node->epoch);
	}
	pthread_mutex_unlock(&stays->mutex);
}

void lk__node_place_at(struct lk__node *node, uint64_t epoch, char place_out[LK__CONN_PLACE_SIZE])
{
	struct lk__stays *stays = &node->stays;
	char listed[LK__PLACE_SIZE] = "";
	if (!node->finder)
		lk__config_place(node->config, listed);
	snprintf(place_out, LK__CONN_PLACE_SIZE, "%.63s", listed);
	pthread_mutex_lock(&stays->mutex);
	size_t oldest = stays->count > LK__STAYS_MAX ? stays->count - LK__STAYS_MAX : 0;
	for (size_t i = stays->count; !*place_out && i-- > oldest;)
		if (stays->at[i % LK__STAYS_MAX].epoch <= epoch)
			memcpy(place_out, stays->at[i % LK__STAYS_MAX].place, LK__CONN_PLACE_SIZE);
	pthread_mutex_unlock(&stays->mutex);
}

#define SERVER_US_MAX (INT64_MAX / LK__US / 2) /* in the year 2116; no clock shows more */
#define ASK_TIME_NS (1000 * LK__MS)

int64_t lk__node_server_us(const struct lk__node *node, int64_t at_ns)
{
	return (at_ns + atomic_load_explicit(&node->offset_ns, memory_order_relaxed)) / LK__US;
}

static bool is_clock(int64_t server_us)
{
	return server_us >= 0 && server_us <= SERVER_US_MAX;
}

void lk__node_learn_time(struct lk__node *node, int64_t server_us, int64_t received_ns)
{
	if (!is_clock(server_us))
		return;
	int64_t least_ns = server_us * LK__US - received_ns;
	if (least_ns > atomic_load(&node->offset_ns))
		atomic_store(&node->offset_ns, least_ns);
}

/* Reads the present difference first, which a step stores last. */
int64_t lk__node_most_offset_ns(const struct lk__node *node, int64_t now_ns)
{
	int64_t offset_ns = atomic_load(&node->offset_ns);
	int64_t before_ns = atomic_load(&node->before_ns);
	int64_t last_ns = lk__after_ms(atomic_load(&node->fell_ns),
				       node->config->command_timeout_ms);
	/* Subtracted, because the limit may be near the largest number. */
	bool matters = before_ns > offset_ns && now_ns - (before_ns - offset_ns) < last_ns;
	return matters ? before_ns : offset_ns;
}

/* A second step while the first one matters leaves the larger difference. */
static void node_fell(struct lk__node *node, int64_t received_ns)
{
	atomic_store(&node->before_ns, lk__node_most_offset_ns(node, received_ns));
	atomic_store(&node->fell_ns, received_ns);
}

void lk__node_hear_time(struct lk__node *node, int64_t server_us, int64_t sent_ns,
			int64_t received_ns)
{
	if (!is_clock(server_us))
		return;
	int64_t least_ns = server_us * LK__US - received_ns;
	int64_t most_ns = server_us * LK__US + LK__US - sent_ns; /* its clock counts whole µs */
	int64_t known_ns = atomic_load(&node->offset_ns);
	atomic_store(&node->asked_ns, received_ns);
	atomic_store_explicit(&node->counters.round_trip_ns, received_ns - sent_ns,
			      memory_order_relaxed);
	if (known_ns && known_ns > most_ns)
		node_fell(node, received_ns);
	if (known_ns < least_ns || known_ns > most_ns)
		atomic_store(&node->offset_ns, least_ns);
}

bool lk__node_asks_time(struct lk__node *node)
{
	int64_t now_ns = lk__now_ns();
	int64_t asked_ns = atomic_load_explicit(&node->asked_ns, memory_order_relaxed);
	return now_ns - asked_ns >= ASK_TIME_NS &&
	       atomic_compare_exchange_strong(&node->asked_ns, &asked_ns, now_ns);
}
