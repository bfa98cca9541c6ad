/* SPDX-License-Identifier: MIT */
/*
 * A cluster: each of its masters has some of the slots.
 *
 *   slot ──▶ shard ──▶ node, whose server moves within the shard
 *
 * - A shard is a master with its replicas, as long as one of them goes on: a replica that is
 *   promoted is the same shard, whose node moves there as one does that sentinels watch. A shard
 *   that has lost its slots stays, idle, until the client ends.
 * - Shard 0 has no slots. It is any node of the cluster, and is asked while it is not known who has
 *   a slot: its server says who.
 * - The scout asks several nodes for the map of the slots, and believes what most say (vote.h); if
 *   no map is that of most, of each slot what most say of that. A slot of which they disagree stays
 *   where it was.
 *   What a server says of one slot (MOVED) is believed at once, if its target is known, until the
 *   next map, which then is not urgent. ASK says where one key is; the slot stays where it was.
 * - The table of slots and the list of shards are read without a mutex; what they say may be out of
 *   date. Where a shard is stands under the mutex. A shard's index never changes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "conf/config.h"
#include "conn/channels.h"
#include "conn/node.h"
#include "topo/map.h"
#include "topo/scout.h"
#include "topo/topo.h"
#include "topo/vote.h"

#define SHARDS_MAX (1 + 2 * LK__MAP_MASTERS_MAX) /* ever, with those that have lost their slots */
#define ANY 0
#define PEERS_WANTED 7 /* are asked, where that many are known */

/* ---- slots ---- */

/* CRC16 with the polynomial 0x1021 (XMODEM), four bits at a time. */
static uint16_t crc16(const unsigned char *bytes, size_t size)
{
	static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
					   0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
					   0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
	uint16_t crc = 0;
	for (size_t i = 0; i < size; i++) {
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] >> 4)];
		crc = (uint16_t)(crc << 4) ^ table[(crc >> 12) ^ (bytes[i] & 15)];
	}
	return crc;
}

uint16_t lk__slot_of(const void *key, size_t size)
{
	const char *begin = key, *end = begin + size;
	const char *open = size ? memchr(begin, '{', size) : NULL;
	const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
	if (close && close > open + 1) {
		begin = open + 1;
		end = close;
	}
	return crc16((const unsigned char *)begin, (size_t)(end - begin)) % LK__SLOTS;
}

/* ---- shards ---- */

struct cluster;

struct shard {
	struct lk__finder finder; /* first */
	struct cluster *cluster;
	struct lk__node node;
	/* Under the mutex. */
	char place[LK__PLACE_SIZE]; /* of its master; "": it has none */
	uint64_t generation;        /* as of which that is so */
	/* The scout's thread's; it writes the members under the mutex too. */
	char id[LK__NODE_ID_SIZE];                   /* of its master */
	size_t member_count;                         /* ever: the last ones are kept */
	char member[LK__ACKS_MAX][LK__NODE_ID_SIZE]; /* all that were its master or replica */
};

struct cluster {
	struct lk__topo topo; /* first */
	_Atomic int refs;     /* the client's, and of each finder that is in use */
	const struct lk_config *config;
	const struct lk__node_events *events;
	void *context;
	struct lk__scout *scout;
	_Atomic uint16_t slot[LK__SLOTS];    /* the shard that has it, */
	_Atomic int64_t moved_ns[LK__SLOTS]; /* and when that was found to be another; 0: never */
	_Atomic size_t count;
	struct shard *_Atomic shard[SHARDS_MAX];
	pthread_mutex_t mutex;

	/* The scout's thread's. */
	struct lk__map *map[LK__PEERS_MAX]; /* the different ones of this round */
	size_t map_count;
	uint64_t map_round;
};

static struct shard *shard_at(struct cluster *cluster, size_t index)
{
	return atomic_load_explicit(&cluster->shard[index], memory_order_acquire);
}

static void cluster_unref(struct cluster *cluster)
{
	if (atomic_fetch_sub(&cluster->refs, 1) > 1)
		return;
	for (size_t i = 0; i < atomic_load(&cluster->count); i++)
		free(shard_at(cluster, i));
	for (size_t i = 0; i < cluster->map_count; i++)
		lk__map_free(cluster->map[i]);
	lk__scout_unref(cluster->scout);
	pthread_mutex_destroy(&cluster->mutex);
	free(cluster);
}

/* A shard has the slot. `moves`: it is heard of after others. */
static void slot_give(struct cluster *cluster, size_t slot, size_t index, bool moves)
{
	if (atomic_load_explicit(&cluster->slot[slot], memory_order_relaxed) == index)
		return;
	if (moves) /* a request that goes there has to see that */
		atomic_store(&cluster->moved_ns[slot], lk__now_ns());
	atomic_store_explicit(&cluster->slot[slot], (uint16_t)index, memory_order_release);
}

/* ---- finders: where a shard's master is ---- */

static int shard_find(struct lk__finder *finder, struct lk_config *config, uint64_t *generation_out,
		      uint64_t *asked, int64_t deadline_ns, lk_error *error)
{
	struct shard *shard = (struct shard *)finder;
	struct cluster *cluster = shard->cluster;
	char place[LK__PLACE_SIZE];
	int rc = lk__scout_await(cluster->scout, asked, deadline_ns, error);
	if (rc == 1)
		return 1;
	pthread_mutex_lock(&cluster->mutex);
	*generation_out = shard->generation;
	memcpy(place, shard->place, sizeof(place));
	pthread_mutex_unlock(&cluster->mutex);
	if (rc == 0 && !*place)
		rc = lk__fail(error, LK_EUNAVAILABLE, "%s: the node has no slots any more",
			      lk__scout_config(cluster->scout)->url);
	return rc ? rc : lk__scout_point(cluster->scout, place, config, error);
}

static void shard_suspect(struct lk__finder *finder)
{
	lk__scout_want(((struct shard *)finder)->cluster->scout, LK__WANT_SUSPECTED);
}

/* The index of the shard whose master is there; ANY: of none. With the mutex held. */
static size_t cluster_find(struct cluster *cluster, const char *place)
{
	for (size_t i = ANY + 1; i < atomic_load(&cluster->count); i++)
		if (strcmp(shard_at(cluster, i)->place, place) == 0)
			return i;
	return ANY;
}

static struct lk__node *shard_redirect(struct lk__finder *finder, const char *words,
				       const char *asked)
{
	struct shard *shard = (struct shard *)finder;
	struct cluster *cluster = shard->cluster;
	char place[LK__PLACE_SIZE];
	uint16_t slot;
	size_t index = ANY;
	if (lk__redirect_read(words, asked, &slot, place)) {
		pthread_mutex_lock(&cluster->mutex);
		index = cluster_find(cluster, place);
		pthread_mutex_unlock(&cluster->mutex);
	}
	bool known = index != ANY && shard_at(cluster, index) != shard;
	bool moved = *words == 'M';
	if (known && moved)
		slot_give(cluster, slot, index, true);
	if (!known && moved) /* a failover: its heir is not known yet */
		lk__scout_want(cluster->scout, LK__WANT_SUSPECTED);
	else if (!known || moved)
		lk__scout_want(cluster->scout, LK__WANT_LATER);
	return known ? &shard_at(cluster, index)->node : NULL;
}

static void shard_unref(struct lk__finder *finder)
{
	struct shard *shard = (struct shard *)finder;
	if (atomic_fetch_sub(&finder->refs, 1) == 1)
		cluster_unref(shard->cluster);
}

static const struct lk__finder_ops finder_ops = {
	.find = shard_find,
	.suspect = shard_suspect,
	.redirect = shard_redirect,
	.unref = shard_unref,
};

/* ---- shards ---- */

/* Without memory or room for one more: NULL. */
static struct shard *shard_add(struct cluster *cluster, lk_error *error)
{
	size_t count = atomic_load(&cluster->count);
	struct shard *shard = count < SHARDS_MAX ? calloc(1, sizeof(*shard)) : NULL;
	if (!shard) {
		lk__fail(error, LK_ENOMEM, "%s: out of memory", cluster->config->url);
		return NULL;
	}
	if (lk__node_init(&shard->node, cluster->config, cluster->events, cluster->context, error) <
	    0) {
		lk__node_destroy(&shard->node);
		free(shard);
		return NULL;
	}
	atomic_store(&shard->finder.refs, 1);
	shard->finder.ops = &finder_ops;
	shard->cluster = cluster;
	shard->node.finder = &shard->finder;
	shard->node.replicas.named = true;
	atomic_store(&shard->node.was_up, count > ANY); /* the cluster was reached: be patient */
	if (count == ANY) /* its replicas are not known: no lock is granted there */
		atomic_store(&shard->node.replicas.count, LK__ACKS_MAX + 1);
	atomic_fetch_add(&cluster->refs, 1);
	atomic_store_explicit(&cluster->shard[count], shard, memory_order_release);
	atomic_store(&cluster->count, count + 1);
	return shard;
}

/* Its master is there now; "": it has none. */
static void shard_move(struct shard *shard, const char *place)
{
	struct cluster *cluster = shard->cluster;
	const struct lk_config *config = cluster->config;
	char reason[128];
	if (strcmp(shard->place, place) == 0)
		return;
	bool first = shard->generation == 0;
	pthread_mutex_lock(&cluster->mutex);
	memcpy(shard->place, place, strlen(place) + 1);
	shard->generation = atomic_fetch_add(&shard->finder.generation, 1) + 1;
	pthread_mutex_unlock(&cluster->mutex);
	snprintf(reason, sizeof(reason), *place ? "the master is now %.80s" : "it has no slots%s",
		 place);
	if (shard != shard_at(cluster, ANY)) /* a waiter for one without slots goes elsewhere */
		atomic_store(&shard->node.was_up, *place != '\0');
	if (first)
		return;
	lk__log(&config->log, LK_LOG_WARNING, "%.200s: %s", config->url, reason);
	lk__node_count_failover(&shard->node, place);
	lk__node_disown(&shard->node, reason);
}

static bool shard_has(const struct shard *shard, const char *id)
{
	for (size_t i = 0; i < shard->member_count && i < LK__ACKS_MAX; i++)
		if (strcmp(shard->member[i], id) == 0)
			return true;
	return false;
}

/* For good: right after a failover the new master does not name the old one, and a map that does
 * may be believed once more. */
static void shard_join(struct shard *shard, const char *id)
{
	if (shard_has(shard, id))
		return;
	pthread_mutex_lock(&shard->cluster->mutex);
	memcpy(shard->member[shard->member_count++ % LK__ACKS_MAX], id, LK__NODE_ID_SIZE);
	pthread_mutex_unlock(&shard->cluster->mutex);
}

static void shard_know(struct shard *shard, const struct lk__map_master *master)
{
	struct lk__replicas *replicas = &shard->node.replicas;
	size_t count = master->replica_count;
	memcpy(shard->id, master->node.id, sizeof(shard->id));
	shard_join(shard, master->node.id);
	for (size_t i = 0; i < count && i < LK__ACKS_MAX; i++)
		shard_join(shard, master->replica[i].id);
	pthread_mutex_lock(&replicas->mutex);
	for (size_t i = 0; i < count && i < LK__ACKS_MAX; i++)
		memcpy(replicas->place[i], master->replica[i].place, sizeof(replicas->place[i]));
	atomic_store(&replicas->count, (int)(count > LK__ACKS_MAX ? LK__ACKS_MAX + 1 : count));
	pthread_mutex_unlock(&replicas->mutex);
}

/* The shard whose master this was, or else, for an heir, whose replica. ANY: there is none. */
static size_t shard_of(struct cluster *cluster, const struct lk__map_master *master, bool heir)
{
	for (size_t i = ANY + 1; i < atomic_load(&cluster->count); i++) {
		const struct shard *shard = shard_at(cluster, i);
		if (heir ? shard_has(shard, master->node.id)
			 : strcmp(shard->id, master->node.id) == 0)
			return i;
	}
	return ANY;
}

/* ---- the map ---- */

static bool has_answered(const struct lk__scout *scout, const char *place)
{
	for (size_t i = 0; i < lk__scout_count(scout); i++) {
		const struct lk__peer *peer = lk__scout_peer(scout, i);
		if (strcmp(peer->name, place) == 0)
			return lk__scout_has_answered(scout, peer);
	}
	return false;
}

/* Any node will do, as long as it is one: if possible one that answers. */
static void any_move(struct cluster *cluster, const struct lk__map *map)
{
	struct shard *any = shard_at(cluster, ANY);
	const struct lk__map_master *chosen = &map->master[0];
	for (size_t i = map->count; i-- > 0;) {
		const struct lk__map_master *master = &map->master[i];
		if (strcmp(master->node.place, any->place) == 0)
			return;
		if (has_answered(cluster->scout, master->node.place))
			chosen = master;
	}
	shard_move(any, chosen->node.place);
}

/* A shard has a slot of which nodes disagree. */
static bool is_disputed(const struct cluster *cluster, const struct lk__map *map, size_t index)
{
	for (size_t slot = 0; slot < LK__SLOTS; slot++)
		if (map->owner[slot] == LK__MAP_OPEN && atomic_load(&cluster->slot[slot]) == index)
			return true;
	return false;
}

/* Which shards the masters are: those that go on first, then the heirs of those that do not, then
 * new ones. */
static bool cluster_assign(struct cluster *cluster, const struct lk__map *map, uint16_t *index_out,
			   lk_error *error)
{
	bool taken[SHARDS_MAX] = {true}; /* ANY */
	memset(index_out, ANY, map->count * sizeof(*index_out));
	for (int heir = 0; heir < 2; heir++)
		for (size_t i = 0; i < map->count; i++) {
			size_t index = shard_of(cluster, &map->master[i], heir);
			if (index_out[i] != ANY || taken[index])
				continue;
			index_out[i] = (uint16_t)index;
			taken[index] = true;
		}
	for (size_t i = ANY + 1; i < atomic_load(&cluster->count); i++)
		if (!taken[i] && !is_disputed(cluster, map, i))
			shard_move(shard_at(cluster, i), "");
	for (size_t i = 0; i < map->count; i++) {
		if (index_out[i] != ANY)
			continue;
		index_out[i] = (uint16_t)atomic_load(&cluster->count);
		if (!shard_add(cluster, error))
			return false;
	}
	return true;
}

static bool is_astray(const void *context, const char *channel, size_t size)
{
	const struct shard *shard = context;
	size_t index = atomic_load(&shard->cluster->slot[lk__slot_of(channel, size)]);
	return shard_at(shard->cluster, index) != shard;
}

/* A waiter where the slot was looks where it is: a release there may have told nobody. */
static void cluster_wake_astray(struct cluster *cluster)
{
	for (size_t i = 0; i < atomic_load(&cluster->count); i++) {
		struct shard *shard = shard_at(cluster, i);
		lk__channels_wake(&shard->node.messages, is_astray, shard);
	}
}

static void cluster_believe(struct cluster *cluster, const struct lk__map *map, lk_error *error)
{
	uint16_t index[LK__MAP_MASTERS_MAX];
	bool first = atomic_load(&cluster->count) == ANY + 1;
	if (!cluster_assign(cluster, map, index, error))
		return;
	for (size_t i = 0; i < map->count; i++) {
		struct shard *shard = shard_at(cluster, index[i]);
		shard_move(shard, map->master[i].node.place); /* no old connection asks for fewer */
		shard_know(shard, &map->master[i]);
	}
	any_move(cluster, map);
	for (size_t slot = 0; slot < LK__SLOTS; slot++) {
		uint16_t owner = map->owner[slot];
		if (owner != LK__MAP_OPEN)
			slot_give(cluster, slot, owner ? index[owner - 1] : ANY, !first);
	}
	cluster_wake_astray(cluster);
}

/* ---- asking for it ---- */

static int cluster_ask(struct lk__scout *scout, struct lk__peer *peer, bool first)
{
	int rc = 0;
	(void)scout;
	if (first)
		rc = lk__link_say(&peer->ask, "MYID", LK__SAY("CLUSTER", "MYID"));
	return rc ? rc : lk__link_say(&peer->ask, "SLOTS", LK__SAY("CLUSTER", "SLOTS"));
}

static void maps_drop(struct cluster *cluster)
{
	while (cluster->map_count > 0)
		lk__map_free(cluster->map[--cluster->map_count]);
}

/* Keeps one of each that are alike: the last, with the replicas that any of them names. */
static void map_keep(struct cluster *cluster, struct lk__map *map)
{
	size_t at = 0;
	if (cluster->map_round != lk__scout_round(cluster->scout))
		maps_drop(cluster);
	cluster->map_round = lk__scout_round(cluster->scout);
	while (at < cluster->map_count && cluster->map[at]->digest != map->digest)
		at++;
	if (at == LK__PEERS_MAX) { /* more answers than peers: some have answered twice */
		lk__map_free(map);
		return;
	}
	if (at < cluster->map_count) {
		lk__map_add_replicas(map, cluster->map[at]);
		lk__map_free(cluster->map[at]);
	} else {
		cluster->map_count++;
	}
	cluster->map[at] = map;
}

static void learn_masters(struct lk__scout *scout, const struct lk__map *map)
{
	for (size_t i = 0; i < map->count && i < PEERS_WANTED; i++)
		lk__scout_learn(scout, map->master[i].node.place, map->master[i].node.id);
}

static void map_says(const struct lk__map *map, char says_out[LK__PLACE_SIZE])
{
	snprintf(says_out, LK__PLACE_SIZE, "%016llx", (unsigned long long)map->digest);
}

static void map_answered(struct lk__scout *scout, struct lk__peer *peer, const redisReply *reply)
{
	const char *fault;
	*peer->says = '\0';
	if (reply->type == REDIS_REPLY_ERROR) {
		if (strstr(reply->str, "cluster support disabled"))
			lk__scout_fault(peer, LK_EREFUSED, "it is not a node of a cluster");
		else
			lk__scout_refused(peer, reply->str);
		return;
	}
	struct lk__map *map = lk__map_read(reply, peer->name, &fault);
	if (!map) {
		lk__scout_fault(peer, fault ? LK_EUNAVAILABLE : LK_ENOMEM,
				fault ? fault : "out of memory");
		return;
	}
	map_says(map, peer->says);
	lk__scout_fault(peer, LK_EUNAVAILABLE, "it tells another map of the slots");
	learn_masters(scout, map);
	map_keep(lk__scout_kind(scout), map);
}

static bool cluster_answered(struct lk__scout *scout, struct lk__peer *peer, const char *what,
			     const redisReply *reply)
{
	bool map = strcmp(what, "SLOTS") == 0;
	if (strcmp(what, "AUTH") == 0 && reply->type == REDIS_REPLY_ERROR)
		lk__scout_refused(peer, reply->str);
	else if (strcmp(what, "MYID") == 0 && reply->type == REDIS_REPLY_STRING)
		snprintf(peer->id, sizeof(peer->id), "%s", reply->str);
	else if (map)
		map_answered(scout, peer, reply);
	return map;
}

static const struct lk__map *map_of(const struct cluster *cluster, const char *saying)
{
	for (size_t i = 0; i < cluster->map_count; i++)
		if (cluster->map[i]->digest == strtoull(saying, NULL, 16))
			return cluster->map[i];
	return NULL;
}

/* A node that answers and is not in the cluster counts more than one that does not answer. */
static int cluster_fault(const struct lk__scout *scout)
{
	int code = LK_EUNREACHABLE;
	for (size_t i = 0; i < lk__scout_count(scout); i++) {
		int other = lk__scout_peer(scout, i)->code;
		if (other == LK_EREFUSED || (other == LK_EUNAVAILABLE && code != LK_EREFUSED))
			code = other;
	}
	return code;
}

static void cluster_fail(const struct lk__scout *scout, size_t votes, lk_error *error)
{
	int code = cluster_fault(scout);
	if (votes == 0)
		lk__scout_fail(scout, error, lk__scout_worst(scout, code),
			       "no node tells the map of the slots");
	else
		lk__scout_fail(scout, error, LK_EUNAVAILABLE, "the nodes disagree");
}

/* No map is that of most: what most say of each slot. False: they agree about none. */
static bool cluster_believe_slots(struct cluster *cluster, const struct lk__scout *scout, size_t of,
				  lk_error *error)
{
	struct lk__map_vote votes[LK__PEERS_MAX];
	char says[LK__PLACE_SIZE];
	for (size_t i = 0; i < cluster->map_count; i++) {
		map_says(cluster->map[i], says);
		votes[i] = (struct lk__map_vote){.map = cluster->map[i],
						 .votes = lk__vote_count(scout, says)};
	}
	struct lk__map *map = lk__map_merge(votes, cluster->map_count, of);
	bool agrees = map && map->count > 0;
	if (agrees)
		cluster_believe(cluster, map, error);
	lk__map_free(map);
	return agrees;
}

static void cluster_told(struct lk__scout *scout)
{
	struct cluster *cluster = lk__scout_kind(scout);
	for (size_t i = 0; i < atomic_load(&cluster->count); i++)
		lk__node_found(&shard_at(cluster, i)->node);
}

static bool cluster_judge(struct lk__scout *scout, bool over, lk_error *error)
{
	struct cluster *cluster = lk__scout_kind(scout);
	struct lk__vote vote = lk__vote_of(scout);
	const struct lk__map *map = map_of(cluster, vote.common);
	if (vote.most > 0 && map && lk__vote_decides(&vote, over)) {
		cluster_believe(cluster, map, error);
		return true;
	}
	if (over && !(vote.votes && cluster_believe_slots(cluster, scout, vote.votes, error)))
		cluster_fail(scout, vote.votes, error);
	return over;
}

static const struct lk__scout_ops scout_ops = {
	.ask = cluster_ask,
	.answered = cluster_answered,
	.judge = cluster_judge,
	.told = cluster_told,
};

/* ---- the table ---- */

static struct lk__node *cluster_node_of(struct lk__topo *topo, uint16_t slot)
{
	struct cluster *cluster = (struct cluster *)topo;
	size_t index = atomic_load_explicit(&cluster->slot[slot], memory_order_acquire);
	return &shard_at(cluster, index)->node;
}

static struct lk__node *cluster_node_at(struct lk__topo *topo, size_t index)
{
	struct cluster *cluster = (struct cluster *)topo;
	return index < atomic_load(&cluster->count) ? &shard_at(cluster, index)->node : NULL;
}

/* The masters that have slots, by index. */
static struct lk__node *cluster_keeper_at(struct lk__topo *topo, size_t index)
{
	struct cluster *cluster = (struct cluster *)topo;
	struct lk__node *node = NULL;
	pthread_mutex_lock(&cluster->mutex);
	for (size_t i = ANY + 1; i < atomic_load(&cluster->count) && !node; i++) {
		struct shard *shard = shard_at(cluster, i);
		if (*shard->place && index-- == 0)
			node = &shard->node;
	}
	pthread_mutex_unlock(&cluster->mutex);
	return node;
}

static bool cluster_has(struct lk__topo *topo, const char *id)
{
	struct cluster *cluster = (struct cluster *)topo;
	bool has = false;
	pthread_mutex_lock(&cluster->mutex);
	for (size_t i = ANY + 1; i < atomic_load(&cluster->count) && !has; i++)
		has = shard_has(shard_at(cluster, i), id);
	pthread_mutex_unlock(&cluster->mutex);
	return has;
}

static int64_t cluster_moved_ns(struct lk__topo *topo, uint16_t slot)
{
	return atomic_load(&((struct cluster *)topo)->moved_ns[slot]);
}

/* The scout first: it breaks connections, and adds nodes. */
static void cluster_close(struct lk__topo *topo)
{
	struct cluster *cluster = (struct cluster *)topo;
	struct lk__node *node;
	if (cluster->scout)
		lk__scout_stop(cluster->scout);
	for (size_t i = 0; (node = cluster_node_at(topo, i)); i++)
		lk__node_close(node);
}

static void cluster_free(struct lk__topo *topo)
{
	struct cluster *cluster = (struct cluster *)topo;
	size_t count = atomic_load(&cluster->count);
	for (size_t i = 0; i < count; i++)
		lk__node_destroy(&shard_at(cluster, i)->node);
	for (size_t i = 0; i < count; i++)
		shard_unref(&shard_at(cluster, i)->finder);
	cluster_unref(cluster);
}

static int64_t cluster_turn(struct lk__topo *topo, int set_fd)
{
	return lk__scout_turn(((struct cluster *)topo)->scout, set_fd);
}

static const struct lk__topo_ops topo_ops = {
	.node_of = cluster_node_of,
	.node_at = cluster_node_at,
	.keeper_at = cluster_keeper_at,
	.has = cluster_has,
	.moved_ns = cluster_moved_ns,
	.turn = cluster_turn,
	.close = cluster_close,
	.free = cluster_free,
};

static int cluster_check(const struct lk_config *config, lk_error *error)
{
	if (config->database != 0)
		return lk__fail(error, LK_EINVAL, "%s: a cluster has no database but 0",
				config->url);
	return 0;
}

int lk__topo_cluster_new(struct lk__topo **topo_out, const struct lk_config *config,
			 const struct lk__node_events *events, void *context, lk_error *error)
{
	int rc = cluster_check(config, error);
	struct cluster *cluster = rc == 0 ? calloc(1, sizeof(*cluster)) : NULL;
	if (!cluster)
		return rc ? rc : lk__fail(error, LK_ENOMEM, "out of memory");
	cluster->topo = (struct lk__topo){.ops = &topo_ops, .slotted = true};
	atomic_store(&cluster->refs, 1);
	cluster->config = config;
	cluster->events = events;
	cluster->context = context;
	pthread_mutex_init(&cluster->mutex, NULL);
	rc = lk__scout_new(&cluster->scout, &scout_ops, cluster, lk__config_copy(config), config,
			   error);
	if (rc == 0 && !shard_add(cluster, error))
		rc = error ? error->code : LK_ENOMEM;
	if (rc < 0) {
		cluster_free(&cluster->topo);
		return rc;
	}
	*topo_out = &cluster->topo;
	return 0;
}
