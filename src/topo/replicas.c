/* SPDX-License-Identifier: MIT */
/*
 * A master with replicas, all of them listed: the master is the one that says so.
 *
 * Two masters are as good as no master: while a master is being replaced by hand both may say so
 * for a moment, and two clients must not believe different ones. A server that does not answer has
 * no say.
 *
 * A replica counts while it answers, whatever it follows: it may be promoted. Its address tells
 * which of those it is that its master has connected (listed replicas in conn/node.h).
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "conf/config.h"
#include "topo/master.h"

static int replicas_ask(struct lk__scout *scout, struct lk__peer *peer, bool first)
{
	(void)scout;
	(void)first;
	return lk__link_say(&peer->ask, "ROLE", LK__SAY("ROLE"));
}

#define FOLLOWING "slave, connected" /* a replica that has a link to its master says this */

static_assert(LK__PEERS_MAX <= LK__ACKS_MAX, "the list has room for all peers");

static bool is_following(const redisReply *role)
{
	return role->elements > 3 && role->element[3]->type == REDIS_REPLY_STRING &&
	       strcmp(role->element[3]->str, "connected") == 0;
}

static bool is_replica(const struct lk__peer *peer)
{
	return strcmp(peer->says, "slave") == 0 || strcmp(peer->says, FOLLOWING) == 0;
}

/* It says its role. */
static bool replicas_answered(struct lk__scout *scout, struct lk__peer *peer, const char *what,
			      const redisReply *reply)
{
	bool auth = strcmp(what, "AUTH") == 0;
	(void)scout;
	if (!auth)
		*peer->says = '\0';
	if (reply->type == REDIS_REPLY_ERROR) {
		lk__scout_refused(peer, reply->str);
	} else if (!auth && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
		   reply->element[0]->type == REDIS_REPLY_STRING) {
		snprintf(peer->says, sizeof(peer->says), "%.20s", reply->element[0]->str);
		bool master = strcmp(peer->says, "master") == 0;
		bool replica = strcmp(peer->says, "slave") == 0;
		if (replica && is_following(reply))
			snprintf(peer->says, sizeof(peer->says), FOLLOWING);
		lk__scout_fault(peer, LK_EUNAVAILABLE,
				master    ? "a master"
				: replica ? "a replica"
					  : "no server of data");
	}
	return !auth;
}

static bool replica_is_master(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return lk__scout_has_answered(scout, peer) && strcmp(peer->says, "master") == 0;
}

/* It has said so, and is asked again. */
static bool may_be_master(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return !lk__scout_has_answered(scout, peer) && strcmp(peer->says, "master") == 0 &&
	       lk__scout_is_alive(peer);
}

/* The one that is believed may be believed again before all the others have answered, unless one of
 * those was a master when it was last heard: it is no replica that must have a grant. */
static enum lk__verdict replicas_judge(const struct lk__scout *scout, const char *believed,
				       bool over, char *place_out, lk_error *error)
{
	size_t masters = 0, answers = 0;
	bool known = false, denied = false, doubted = false;
	for (size_t i = 0; i < lk__scout_count(scout); i++) {
		const struct lk__peer *peer = lk__scout_peer(scout, i);
		bool master = replica_is_master(scout, peer);
		bool same = strcmp(peer->name, believed) == 0;
		answers += lk__scout_has_answered(scout, peer);
		masters += master;
		known |= master && same;
		doubted |= !same && may_be_master(scout, peer);
		denied |= !master && same && lk__scout_has_answered(scout, peer);
		if (master && (masters == 1 || same))
			memcpy(place_out, peer->name, LK__PLACE_SIZE);
	}
	if (masters == 1 && !doubted && (over || known))
		return LK__VERDICT_MASTER;
	if (masters > 1 || (over && masters == 1)) {
		lk__scout_fail(scout, error, LK_EUNAVAILABLE,
			       "two of the listed servers say that they are the master");
		return LK__VERDICT_NO_MASTER;
	}
	if (!over)
		return LK__VERDICT_OPEN;
	lk__scout_fail(scout, error,
		       lk__scout_worst(scout, answers ? LK_EUNAVAILABLE : LK_EUNREACHABLE),
		       answers ? "none of the listed servers is a master"
			       : "none of the listed servers answers");
	return denied ? LK__VERDICT_NO_MASTER : LK__VERDICT_UNKNOWN;
}

/* Writes host:port of where it is connected to, with the host's address, into LK__PLACE_SIZE bytes;
 * "": it is not connected. */
static void link_address(const struct lk__link *link, char *place_out)
{
	char host[LK__PLACE_SIZE];
	*place_out = '\0';
	if (link->stream && lk__socket_peer(link->stream->fd, host, sizeof(host)) == 0)
		lk__place_name(place_out, host, link->config->port);
}

/* A link that is down leaves the address that it had. */
static void note_replica(struct lk__listed_replica *replica, const struct lk__peer *peer,
			 bool alive)
{
	char address[LK__PLACE_SIZE];
	link_address(&peer->ask, address);
	if (*address)
		snprintf(replica->address, sizeof(replica->address), "%.63s", address);
	replica->alive = alive;
	replica->follows = alive && strcmp(peer->says, FOLLOWING) == 0;
}

/* One that has not answered yet counts, however many rounds others have answered meanwhile. */
static int replicas_alive(const struct lk__scout *scout, const char *place,
			  struct lk__listed *listed)
{
	int alive = 0;
	for (size_t i = 0; i < lk__scout_count(scout); i++) {
		const struct lk__peer *peer = lk__scout_peer(scout, i);
		bool other = strcmp(peer->name, place) != 0;
		bool counts = is_replica(peer) && other && lk__scout_is_alive(peer);
		note_replica(lk__listed_of(listed, peer->name), peer, counts);
		alive += counts;
	}
	return alive;
}

const struct lk__master_ops lk__replicas_ops = {
	.scout = {.ask = replicas_ask,
		  .answered = replicas_answered,
		  .judge = lk__master_judge,
		  .told = lk__master_told},
	.replicas = replicas_alive,
	.judge = replicas_judge,
};
