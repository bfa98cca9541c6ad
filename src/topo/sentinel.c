/* SPDX-License-Identifier: MIT */
/*
 * A master that sentinels watch: it is where most of them say.
 *
 * An address is believed as soon as more than half of all known sentinels name it. When not all
 * answer, more than half of those that do are enough (vote.h). But if those are not more than half
 * of all, the others may be together on another side of the network, where they replace the master
 * by a replica that is down in the eyes of these: no replica is down then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "resp/reply.h"
#include "topo/master.h"
#include "topo/sentinel.h"
#include "topo/vote.h"

#define NOBODY "nobody" /* what a sentinel says that does not know the master; no address */
#define UNHEARD_MS 2500 /* more than two of a sentinel's pings, one a second */

static bool asks_replicas(const struct lk__scout *scout)
{
	return lk__config_acks(lk__scout_config(scout)) == LK__ACKS_ALL;
}

static int sentinel_ask(struct lk__scout *scout, struct lk__peer *peer, bool first)
{
	const char *master = lk__scout_config(scout)->master;
	int rc = 0;
	if (first)
		rc = lk__link_say(&peer->ask, "MYID", LK__SAY("SENTINEL", "MYID"));
	if (rc == 0)
		rc = lk__link_say(&peer->ask, "MASTER",
				  LK__SAY("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master));
	if (rc == 0 && asks_replicas(scout))
		rc = lk__link_say(&peer->ask, "REPLICAS", LK__SAY("SENTINEL", "REPLICAS", master));
	if (rc == 0)
		rc = lk__link_say(&peer->ask, "OTHERS", LK__SAY("SENTINEL", "SENTINELS", master));
	return rc;
}

static int sentinel_listen(struct lk__link *hear)
{
	return lk__link_say(hear, "SUBSCRIBE", LK__SAY("SUBSCRIBE", "+switch-master", "+reboot"));
}

/* Checks what a sentinel names like a part of a URL. */
static bool place_write(char *place_out, const char *host, const char *port)
{
	int64_t number;
	return lk__number_read(port, 1, 65535, &number) && lk__place_write(place_out, host, number);
}

static void sentinel_master(struct lk__peer *peer, const redisReply *reply)
{
	const char *host = reply->type == REDIS_REPLY_ARRAY ? lk__element_text(reply, 0) : "";
	const char *port = reply->type == REDIS_REPLY_ARRAY ? lk__element_text(reply, 1) : "";
	*peer->says = '\0';
	if (reply->type == REDIS_REPLY_NIL) {
		strcpy(peer->says, NOBODY);
		lk__scout_fault(peer, LK_EREFUSED, "it does not know that master");
	} else if (reply->type == REDIS_REPLY_ERROR) {
		if (lk__refusal(reply->str).unknown)
			lk__scout_fault(peer, LK_EREFUSED, "it is no sentinel");
		else
			lk__scout_refused(peer, reply->str);
	} else if (place_write(peer->says, host, port)) {
		char fault[LK__PEER_FAULT_SIZE];
		snprintf(fault, sizeof(fault), "it names %.100s", peer->says);
		lk__scout_fault(peer, LK_EUNAVAILABLE, fault);
	} else {
		lk__scout_fault(peer, LK_EPROTOCOL, "it names no address");
	}
}

bool lk__sentinel_place(const redisReply *instance, char *place_out)
{
	return place_write(place_out, lk__field_text(instance, "ip"),
			   lk__field_text(instance, "port"));
}

static void sentinel_other(struct lk__scout *scout, const redisReply *other)
{
	char place[LK__PLACE_SIZE];
	if (lk__sentinel_place(other, place))
		lk__scout_learn(scout, place, lk__field_text(other, "runid"));
}

/*
 * A replica counts until sentinels call it down. One that they cannot reach is not called so before
 * their own limit is over, which may be half a minute: it counts no more when they have not heard
 * of it for some seconds. A connection that is merely made anew is back before that.
 *
 * One that a sentinel is making the master counts whatever else is said of it: its promotion cuts
 * the sentinels' connections, and with a short limit they call it down until they are back. For so
 * long the old master still takes commands.
 */
static bool is_alive(const redisReply *replica)
{
	int64_t silent_ms;
	const char *flags = lk__field_text(replica, "flags");
	bool heard = !strstr(flags, "disconnected") ||
		     !lk__number_read(lk__field_text(replica, "last-ok-ping-reply"), 0, INT64_MAX,
				      &silent_ms) ||
		     silent_ms < UNHEARD_MS;
	bool down = strstr(flags, "s_down") || strstr(flags, "o_down");
	return strstr(flags, "promoted") || (heard && !down);
}

static bool field_is(const redisReply *replica, const char *field, const char *value)
{
	return strcmp(lk__field_text(replica, field), value) == 0;
}

static int64_t field_number(const redisReply *replica, const char *field, int64_t otherwise)
{
	int64_t number = otherwise;
	lk__number_read(lk__field_text(replica, field), INT64_MIN, INT64_MAX, &number);
	return number;
}

static bool follows(const redisReply *replica)
{
	return field_is(replica, "master-link-status", "ok");
}

/* One that is being promoted has been heard to follow before. */
static bool was_master(const redisReply *replica)
{
	return field_is(replica, "role-reported", "master") &&
	       field_is(replica, "master-host", "?");
}

/* Tells whether sentinels promote `other` before `replica`, as long as both are up: by the
 * priority, and then by what each has. */
static bool is_preferred(const redisReply *other, const redisReply *replica)
{
	int64_t priority = field_number(other, "slave-priority", 0);
	return is_alive(other) && follows(other) && priority > 0 &&
	       priority <= field_number(replica, "slave-priority", 0) &&
	       field_number(other, "slave-repl-offset", 0) >
		       field_number(replica, "slave-repl-offset", INT64_MAX);
}

/*
 * One that is getting its first copy of the data, which may take long: it has been told of its
 * master, has never had a link to it, and has nothing of an earlier one. It counts when it follows,
 * or when its master has it connected. Until then sentinels would promote it for want of another;
 * so there must be another.
 */
static bool is_joining(const redisReply *replicas, const redisReply *replica)
{
	bool linked = follows(replica) || field_number(replica, "master-link-down-time", 0) >= 0 ||
		      field_number(replica, "slave-repl-offset", INT64_MAX) > 1;
	if (linked || !field_is(replica, "role-reported", "slave"))
		return false;
	for (size_t i = 0; i < replicas->elements; i++)
		if (is_preferred(replicas->element[i], replica))
			return true;
	return false;
}

static void sentinel_replica(struct lk__scout *scout, const struct lk__peer *peer,
			     const redisReply *replicas, const redisReply *replica)
{
	char place[LK__PLACE_SIZE];
	if (!lk__sentinel_place(replica, place))
		return;
	const struct lk__master_replica said = {
		.place = place,
		.alive = is_alive(replica),
		.follows = follows(replica),
		.promoted = strstr(lk__field_text(replica, "flags"), "promoted"),
		.was_master = was_master(replica),
		.joins = is_joining(replicas, replica),
	};
	lk__master_hear(scout, peer, &said);
}

/* A sentinel that says where the master is must also say which replicas it has. */
static void sentinel_replicas(struct lk__scout *scout, struct lk__peer *peer,
			      const redisReply *reply)
{
	if (!*peer->says || strcmp(peer->says, NOBODY) == 0)
		return;
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
		sentinel_replica(scout, peer, reply, reply->element[i]);
	if (reply->type == REDIS_REPLY_ERROR) {
		*peer->says = '\0';
		lk__scout_refused(peer, reply->str);
	}
}

static bool sentinel_answered(struct lk__scout *scout, struct lk__peer *peer, const char *what,
			      const redisReply *reply)
{
	if (strcmp(what, "AUTH") == 0 && reply->type == REDIS_REPLY_ERROR) {
		lk__scout_refused(peer, reply->str);
	} else if (strcmp(what, "MYID") == 0 && reply->type == REDIS_REPLY_STRING) {
		snprintf(peer->id, sizeof(peer->id), "%s", reply->str);
	} else if (strcmp(what, "MASTER") == 0) {
		sentinel_master(peer, reply);
	} else if (strcmp(what, "REPLICAS") == 0) {
		sentinel_replicas(scout, peer, reply);
	} else if (strcmp(what, "OTHERS") == 0) {
		for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
			sentinel_other(scout, reply->element[i]);
		return true;
	}
	return false;
}

static void sentinel_fail(const struct lk__scout *scout, const struct lk__vote *vote,
			  lk_error *error)
{
	bool refuses = false;
	for (size_t i = 0; i < lk__scout_count(scout); i++)
		refuses |= lk__scout_peer(scout, i)->code == LK_EREFUSED;
	if (vote->votes == 0)
		lk__scout_fail(scout, error,
			       lk__scout_worst(scout, refuses ? LK_EREFUSED : LK_EUNREACHABLE),
			       "no sentinel answers");
	else if (lk__vote_decides(vote, true) && strcmp(vote->common, NOBODY) == 0)
		lk__scout_fail(scout, error, LK_EREFUSED, "no sentinel knows the master's name");
	else
		lk__scout_fail(scout, error, LK_EUNAVAILABLE, "the sentinels disagree");
}

static enum lk__verdict sentinel_judge(const struct lk__scout *scout, const char *believed,
				       bool over, char *place_out, lk_error *error)
{
	(void)believed;
	struct lk__vote vote = lk__vote_of(scout);
	bool named = vote.most > 0 && strcmp(vote.common, NOBODY) != 0;
	if (named && lk__vote_decides(&vote, over)) {
		memcpy(place_out, vote.common, LK__PLACE_SIZE);
		return lk__vote_decides(&vote, false) ? LK__VERDICT_MASTER : LK__VERDICT_FEW;
	}
	if (!over)
		return LK__VERDICT_OPEN;
	sentinel_fail(scout, &vote, error);
	return LK__VERDICT_UNKNOWN;
}

const struct lk__master_ops lk__sentinel_ops = {
	.scout = {.ask = sentinel_ask,
		  .answered = sentinel_answered,
		  .listen = sentinel_listen,
		  .judge = lk__master_judge,
		  .told = lk__master_told},
	.judge = sentinel_judge,
};

struct lk_config *lk__sentinel_config(const struct lk_config *config)
{
	struct lk_config *asking = lk__config_copy(config);
	char *username = strdup(config->sentinel_username);
	char *password = strdup(config->sentinel_password);
	char *file = strdup(config->sentinel_password_file);
	if (!asking || !username || !password || !file) {
		lk_config_free(asking);
		free(username);
		lk__text_wipe(password);
		free(file);
		return NULL;
	}
	lk__text_wipe(asking->username);
	lk__text_wipe(asking->password);
	asking->username = username;
	asking->password = password;
	asking->credentials = NULL;
	free(asking->password_file);
	asking->password_file = file;
	if (*config->sentinel_tls)
		asking->scheme = strcmp(config->sentinel_tls, "on") == 0 ? LK__SCHEME_TLS
									 : LK__SCHEME_TCP;
	return asking;
}
