/* SPDX-License-Identifier: MIT */
#include "topo/master.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "conf/config.h"
#include "topo/sentinel.h"
#include "topo/topo.h"

/* A replica, and what it is one of. */
struct replica {
	char place[LK__CONN_PLACE_SIZE], master[LK__PLACE_SIZE];
	uint64_t round; /* in which a peer said that it is alive, */
	uint64_t shown; /* or showed it at all */
	bool followed;  /* ever */
};

struct master {
	struct lk__finder finder; /* first */
	const struct lk__master_ops *ops;
	struct lk__scout *scout;
	struct lk__node *node; /* not after the stop */

	/* The scout's thread's. */
	struct replica replicas[LK__ACKS_MAX];
	struct replica returning;      /* a former master, see struct lk__replicas */
	uint64_t too_many_round;       /* there were too many then: no lock is granted */
	char believed[LK__PLACE_SIZE]; /* or "" */
	char former[LK__PLACE_SIZE];   /* believed before that, until it follows; or "" */

	pthread_mutex_t mutex;      /* of what follows */
	char place[LK__PLACE_SIZE]; /* the master, or "", */
	uint64_t generation;        /* as of which it is believed */
};

static struct master *master_of(const struct lk__scout *scout)
{
	return lk__scout_kind(scout);
}

/* ---- replicas ---- */

static bool replica_is(const struct replica *replica, const char *place, const char *master)
{
	return strcmp(replica->place, place) == 0 && strcmp(replica->master, master) == 0;
}

static uint64_t later_round(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/* As `peer` says. Peers answer at different speeds: what a slow one says of an earlier round takes
 * nothing back of what another said of a later one, or a replica that is alive would not count. */
static void replica_set(struct replica *replica, const char *place, const struct lk__peer *peer,
			bool alive)
{
	if (!replica_is(replica, place, peer->says))
		replica->round = replica->shown = 0;
	memcpy(replica->place, place, sizeof(replica->place));
	memcpy(replica->master, peer->says, sizeof(replica->master));
	if (alive)
		replica->round = later_round(replica->round, peer->asked_round);
	replica->shown = later_round(replica->shown, peer->asked_round);
}

/* Its own; else one that is free; else, if it is alive, that of one that is not. */
static struct replica *master_slot(struct master *master, const char *place, const char *of,
				   bool alive)
{
	struct replica *free = NULL, *down = NULL;
	uint64_t round = lk__scout_round(master->scout);
	for (size_t i = 0; i < LK__ACKS_MAX; i++) {
		struct replica *replica = &master->replicas[i];
		if (replica_is(replica, place, of))
			return replica;
		bool stale = *replica->place && replica->shown + 1 < round;
		if (!*replica->place || (stale && !(free && !*free->place)))
			free = replica;
		else if (alive && replica->round + 1 < round)
			down = replica;
	}
	return free ? free : down;
}

/* It has followed this master, or one before it. */
static bool has_followed(const struct master *master, const char *place)
{
	for (size_t i = 0; i < LK__ACKS_MAX; i++)
		if (master->replicas[i].followed && strcmp(master->replicas[i].place, place) == 0)
			return true;
	return false;
}

/*
 * Tells whether the replica was the master, as this client remembers or the peer has it. It counts
 * once it has followed, or when its master has it connected. It takes sentinels 8 s to have it
 * follow the new master, and up to 10 s to see that it does. They may promote it again before that.
 */
static bool is_returning(const struct master *master, const struct lk__master_replica *replica)
{
	return replica->was_master || strcmp(replica->place, master->former) == 0;
}

/* One whose link is down is only shown, in case that few answer, while it returns; and while it
 * joins, unless it has been seen to follow before. */
void lk__master_hear(const struct lk__scout *scout, const struct lk__peer *peer,
		     const struct lk__master_replica *replica)
{
	struct master *master = master_of(scout);
	char cut[LK__CONN_PLACE_SIZE];
	snprintf(cut, sizeof(cut), "%.63s", replica->place);
	bool linked = !replica->alive || replica->promoted || replica->follows;
	bool returns = !linked && is_returning(master, replica);
	bool followed = replica->follows || has_followed(master, cut);
	bool counts = replica->alive && !returns && (linked || followed || !replica->joins);
	struct replica *slot = master_slot(master, cut, peer->says, counts);
	if (slot) {
		replica_set(slot, cut, peer, counts);
		slot->followed = followed;
	} else if (counts) {
		master->too_many_round = lk__scout_round(scout);
	}
	if (returns && peer->asked_round >= master->returning.round)
		replica_set(&master->returning, cut, peer, true);
	if (replica->follows && strcmp(replica->place, master->former) == 0 &&
	    strcmp(peer->says, master->believed) == 0)
		*master->former = '\0'; /* it counts from now on, also where its link is down */
}

/* While some have not answered, those of the last round count as well. */
static bool replica_counts(const struct replica *replica, const char *place, uint64_t round,
			   bool over)
{
	return replica->round + !over >= round && *replica->place &&
	       strcmp(replica->master, place) == 0;
}

static bool replica_is_shown(const struct replica *replica, const char *place, uint64_t round)
{
	return replica->shown >= round && *replica->place && strcmp(replica->master, place) == 0;
}

/* Under the replicas' mutex. */
static void master_set_returning(struct master *master, const char *place, uint64_t round,
				 bool over)
{
	struct lk__replicas *replicas = &master->node->replicas;
	bool returns = replica_counts(&master->returning, place, round, over);
	const char *returning = returns ? master->returning.place : "";
	snprintf(replicas->returning, sizeof(replicas->returning), "%s", returning);
	atomic_store(&replicas->returns, returns);
}

static void master_count_named(struct master *master, const char *place, bool over, bool few)
{
	struct lk__replicas *replicas = &master->node->replicas;
	uint64_t round = lk__scout_round(master->scout);
	int count = 0;
	pthread_mutex_lock(&replicas->mutex);
	for (size_t i = 0; i < LK__ACKS_MAX; i++)
		if (replica_counts(&master->replicas[i], place, round, over) ||
		    (few && replica_is_shown(&master->replicas[i], place, round)))
			memcpy(replicas->place[count++], master->replicas[i].place,
			       sizeof(replicas->place[0]));
	atomic_store(&replicas->count, master->too_many_round == round ? LK__ACKS_MAX + 1 : count);
	master_set_returning(master, place, round, over);
	pthread_mutex_unlock(&replicas->mutex);
}

static void master_count_listed(struct master *master, const char *place)
{
	struct lk__replicas *replicas = &master->node->replicas;
	pthread_mutex_lock(&replicas->mutex);
	int count = master->ops->replicas(master->scout, place, &replicas->list);
	atomic_store(&replicas->count, count);
	pthread_mutex_unlock(&replicas->mutex);
}

static void master_count_replicas(struct master *master, const char *place, bool over, bool few)
{
	if (master->ops->replicas)
		master_count_listed(master, place);
	else
		master_count_named(master, place, over, few);
}

/* ---- what is believed ---- */

/* "": nothing. */
static void master_believe(struct master *master, const char *place)
{
	const struct lk_config *config = lk__scout_config(master->scout);
	char reason[128];
	if (strcmp(master->believed, place) == 0)
		return;
	bool first = atomic_load(&master->finder.generation) == 0;
	if (*master->believed)
		memcpy(master->former, master->believed, sizeof(master->former));
	snprintf(master->believed, sizeof(master->believed), "%s", place);
	pthread_mutex_lock(&master->mutex);
	memcpy(master->place, master->believed, sizeof(master->place));
	master->generation = atomic_fetch_add(&master->finder.generation, 1) + 1;
	pthread_mutex_unlock(&master->mutex);
	snprintf(reason, sizeof(reason), *place ? "the master is now %.80s" : "it is no master%s",
		 place);
	lk__log(&config->log, first ? LK_LOG_INFO : LK_LOG_WARNING, "%.200s: %s", config->url,
		*place ? reason : "no master is believed");
	if (first)
		return;
	lk__node_count_failover(master->node, place);
	lk__node_disown(master->node, reason);
}

bool lk__master_judge(struct lk__scout *scout, bool over, lk_error *error)
{
	struct master *master = master_of(scout);
	char place[LK__PLACE_SIZE];
	enum lk__verdict verdict = master->ops->judge(scout, master->believed, over, place, error);
	bool few = verdict == LK__VERDICT_FEW;
	if (verdict == LK__VERDICT_MASTER || few) {
		master_believe(master, place); /* first: no old connection is asked for fewer */
		master_count_replicas(master, place, over, few);
	} else if (verdict == LK__VERDICT_NO_MASTER) {
		master_believe(master, "");
	}
	return verdict != LK__VERDICT_OPEN;
}

void lk__master_told(struct lk__scout *scout)
{
	lk__node_found(master_of(scout)->node);
}

/* ---- the finder ---- */

static int master_find(struct lk__finder *finder, struct lk_config *config,
		       uint64_t *generation_out, uint64_t *asked, int64_t deadline_ns,
		       lk_error *error)
{
	struct master *master = (struct master *)finder;
	char place[LK__PLACE_SIZE];
	int rc = lk__scout_await(master->scout, asked, deadline_ns, error);
	if (rc == 1)
		return 1;
	pthread_mutex_lock(&master->mutex);
	*generation_out = master->generation;
	memcpy(place, master->place, sizeof(place));
	pthread_mutex_unlock(&master->mutex);
	if (rc == 0 && !*place) /* just now */
		rc = lk__fail(error, LK_EUNAVAILABLE, "%s: no master is believed",
			      lk__scout_config(master->scout)->url);
	return rc ? rc : lk__scout_point(master->scout, place, config, error);
}

static void master_suspect(struct lk__finder *finder)
{
	lk__scout_want(((struct master *)finder)->scout, LK__WANT_SUSPECTED);
}

static void master_unref(struct lk__finder *finder)
{
	struct master *master = (struct master *)finder;
	if (atomic_fetch_sub(&finder->refs, 1) > 1)
		return;
	lk__scout_unref(master->scout);
	pthread_mutex_destroy(&master->mutex);
	free(master);
}

static const struct lk__finder_ops master_finder_ops = {
	.find = master_find,
	.suspect = master_suspect,
	.unref = master_unref,
};

/* The node's server moves: a scout finds it. */
static int master_new(struct master **master_out, struct lk__node *node, lk_error *error)
{
	const struct lk_config *config = node->config;
	bool watched = config->deployment == LK__SENTINEL;
	const struct lk__master_ops *ops = watched ? &lk__sentinel_ops : &lk__replicas_ops;
	struct lk_config *asking = watched ? lk__sentinel_config(config) : lk__config_copy(config);
	struct master *master = calloc(1, sizeof(*master));
	if (!master) {
		lk_config_free(asking);
		return lk__fail(error, LK_ENOMEM, "out of memory");
	}
	int rc = lk__scout_new(&master->scout, &ops->scout, master, asking, config, error);
	if (rc < 0) {
		free(master);
		return rc;
	}
	pthread_mutex_init(&master->mutex, NULL);
	atomic_store(&master->finder.refs, 1);
	master->finder.ops = &master_finder_ops;
	master->ops = ops;
	master->node = node;
	node->replicas.named = !ops->replicas;
	node->replicas.listed = ops->replicas;
	node->finder = &master->finder;
	*master_out = master;
	return 0;
}

/* ---- one node that has every key ---- */

struct lone {
	struct lk__topo topo; /* first */
	struct lk__node node;
	struct master *master; /* finds its server; NULL: that does not move */
};

static struct lk__node *lone_node_at(struct lk__topo *topo, size_t index)
{
	return index == 0 ? topo->node : NULL;
}

static int64_t lone_turn(struct lk__topo *topo, int set_fd)
{
	struct master *master = ((struct lone *)topo)->master;
	return master ? lk__scout_turn(master->scout, set_fd) : LK__NEVER;
}

/* The scout first: it breaks connections. The master does not touch the node any more then. */
static void lone_close(struct lk__topo *topo)
{
	struct lone *lone = (struct lone *)topo;
	if (lone->master)
		lk__scout_stop(lone->master->scout);
	lk__node_close(&lone->node);
}

static void lone_free(struct lk__topo *topo)
{
	struct lone *lone = (struct lone *)topo;
	lk__node_destroy(&lone->node);
	if (lone->master)
		master_unref(&lone->master->finder);
	free(lone);
}

static const struct lk__topo_ops lone_ops = {
	.node_at = lone_node_at,
	.keeper_at = lone_node_at,
	.turn = lone_turn,
	.close = lone_close,
	.free = lone_free,
};

int lk__topo_lone_new(struct lk__topo **topo_out, const struct lk_config *config,
		      const struct lk__node_events *events, void *context, lk_error *error)
{
	struct lone *lone = calloc(1, sizeof(*lone));
	if (!lone)
		return lk__fail(error, LK_ENOMEM, "out of memory");
	lone->topo = (struct lk__topo){.ops = &lone_ops, .node = &lone->node};
	int rc = lk__node_init(&lone->node, config, events, context, error);
	if (rc == 0 && config->deployment != LK__SINGLE)
		rc = master_new(&lone->master, &lone->node, error);
	if (rc < 0) {
		lone_free(&lone->topo);
		return rc;
	}
	*topo_out = &lone->topo;
	return 0;
}
