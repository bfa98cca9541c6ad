/* The scripts of src/sync/, written again in C, and the keys that they work on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_inside.h"
#include "world.h"

static bool closed; /* nothing may be granted any more */

/* ---- keys ---- */

struct key *srv_key_find(const char *name)
{
	for (size_t i = 0; i < KEYS_MAX; i++) {
		struct key *key = &server->keys[i];
		if (key->owner[0] && key->until_ns <= sim_now_ns())
			key->owner[0] = '\0';
		if (key->owner[0] && strcmp(key->name, name) == 0)
			return key;
	}
	return NULL;
}

int64_t srv_key_ttl_ms(const struct key *key)
{
	return (key->until_ns - sim_now_ns()) / SIM_MS;
}

void srv_key_expire(struct key *key, const char *lease_ms)
{
	key->until_ns = sim_now_ns() + atoll(lease_ms) * SIM_MS;
	if (sim_now_ns() - key->since_ns > HELD_MAX_MS * SIM_MS)
		sim_fail("%s has been kept for %s for %d ms", key->name, key->owner, HELD_MAX_MS);
}

void srv_check_grant(const char *owner)
{
	if (closed)
		sim_fail("all is given back, and then %s is granted", owner);
}

void srv_key_own(struct key *key, const char *owner)
{
	srv_check_grant(owner);
	snprintf(key->owner, sizeof(key->owner), "%s", owner);
	key->since_ns = sim_now_ns();
}

struct key *srv_key_new(const char *name, const char *owner)
{
	struct key *key = server->keys;
	while (key->owner[0] && key < &server->keys[KEYS_MAX - 1])
		key++;
	snprintf(key->name, sizeof(key->name), "%s", name);
	srv_key_own(key, owner);
	return key;
}

bool srv_key_is_of(const struct key *key, const char *owner)
{
	return key && strcmp(key->owner, owner) == 0;
}

void srv_close(bool all)
{
	closed = all;
}

/* ---- turns ---- */

static struct turn *turn_of(const char *name, const char *id)
{
	for (size_t i = 0; i < TURNS_MAX; i++)
		if (strcmp(server->turns[i].id, id) == 0 &&
		    (!*id || strcmp(server->turns[i].name, name) == 0))
			return &server->turns[i];
	return NULL;
}

void srv_wait_turn(const char *name, const char *id, const char *since_us)
{
	struct turn *turn = turn_of(name, id);
	if (!turn)
		turn = turn_of(name, "");
	if (!turn) {
		sim_fail("the server has too many turns");
		return;
	}
	snprintf(turn->name, sizeof(turn->name), "%s", name);
	snprintf(turn->id, sizeof(turn->id), "%s", id);
	turn->since_us = atoll(since_us);
}

static void end_taken(const char *name)
{
	for (size_t i = 0; i < TURNS_MAX; i++)
		if (server->turns[i].since_us == TAKEN && strcmp(server->turns[i].name, name) == 0)
			server->turns[i].id[0] = '\0';
}

static const char *turn_channel(const struct turn *turn, const char *channel, char own_out[128])
{
	snprintf(own_out, 128, "%.60s:%.60s", channel, turn->id);
	return own_out;
}

/* How many listen to the lock's channel and have no turn. */
static int listeners_without_turn(const char *name, const char *channel)
{
	int count = srv_listeners(channel);
	char own[128];
	for (size_t i = 0; i < TURNS_MAX; i++) {
		const struct turn *turn = &server->turns[i];
		if (*turn->id && strcmp(turn->name, name) == 0)
			count -= srv_listeners(turn_channel(turn, channel, own));
	}
	return count;
}

struct turn *srv_first_turn(const char *name)
{
	struct turn *first = NULL;
	for (size_t i = 0; i < TURNS_MAX; i++) {
		struct turn *turn = &server->turns[i];
		if (*turn->id && strcmp(turn->name, name) == 0 &&
		    (!first || turn->since_us < first->since_us))
			first = turn;
	}
	return first;
}

/* `now`: not only the one behind the first is told to look soon. `loud`: others hear of it, too. */
static int give_turn(const char *name, const char *channel, const char *message, bool now,
		     bool loud)
{
	char told_message[8];
	struct turn *turn;
	char own[128];
	int all = srv_listeners(channel), others = listeners_without_turn(name, channel);
	bool told = false;
	snprintf(told_message, sizeof(told_message), "0%s", message);
	end_taken(name);
	while ((turn = srv_first_turn(name)) != NULL && turn->since_us != TAKEN) {
		int heard = srv_publish(turn_channel(turn, channel, own), now ? "now" : "soon");
		told |= heard > 0;
		if (heard > 0 && !now)
			break;
		if (heard > 0)
			turn->since_us = TAKEN;
		else
			turn->id[0] = '\0';
		now = now && heard == 0;
	}
	return told && others <= 0 && !loud ? -1 - all
					    : srv_publish(channel, told ? told_message : message);
}

int srv_give_turn(const char *name, const char *channel, const char *message, bool loud)
{
	return give_turn(name, channel, message, true, loud);
}

/* Its place goes; if it was its turn and the lock is free, the next one has it. */
static int leave_turn(const char *name, const char *id, const char *channel)
{
	const struct turn *first = srv_first_turn(name);
	struct turn *turn = turn_of(name, id);
	if (!turn)
		return 0;
	bool told = turn->since_us == TAKEN, is_first = turn == first, others_told = false;
	turn->id[0] = '\0';
	for (size_t i = 0; i < TURNS_MAX; i++)
		others_told |= *server->turns[i].id && server->turns[i].since_us == TAKEN &&
			       strcmp(server->turns[i].name, name) == 0;
	if (srv_key_find(name) || (!told && !is_first))
		return 0;
	return give_turn(name, channel, "0", told || !others_told, false);
}

/* ---- the scripts of src/sync/lock/ ---- */

bool srv_is_late(struct sim_link *link, const char *deadline_us)
{
	if (srv_us() <= atoll(deadline_us))
		return false;
	srv_say(link, "+LATE %" PRId64 "\r\n", srv_us());
	return true;
}

static void granted(struct sim_link *link)
{
	srv_say(link, "$-1\r\n");
}

/* Its own owner's repetition: the lease is never shortened. */
static void again(struct sim_link *link, struct key *key, const char *lease_ms)
{
	if (srv_key_ttl_ms(key) < atoll(lease_ms))
		srv_key_expire(key, lease_ms);
	granted(link);
}

/* Who else has it: a plain lock's answer tells the token, too. */
static void refuse(struct sim_link *link, const struct key *key, bool plain)
{
	if (plain)
		srv_say(link, "*2\r\n:%" PRId64 "\r\n$%zu\r\n%s\r\n", srv_key_ttl_ms(key),
			strlen(key->owner), key->owner);
	else
		srv_say(link, ":%" PRId64 "\r\n", srv_key_ttl_ms(key));
}

/* A plain lock's token is its owner. */
static void lock_acquire(struct sim_link *link, const char *name, size_t count,
			 const char **arguments, bool plain)
{
	struct key *key = srv_key_find(name);
	bool refused = key && !srv_key_is_of(key, arguments[0]);
	bool polite = count > 6 && !key && strcmp(arguments[6], "1") == 0;
	if (srv_is_late(link, arguments[2]))
		return;
	if (count > 4 && (refused || polite))
		srv_wait_turn(name, arguments[3], arguments[4]);
	else if (count > 4)
		srv_wait_turn(name, arguments[3], TAKEN_TEXT);
	if (polite) {
		srv_say(link, ":%d\r\n", strcmp(srv_first_turn(name)->id, arguments[3]) ? 250 : 0);
	} else if (refused) {
		refuse(link, key, plain);
	} else if (key) {
		again(link, key, arguments[1]);
	} else {
		srv_key_expire(srv_key_new(name, arguments[0]), arguments[1]);
		granted(link);
	}
}

static void lock_release(struct sim_link *link, const char *name, const char **arguments)
{
	struct key *key = srv_key_find(name);
	if (!srv_key_is_of(key, arguments[0])) {
		granted(link); /* the same nil: not the owner */
		return;
	}
	key->owner[0] = '\0';
	srv_say(link, ":%d\r\n", give_turn(name, arguments[1], "0", true, false));
}

/* It is nobody's for a time: under a field that says so. */
static void lock_keep(struct sim_link *link, const char *name, const char **arguments)
{
	struct key *key = srv_key_find(name);
	if (srv_key_is_of(key, arguments[1])) {
		srv_key_own(key, arguments[3]);
		srv_key_expire(key, arguments[0]);
	} else if (!srv_key_is_of(key, arguments[3])) {
		granted(link); /* the same nil: not the owner */
		return;
	}
	srv_say(link, ":%d\r\n", srv_publish(arguments[2], "0"));
}

static void lock_exchange(struct sim_link *link, const char *name, const char **arguments)
{
	struct key *key = srv_key_find(name);
	if (srv_is_late(link, arguments[3]))
		return;
	if (srv_key_is_of(key, arguments[0])) {
		srv_key_own(key, arguments[1]);
		srv_key_expire(key, arguments[2]);
		granted(link);
	} else if (srv_key_is_of(key, arguments[1])) {
		again(link, key, arguments[2]);
	} else {
		srv_say(link, ":-3\r\n");
	}
}

static void lock_renew(struct sim_link *link, size_t count, const char **names,
		       const char **arguments)
{
	srv_say(link, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		struct key *key = srv_key_find(names[i]);
		const char *lease_ms = arguments[2 * i + 1];
		bool own = srv_key_is_of(key, arguments[2 * i]);
		if (!key) {
			srv_say(link, ":%d\r\n",
				srv_sides_renew(names[i], arguments[2 * i], lease_ms));
			continue;
		}
		if (own && strcmp(lease_ms, "1") != 0 && srv_key_ttl_ms(key) < atoll(lease_ms))
			srv_key_expire(key, lease_ms);
		srv_say(link, ":%d\r\n", own);
	}
}

static void multi_acquire(struct sim_link *link, size_t count, const char **names,
			  const char **arguments)
{
	if (srv_is_late(link, arguments[2]))
		return;
	for (size_t i = 0; i < count; i++) {
		const struct key *key = srv_key_find(names[i]);
		if (!key || srv_key_is_of(key, arguments[0]))
			continue;
		srv_say(link, "*2\r\n:%zu\r\n:%" PRId64 "\r\n", i + 1, srv_key_ttl_ms(key));
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct key *key = srv_key_find(names[i]);
		if (!key)
			srv_key_expire(srv_key_new(names[i], arguments[0]), arguments[1]);
		else if (srv_key_ttl_ms(key) < atoll(arguments[1]))
			srv_key_expire(key, arguments[1]);
	}
	granted(link);
}

static void multi_release(struct sim_link *link, size_t count, const char **names,
			  const char **arguments)
{
	srv_say(link, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		struct key *key = srv_key_find(names[i]);
		bool own = srv_key_is_of(key, arguments[2 * i]);
		if (own)
			key->owner[0] = '\0';
		srv_say(link, ":%d\r\n",
			own ? give_turn(names[i], arguments[2 * i + 1], "0", true, true) : -1);
	}
}

int srv_script_of(const char *sha1)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++)
		if (strcmp(lk__scripts[i].sha1, sha1) == 0)
			return i;
	return -1;
}

void srv_run_script(const struct command *command)
{
	struct sim_link *link = command->peer->link;
	int script = srv_script_of(command->words[1]);
	size_t keys = (size_t)atoll(command->words[2]);
	const char **names = (const char **)&command->words[3];
	const char **arguments = names + keys;
	if (script < 0 || !server->loaded[script]) {
		srv_say(link, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
		return;
	}
	sim_note("server %u: %s %s %s", server->number, lk__scripts[script].name, arguments[0],
		 command->count > 4 + keys ? arguments[1] : "");
	switch (script) {
	case LK__SCRIPT_LOCK_ACQUIRE:
	case LK__SCRIPT_PLAIN_ACQUIRE:
		lock_acquire(link, names[0], command->count - 3 - keys, arguments,
			     script == LK__SCRIPT_PLAIN_ACQUIRE);
		break;
	case LK__SCRIPT_LOCK_RELEASE:
	case LK__SCRIPT_PLAIN_RELEASE: /* where no other library waits */
		lock_release(link, names[0], arguments);
		break;
	case LK__SCRIPT_LOCK_KEEP:
		lock_keep(link, names[0], arguments);
		break;
	case LK__SCRIPT_LOCK_EXCHANGE:
		lock_exchange(link, names[0], arguments);
		break;
	case LK__SCRIPT_TURNS_LEAVE:
		srv_say(link, ":%d\r\n", leave_turn(names[0], arguments[0], arguments[1]));
		break;
	case LK__SCRIPT_LOCK_RENEW:
	case LK__SCRIPT_PLAIN_RENEW:
		lock_renew(link, keys, names, arguments);
		break;
	case LK__SCRIPT_MULTI_ACQUIRE:
		multi_acquire(link, keys, names, arguments);
		break;
	case LK__SCRIPT_MULTI_RELEASE:
		multi_release(link, keys, names, arguments);
		break;
	default:
		if (!srv_run_kind(script, link, names, command->count - 3 - keys, arguments))
			sim_fail("the server has no %s", lk__scripts[script].name);
	}
}

const char *sim_server_owner(unsigned number, const char *name, int64_t *since_ns_out,
			     int64_t *until_ns_out)
{
	server = srv_at(number);
	const struct key *key = srv_key_find(name);
	if (key && since_ns_out)
		*since_ns_out = key->since_ns;
	if (key && until_ns_out)
		*until_ns_out = key->until_ns;
	return key ? key->owner : NULL;
}
