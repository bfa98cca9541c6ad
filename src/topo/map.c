/* SPDX-License-Identifier: MIT */
#include "topo/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/url.h"
#include "resp/reply.h"

enum { RANGE_FIRST, RANGE_LAST, RANGE_MASTER, RANGE_REPLICAS };
enum { NODE_HOST, NODE_PORT, NODE_ID, NODE_MORE };

/* An endpoint that is empty or nil is the server that was asked. */
static bool place_write(char *place_out, const char *host, const char *asked, int64_t port)
{
	char own[LK__PLACE_SIZE];
	int own_port;
	if (!*host)
		lk__place_next(asked, own, &own_port);
	return lk__place_write(place_out, *host ? host : own, port);
}

/* [endpoint, port, id, …] */
static bool node_read(struct lk__map_node *node, const redisReply *reply, const char *asked)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements <= NODE_ID ||
	    reply->element[NODE_PORT]->type != REDIS_REPLY_INTEGER ||
	    reply->element[NODE_ID]->type != REDIS_REPLY_STRING)
		return false;
	snprintf(node->id, sizeof(node->id), "%s", reply->element[NODE_ID]->str);
	return place_write(node->place, lk__element_text(reply, NODE_HOST), asked,
			   reply->element[NODE_PORT]->integer);
}

/* The value of "ip" in what more is told of a node, or "". */
static const char *node_ip(const redisReply *node)
{
	return node->elements > NODE_MORE ? lk__field_text(node->element[NODE_MORE], "ip") : "";
}

static void master_replica(struct lk__map_master *master, const redisReply *reply,
			   const char *asked)
{
	struct lk__map_node node;
	char address[LK__PLACE_SIZE];
	if (!node_read(&node, reply, asked))
		return;
	const char *ip = node_ip(reply);
	if (*ip && place_write(address, ip, asked, reply->element[NODE_PORT]->integer))
		memcpy(node.place, address, sizeof(address));
	size_t index = master->replica_count++;
	if (index >= LK__ACKS_MAX)
		return;
	struct lk__map_replica *replica = &master->replica[index];
	memcpy(replica->id, node.id, sizeof(replica->id));
	snprintf(replica->place, sizeof(replica->place), "%.63s", node.place);
}

static struct lk__map_master *map_master(struct lk__map *map, const redisReply *range,
					 const char *asked)
{
	struct lk__map_node node;
	if (!node_read(&node, range->element[RANGE_MASTER], asked))
		return NULL;
	for (size_t i = 0; i < map->count; i++)
		if (strcmp(map->master[i].node.id, node.id) == 0)
			return &map->master[i];
	if (map->count == LK__MAP_MASTERS_MAX)
		return NULL;
	struct lk__map_master *master = &map->master[map->count++];
	master->node = node;
	for (size_t i = RANGE_REPLICAS; i < range->elements; i++)
		master_replica(master, range->element[i], asked);
	return master;
}

static uint64_t mix(uint64_t hash)
{
	hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 33;
}

/* FNV-1a, with its bits mixed: ids that differ in the last digit alone are alike without that. */
static uint64_t node_digest(const struct lk__map_node *node)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	for (const char *at = node->id; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
	return mix(hash);
}

/* They are summed up, so that the order of slots does not matter. A map has all 16,384 slots, and
 * is read once a second from each of up to seven nodes. */
static uint64_t slot_digest(int64_t slot, uint64_t node)
{
	return mix(node + (uint64_t)slot * UINT64_C(0x9e3779b97f4a7c15));
}

static bool map_add(struct lk__map *map, const redisReply *range, const char *asked)
{
	int64_t first, last;
	if (range->type != REDIS_REPLY_ARRAY || range->elements <= RANGE_MASTER ||
	    !lk__reply_integer(range->element[RANGE_FIRST], 0, LK__SLOTS - 1, &first) ||
	    !lk__reply_integer(range->element[RANGE_LAST], first, LK__SLOTS - 1, &last))
		return false;
	const struct lk__map_master *master = map_master(map, range, asked);
	uint64_t node = master ? node_digest(&master->node) : 0;
	for (int64_t slot = first; master && slot <= last; slot++) {
		map->owner[slot] = (uint16_t)(master - map->master + 1);
		map->digest += slot_digest(slot, node);
	}
	return true;
}

struct lk__map *lk__map_read(const redisReply *reply, const char *asked, const char **fault_out)
{
	*fault_out = NULL;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
		*fault_out = "it names no slots";
		return NULL;
	}
	struct lk__map *map = calloc(1, sizeof(*map));
	size_t most = reply->elements < LK__MAP_MASTERS_MAX ? reply->elements : LK__MAP_MASTERS_MAX;
	if (map)
		map->master = calloc(most, sizeof(*map->master));
	if (!map || !map->master) {
		lk__map_free(map);
		return NULL;
	}
	for (size_t i = 0; i < reply->elements && !*fault_out; i++)
		if (!map_add(map, reply->element[i], asked))
			*fault_out = "its map of the slots is malformed";
	if (map->count == 0 && !*fault_out)
		*fault_out = "it knows no address of a master";
	if (!*fault_out)
		return map;
	lk__map_free(map);
	return NULL;
}

void lk__map_free(struct lk__map *map)
{
	if (map)
		free(map->master);
	free(map);
}

static void master_add_missing(struct lk__map_master *master, const struct lk__map_master *other)
{
	size_t known = master->replica_count < LK__ACKS_MAX ? master->replica_count : LK__ACKS_MAX;
	for (size_t i = 0; i < other->replica_count && i < LK__ACKS_MAX; i++) {
		size_t at = 0;
		while (at < known && strcmp(master->replica[at].id, other->replica[i].id) != 0)
			at++;
		if (at < known)
			continue;
		if (master->replica_count < LK__ACKS_MAX)
			master->replica[master->replica_count] = other->replica[i];
		master->replica_count++;
	}
	if (other->replica_count > LK__ACKS_MAX)
		master->replica_count = other->replica_count;
}

void lk__map_add_replicas(struct lk__map *map, const struct lk__map *other)
{
	for (size_t i = 0; i < map->count; i++)
		for (size_t j = 0; j < other->count; j++)
			if (strcmp(map->master[i].node.id, other->master[j].node.id) == 0)
				master_add_missing(&map->master[i], &other->master[j]);
}

/* ---- several maps ---- */

/* NULL: nobody. */
static const struct lk__map_master *owner_of(const struct lk__map *map, size_t slot)
{
	return map->owner[slot] ? &map->master[map->owner[slot] - 1] : NULL;
}

static bool is_same(const struct lk__map_master *one, const struct lk__map_master *other)
{
	return one && other ? strcmp(one->node.id, other->node.id) == 0 : one == other;
}

/* As in `owner`. */
static uint16_t map_take(struct lk__map *map, const struct lk__map_master *master)
{
	size_t at = 0;
	if (!master)
		return 0;
	while (at < map->count && !is_same(&map->master[at], master))
		at++;
	if (at == LK__MAP_MASTERS_MAX)
		return LK__MAP_OPEN;
	if (at == map->count)
		map->master[map->count++] = *master;
	return (uint16_t)(at + 1);
}

static uint16_t slot_vote(struct lk__map *map, const struct lk__map_vote *votes, size_t count,
			  size_t of, size_t slot)
{
	for (size_t i = 0; i < count; i++) {
		const struct lk__map_master *owner = owner_of(votes[i].map, slot);
		size_t same = 0;
		for (size_t j = 0; j < count; j++)
			if (is_same(owner, owner_of(votes[j].map, slot)))
				same += votes[j].votes;
		if (2 * same > of)
			return map_take(map, owner);
	}
	return LK__MAP_OPEN;
}

/* Slots come in ranges. */
static bool slot_is_as_before(const struct lk__map_vote *votes, size_t count, size_t slot)
{
	bool same = slot > 0;
	for (size_t i = 0; i < count && same; i++)
		same = votes[i].map->owner[slot] == votes[i].map->owner[slot - 1];
	return same;
}

struct lk__map *lk__map_merge(const struct lk__map_vote *votes, size_t count, size_t of)
{
	struct lk__map *map = calloc(1, sizeof(*map));
	if (map)
		map->master = calloc(LK__MAP_MASTERS_MAX, sizeof(*map->master));
	if (!map || !map->master) {
		lk__map_free(map);
		return NULL;
	}
	for (size_t slot = 0; slot < LK__SLOTS; slot++)
		map->owner[slot] = slot_is_as_before(votes, count, slot)
					   ? map->owner[slot - 1]
					   : slot_vote(map, votes, count, of, slot);
	for (size_t i = 0; i < count; i++)
		lk__map_add_replicas(map, votes[i].map);
	return map;
}

bool lk__redirect_read(const char *words, const char *asked, uint16_t *slot_out, char *place_out)
{
	char host[LK__PLACE_SIZE];
	int64_t slot, port;
	const char *at = strchr(words, ' ');
	const char *end = at ? lk__number_take(at + 1, 0, LK__SLOTS - 1, &slot) : NULL;
	if (!end || *end != ' ')
		return false;
	const char *colon = strrchr(end, ':');
	size_t size = colon ? (size_t)(colon - end) - 1 : sizeof(host);
	if (size >= sizeof(host) || !lk__number_read(colon + 1, 1, 65535, &port))
		return false;
	memcpy(host, end + 1, size);
	host[size] = '\0';
	*slot_out = (uint16_t)slot;
	return place_write(place_out, host, asked, port);
}
