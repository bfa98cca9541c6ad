#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "happens.h"
#include "kind.h"
#include "network.h"
#include "resp.h"
#include "replication.h"
#include "server.h"
#include "takeovers.h"
#include "topo/topo.h"
#include "world.h"

#define PORT 6379
#define NAMES_MAX 8
#define SLOW_MS 2500   /* that a node may be behind, */
#define GOSSIP_MS 400  /* and that it mostly is, at most */
#define AGAIN_MS 500   /* until a node that was away hears */
#define SETTLE_MS 8000 /* until all know, in the end */

struct node {
	struct sim_clustered clustered; /* what its commands see */
	int64_t down_until_ns;          /* it says that the cluster is */
	int64_t moved_ns;               /* the last key to it */
	uint8_t owner[LK__SLOTS];       /* as it believes, … */
	uint32_t version[LK__SLOTS];    /* … by what it has heard last */
	/* The same of whom a server follows: itself, it is a master. */
	uint8_t follows[SIM_SERVERS_MAX];
	uint32_t role_version[SIM_SERVERS_MAX];
};

/* Who has a slot, or all of those, from that version on, on its way to a node. */
struct news {
	struct node *to;
	uint16_t first,
		last; /* among them, those of which that is the newest; none: it is followed */
	uint8_t before, owner;
	uint32_t version;
};

static struct node nodes[SIM_SERVERS_MAX];
static uint8_t owners[LK__SLOTS];
static uint32_t since[LK__SLOTS]; /* that version */
static uint32_t versions;
static unsigned count, moves;
static uint16_t slots[NAMES_MAX];
static unsigned slot_count;
static struct sim_task *mover;
static bool rests;

/* The move that is under way: at most one. */
static struct {
	uint16_t slot;
	unsigned from, to;
	bool migrates, imports; /* the one knows, and the other */
} move;

static unsigned number_of(const struct node *node)
{
	return (unsigned)(node - nodes);
}

static bool is_able(unsigned number)
{
	return !sim_server_is_down(number) && !sim_server_hangs(number);
}

static uint16_t slot_of(struct sim_word word)
{
	return lk__slot_of(word.bytes, word.size);
}

/* ---- what a node refuses ---- */

static bool crosses_slots(const struct sim_word *keys, size_t key_count)
{
	for (size_t i = 1; i < key_count; i++)
		if (slot_of(keys[i]) != slot_of(keys[0]))
			return true;
	return false;
}

static size_t count_missing(struct sim_redis *redis, const struct sim_word *keys, size_t key_count)
{
	size_t missing = 0;
	for (size_t i = 0; i < key_count; i++)
		missing += sim_key_find(&redis->keys, keys[i]) == NULL;
	return missing;
}

static void say_redirect(char *text, size_t size, const char *verb, uint16_t slot, unsigned to)
{
	snprintf(text, size, "%s %u 10.0.0.%u:%d", verb, slot, to, PORT);
}

/* False: the node runs it. Else the error. A channel exists wherever its slot is. */
static bool is_elsewhere(const struct sim_asked *asked, const struct sim_word *keys,
			 size_t key_count, bool channels, char *text, size_t size)
{
	unsigned self = asked->redis->number;
	const struct node *node = &nodes[self];
	uint16_t slot = slot_of(keys[0]);
	bool moves_now = slot == move.slot, owns = node->owner[slot] == self;
	bool migrates = moves_now && move.migrates && move.from == self;
	bool imports = moves_now && move.imports && move.to == self && asked->redis->asking;
	size_t missing = channels ? 0 : count_missing(asked->redis, keys, key_count);
	if (crosses_slots(keys, key_count))
		snprintf(text, size, "CROSSSLOT Keys in request don't hash to the same slot");
	else if (node->down_until_ns > sim_now_ns())
		snprintf(text, size, "CLUSTERDOWN The cluster is down");
	else if (owns && migrates && missing == key_count && missing > 0)
		say_redirect(text, size, "ASK", slot, move.to);
	else if (missing > 0 && ((owns && migrates) || (imports && key_count > 1)))
		snprintf(text, size, "TRYAGAIN Multiple keys request during rehashing of slot");
	else if (!owns && !imports)
		say_redirect(text, size, "MOVED", slot, node->owner[slot]);
	else
		return false;
	return true;
}

static bool refuses(const struct sim_asked *asked, const struct sim_word *keys, size_t key_count,
		    bool channels)
{
	char text[120];
	if (key_count == 0 || !is_elsewhere(asked, keys, key_count, channels, text, sizeof(text)))
		return false;
	if (!asked->listener)
		snprintf(text, sizeof(text),
			 strncmp(text, "CLUSTERDOWN", 11) == 0
				 ? "ERR Script attempted to execute a command while the cluster is "
				   "down"
				 : "ERR Script attempted to access a non local key in a cluster "
				   "node");
	else
		sim_note("server %u: %s", asked->redis->number, text);
	sim_say_error(asked->out, "%s", text);
	return true;
}

/* ---- what it tells ---- */

static void say_id(struct lk__buffer *out, unsigned number)
{
	char text[48];
	snprintf(text, sizeof(text), "%040x", number + 1);
	sim_say_bulk(out, sim_word(text));
}

static void say_node(struct lk__buffer *out, unsigned number)
{
	char host[24];
	sim_say_array(out, 4);
	snprintf(host, sizeof(host), "10.0.0.%u", number);
	sim_say_bulk(out, sim_word(host));
	sim_say_integer(out, PORT);
	say_id(out, number);
	sim_say_array(out, 0);
}

/* The last slot of the range that begins there. */
static size_t range_end(const struct node *node, size_t first)
{
	size_t last = first;
	while (last + 1 < LK__SLOTS && node->owner[last + 1] == node->owner[first])
		last++;
	return last;
}

static bool is_replica_of(const struct node *node, unsigned number, unsigned master)
{
	return number != master && node->follows[number] == master && sim_is_listed(number);
}

static size_t count_replicas(const struct node *node, unsigned master)
{
	size_t replicas = 0;
	for (unsigned i = 0; i < count; i++)
		replicas += is_replica_of(node, i, master);
	return replicas;
}

static void say_slots(struct lk__buffer *out, const struct node *node)
{
	size_t ranges = 0;
	for (size_t first = 0; first < LK__SLOTS; first = range_end(node, first) + 1)
		ranges++;
	sim_say_array(out, ranges);
	for (size_t first = 0; first < LK__SLOTS; first = range_end(node, first) + 1) {
		sim_say_array(out, 3 + count_replicas(node, node->owner[first]));
		sim_say_integer(out, (int64_t)first);
		sim_say_integer(out, (int64_t)range_end(node, first));
		say_node(out, node->owner[first]);
		for (unsigned i = 0; i < count; i++)
			if (is_replica_of(node, i, node->owner[first]))
				say_node(out, i);
	}
}

static void say(const struct sim_asked *asked)
{
	if (sim_word_is(asked->words[1], "MYID"))
		say_id(asked->out, asked->redis->number);
	else if (sim_word_is(asked->words[1], "SLOTS"))
		say_slots(asked->out, &nodes[asked->redis->number]);
	else
		sim_say_error(asked->out, "ERR unknown subcommand. Try CLUSTER HELP.");
}

/* ---- the bus ---- */

static int64_t delay_ns(void)
{
	return sim_chance(50) ? sim_between(1, 20) * SIM_MS : sim_between(20, 300) * SIM_US;
}

struct message {
	unsigned to;
	size_t channel_size, size;
	char bytes[]; /* of the channel, and behind them those of the message */
};

static void hear_message(void *context)
{
	struct message *message = context;
	struct sim_redis *redis = sim_server_redis(message->to);
	if (sim_server_hangs(message->to)) {
		sim_at(sim_server_hangs(message->to), hear_message, message);
		return;
	}
	if (!sim_server_is_down(message->to))
		sim_channels_publish(
			&redis->channels, false,
			(struct sim_word){message->bytes, message->channel_size},
			(struct sim_word){message->bytes + message->channel_size, message->size},
			redis->tell);
	free(message);
}

/* To whoever listens at another node. */
static void published(const struct sim_redis *redis, struct sim_word channel, struct sim_word text)
{
	for (unsigned i = 0; i < count; i++) {
		if (i == redis->number)
			continue;
		struct message *message = malloc(sizeof(*message) + channel.size + text.size);
		*message = (struct message){i, channel.size, text.size};
		memcpy(message->bytes, channel.bytes, channel.size);
		memcpy(message->bytes + channel.size, text.bytes, text.size);
		sim_at(sim_now_ns() + delay_ns(), hear_message, message);
	}
}

/* A node that loses a slot ends what listened there. */
static void end_channels(struct sim_redis *redis, uint16_t slot)
{
	for (size_t i = redis->channels.count; i > 0; i--) {
		struct sim_listening one = redis->channels.all[i - 1];
		struct lk__buffer out = {0};
		struct sim_word channel = {one.channel, one.size};
		if (!one.sharded || slot_of(channel) != slot)
			continue;
		sim_say_array(&out, 3);
		sim_say_bulk(&out, sim_word("sunsubscribe"));
		sim_say_bulk(&out, channel);
		sim_channels_leave(&redis->channels, one.listener, true, channel);
		sim_say_integer(&out,
				(int64_t)sim_channels_of(&redis->channels, one.listener, true));
		redis->tell(one.listener, lk__buffer_front(&out), lk__buffer_size(&out));
		lk__buffer_free(&out);
	}
}

static bool owns_any(const struct node *node, unsigned number)
{
	return memchr(node->owner, (int)number, sizeof(node->owner)) != NULL;
}

static void learn(struct node *node, uint16_t slot, unsigned owner, uint32_t version)
{
	bool had = node->owner[slot] == number_of(node);
	if (version <= node->version[slot])
		return;
	node->owner[slot] = (uint8_t)owner;
	node->version[slot] = version;
	if (had && owner != number_of(node))
		end_channels(sim_server_redis(number_of(node)), slot);
}

static void learn_role(struct node *node, unsigned server, unsigned master, uint32_t version)
{
	if (version <= node->role_version[server])
		return;
	node->follows[server] = (uint8_t)master;
	node->role_version[server] = version;
}

/* A node that has lost all follows the new owner. */
static void learn_all(const struct news *news)
{
	unsigned number = number_of(news->to);
	if (news->first > news->last) {
		learn_role(news->to, news->before, news->owner, news->version);
		return;
	}
	learn_role(news->to, news->owner, news->owner, news->version);
	bool had = owns_any(news->to, number);
	sim_note("server %u knows that server %u has what server %u had", number, news->owner,
		 news->before);
	for (unsigned slot = news->first; slot <= news->last; slot++)
		if (since[slot] == news->version) /* else there is newer news, or none */
			learn(news->to, (uint16_t)slot, news->owner, news->version);
	if (had && !owns_any(news->to, number))
		sim_takeovers_heard(number, news->owner);
}

static void hear(void *context)
{
	struct news *news = context;
	if (!is_able(number_of(news->to)) && !rests) {
		sim_at(sim_now_ns() + sim_between(1, AGAIN_MS) * SIM_MS, hear, news);
		return;
	}
	learn_all(news);
	free(news);
}

static void tell_all(struct news like)
{
	for (unsigned i = 0; i < count; i++) {
		struct news *news = malloc(sizeof(*news));
		int64_t most_ms = sim_chance(100) ? SLOW_MS : GOSSIP_MS;
		*news = like;
		news->to = &nodes[i];
		sim_at(sim_now_ns() + sim_between(0, most_ms) * SIM_MS, hear, news);
	}
}

/* ---- moves ---- */

/* Whoever moves a slot waits until both answer. */
static void await_both(void)
{
	while (!is_able(move.from) || !is_able(move.to))
		sim_sleep(10 * SIM_MS);
}

static bool may_move(void)
{
	return is_able(move.from) && is_able(move.to) && owners[move.slot] == move.from &&
	       !sim_is_replica(move.to);
}

static void move_key(const struct sim_key *key)
{
	struct sim_redis *from = sim_server_redis(move.from), *to = sim_server_redis(move.to);
	char bytes[128];
	struct sim_word name = {bytes, key->name_size};
	memcpy(bytes, key->name, key->name_size); /* the key goes */
	sim_key_put(&to->keys, key);
	from->replicated->changed(from, name);
	to->replicated->changed(to, name);
	struct sim_key *here = sim_key_find(&from->keys, name);
	if (here)
		sim_key_drop(&from->keys, here);
	nodes[move.to].moved_ns = sim_now_ns();
	sim_replication_ship(move.from);
	sim_replication_ship(move.to);
}

/* One key of the slot, or NULL. */
static struct sim_key *key_left(unsigned server)
{
	struct sim_keys *keys = &sim_server_redis(server)->keys;
	for (struct sim_key *key = keys->table; key; key = key->hh.next) {
		struct sim_word name = {key->name, key->name_size};
		if (slot_of(name) == move.slot)
			return sim_key_find(keys, name) ? key : key_left(server);
	}
	return NULL;
}

static void pause_a_while(void)
{
	sim_sleep(sim_between(0, sim_chance(200) ? 300 : 20) * SIM_MS);
	await_both();
}

/* The new one says so first, and the old one at once or some time later. */
static void hand_over(bool at_once)
{
	uint32_t version = ++versions;
	owners[move.slot] = (uint8_t)move.to;
	since[move.slot] = version;
	moves++;
	learn(&nodes[move.to], move.slot, move.to, version);
	move.imports = false;
	if (!at_once)
		pause_a_while();
	learn(&nodes[move.from], move.slot, move.to, version);
	move.migrates = false;
	tell_all((struct news){NULL, move.slot, move.slot, (uint8_t)move.from, (uint8_t)move.to,
			       version});
}

static void move_by_keys(void)
{
	const struct sim_key *key;
	sim_note("slot %u moves from server %u to server %u, key by key", move.slot, move.from,
		 move.to);
	move.imports = true;
	pause_a_while();
	move.migrates = true;
	pause_a_while();
	while ((key = key_left(move.from))) {
		sim_note("%s moves", key->name);
		move_key(key);
		pause_a_while();
	}
	hand_over(false);
}

/* Nothing is written to the old one meanwhile. */
static void move_whole(void)
{
	const struct sim_key *key;
	sim_note("slot %u moves from server %u to server %u, at once", move.slot, move.from,
		 move.to);
	sim_server_pause(move.from, true);
	sim_sleep(sim_between(0, 100) * SIM_MS);
	if (may_move()) {
		while ((key = key_left(move.from)))
			move_key(key);
		hand_over(true);
	}
	sim_server_pause(move.from, false);
}

static void move_one(void)
{
	move.slot = slots[sim_random(slot_count)];
	move.from = owners[move.slot];
	move.to = (move.from + 1 + (unsigned)sim_random(count - 1)) % count;
	bool whole = sim_chance(500);
	while (!sim_cluster_owns(move.to) || move.to == move.from)
		move.to = (move.to + 1) % count;
	if (!may_move() || !sim_happens())
		return;
	/* A failover may have brought them back, where they were before. */
	for (struct sim_key *key; (key = key_left(move.to));)
		sim_key_drop(&sim_server_redis(move.to)->keys, key);
	if (whole)
		move_whole();
	else
		move_by_keys();
}

static void *mover_main(void *argument)
{
	while (sim_has(SIM_MOVES)) {
		sim_sleep(sim_between(0, sim_chance(300) ? 50 : 1500) * SIM_MS);
		if (sim_has(SIM_MOVES) && sim_chance(200))
			sim_take_over_as_planned(owners[slots[sim_random(slot_count)]]);
		else if (sim_has(SIM_MOVES))
			move_one();
	}
	return NULL;
}

/* ---- a cluster that is down ---- */

static void trouble_link(unsigned replica, int64_t until_ns)
{
	if (sim_chance(500))
		sim_replication_cut(replica, until_ns);
	else
		sim_replication_stall(replica, until_ns);
}

static void *downs_main(void *argument)
{
	while (sim_has(SIM_OUTAGES)) {
		sim_sleep(sim_between(0, 4000) * SIM_MS);
		int64_t until_ns = sim_now_ns() +
				   sim_between(1, sim_chance(300) ? 1500 : 100) * SIM_MS;
		unsigned first = (unsigned)sim_random(count);
		bool all = sim_chance(500), links = sim_chance(400);
		if (!sim_has(SIM_OUTAGES) || !sim_happens())
			continue;
		if (links && sim_is_replica(first))
			trouble_link(first, until_ns);
		if (links)
			continue;
		sim_note("%s: the cluster is down", all ? "all servers" : "a server");
		for (unsigned i = 0; i < (all ? count : 1); i++)
			nodes[(first + i) % count].down_until_ns = until_ns;
	}
	return NULL;
}

/* ---- a run ---- */

void sim_cluster_begin(unsigned servers, unsigned masters, const char *const *names,
		       unsigned name_count)
{
	static const struct sim_clustered clustered = {refuses, say, published};
	count = servers;
	versions = 0;
	rests = false;
	mover = NULL;
	memset(&move, 0, sizeof(move));
	memset(since, 0, sizeof(since));
	slot_count = name_count;
	for (unsigned i = 0; i < name_count; i++)
		slots[i] = slot_of(sim_word(names[i]));
	for (size_t slot = 0; slot < LK__SLOTS; slot++)
		owners[slot] = (uint8_t)(slot * masters / LK__SLOTS);
	for (unsigned i = 0; i < count; i++) {
		nodes[i].clustered = clustered;
		nodes[i].down_until_ns = 0;
		nodes[i].moved_ns = INT64_MIN;
		memcpy(nodes[i].owner, owners, sizeof(owners));
		memset(nodes[i].version, 0, sizeof(nodes[i].version));
		memset(nodes[i].role_version, 0, sizeof(nodes[i].role_version));
		for (unsigned j = 0; j < count; j++)
			nodes[i].follows[j] = (uint8_t)(j % masters);
		sim_server_redis(i)->clustered = &nodes[i].clustered;
	}
	sim_takeovers_begin(servers, masters);
	if (sim_has(SIM_MOVES))
		mover = sim_spawn(mover_main, NULL);
	if (sim_has(SIM_OUTAGES))
		sim_spawn(downs_main, NULL);
}

static bool is_settled(const void *nothing)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < slot_count; j++)
			if (nodes[i].owner[slots[j]] != owners[slots[j]])
				return false;
	return sim_takeovers_are_over();
}

void sim_cluster_settle(void)
{
	if (mover)
		sim_wait(sim_ended, mover, SIM_NEVER);
	for (unsigned i = 0; i < count; i++)
		nodes[i].down_until_ns = 0;
	sim_wait(is_settled, NULL, sim_now_ns() + SETTLE_MS * SIM_MS);
	if (!is_settled(NULL))
		sim_fail("not all nodes know who has the slots");
}

bool sim_is_cluster(void)
{
	return count > 0;
}

unsigned sim_cluster_size(void)
{
	return count;
}

unsigned sim_cluster_keeper(const char *name)
{
	uint16_t slot = slot_of(sim_word(name));
	bool moves_now = move.migrates && move.slot == slot && owners[slot] == move.from;
	if (moves_now && !sim_key_find(&sim_server_redis(move.from)->keys, sim_word(name)))
		return move.to;
	return owners[slot];
}

bool sim_cluster_must_have(unsigned server, int64_t deadline_ns)
{
	unsigned keeper = sim_cluster_keeper(SIM_KEY);
	bool mirrors = sim_is_replica(server) && sim_master_of(server) == keeper;
	return server == keeper ||
	       (mirrors && sim_was_listed(server, deadline_ns) && sim_has_moved(server, keeper));
}

int64_t sim_cluster_moved_ns(unsigned server)
{
	return nodes[server].moved_ns;
}

bool sim_cluster_owns(unsigned server)
{
	return memchr(owners, (int)server, sizeof(owners)) != NULL;
}

bool sim_cluster_is_moving(unsigned server)
{
	return (move.migrates || move.imports) && (server == move.from || server == move.to);
}

void sim_cluster_follow(unsigned server, unsigned master)
{
	sim_follow(server, master);
	tell_all((struct news){NULL, 1, 0, (uint8_t)server, (uint8_t)master, ++versions});
}

void sim_cluster_give(unsigned from, unsigned to, bool told)
{
	struct news news = {&nodes[to], 0, LK__SLOTS - 1, (uint8_t)from, (uint8_t)to, ++versions};
	for (size_t slot = 0; slot < LK__SLOTS; slot++)
		if (owners[slot] == from) {
			owners[slot] = (uint8_t)to;
			since[slot] = news.version;
		}
	learn_all(&news);
	if (told) {
		news.to = &nodes[from];
		learn_all(&news);
	}
	tell_all(news);
}

void sim_cluster_end(void)
{
	rests = true;
	count = 0;
}

unsigned sim_move_count(void)
{
	return moves;
}
