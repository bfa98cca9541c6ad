#include "replication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "commands.h"
#include "network.h"
#include "resp.h"
#include "server.h"
#include "world.h"

#define CHANGE_SIZE 100 /* by which an offset grows, */
#define ASK_SIZE 37     /* also with the question how far a replica is */
#define TELL_MS 1000    /* between what a replica tells unasked */
#define RETRY_MS 300    /* until a link that was not to be had is tried again, at most */
#define PORT "6379"

enum link { DOWN, COPIES, UP };

/* What is under way to a replica. */
struct piece {
	struct piece *prev, *next;
	struct member *to;
	unsigned generation;
	bool whole, asks;
	int64_t offset;       /* behind it */
	struct sim_keys keys; /* that have changed; of those that are gone, no items */
};

/* How far a replica is, under way to its master. */
struct told {
	struct member *from;
	unsigned generation;
	int64_t offset;
};

struct member {
	unsigned number;
	struct sim_replicated replicated; /* what its commands see */
	int64_t offset, changed;          /* how far it is; where the last change is */
	struct sim_keys touched;          /* keys that have changed, and are to leave; no items */
	/* A replica: */
	struct member *master;
	enum link link;
	unsigned generation; /* of its link: what comes by an older one is lost */
	int64_t acked;       /* as its master knows; -1: that does not count it yet */
	int64_t there_ns, back_ns, closed_until_ns;
	int64_t linked_ns;     /* until when it had its last link; 0: never */
	struct piece *arrived; /* and not read yet */
};

static struct member members[SIM_SERVERS_MAX];
static unsigned count, histories;
static bool rests;

/* Between servers. */
static int64_t delay_ns(void)
{
	return sim_chance(50) ? sim_between(1, 20) * SIM_MS : sim_between(20, 300) * SIM_US;
}

static int64_t arrival_ns(int64_t *last_ns)
{
	int64_t at_ns = sim_now_ns() + delay_ns();
	*last_ns = at_ns > *last_ns ? at_ns : *last_ns;
	return *last_ns;
}

/* What is sent from now on arrives then, and behind what was sent before. */
static void put_off(struct member *member, int64_t until_ns)
{
	member->there_ns = until_ns > member->there_ns ? until_ns : member->there_ns;
}

static bool is_able(const struct member *member)
{
	return !sim_server_is_down(member->number) && !sim_server_hangs(member->number);
}

/* ---- from a master ---- */

static void piece_free(struct piece *piece)
{
	sim_keys_clear(&piece->keys);
	free(piece);
}

static void arrive(void *context);

static struct piece *piece_send(struct member *to, const struct piece *like)
{
	struct piece *piece = calloc(1, sizeof(*piece));
	*piece = *like;
	piece->to = to;
	piece->generation = to->generation;
	sim_at(arrival_ns(&to->there_ns), arrive, piece);
	return piece;
}

static void add_all(struct piece *piece, const struct sim_keys *from)
{
	for (const struct sim_key *key = from->table; key; key = key->hh.next)
		sim_key_put(&piece->keys, key);
}

static void add_touched(struct piece *piece, struct sim_keys *from, const struct sim_keys *names)
{
	for (const struct sim_key *name = names->table; name; name = name->hh.next) {
		struct sim_word word = {name->name, name->name_size};
		const struct sim_key *key = sim_key_find(from, word);
		if (key)
			sim_key_put(&piece->keys, key);
		else
			sim_key_make(&piece->keys, word, SIM_STRING);
	}
}

static void changed(struct sim_redis *redis, struct sim_word key)
{
	struct member *member = &members[redis->number];
	if (!sim_key_find(&member->touched, key))
		sim_key_make(&member->touched, key, SIM_STRING);
}

int64_t sim_replication_ship(unsigned number)
{
	struct member *member = &members[number];
	if (!member->touched.table)
		return 0;
	member->changed = member->offset += CHANGE_SIZE;
	for (unsigned i = 0; i < count; i++) {
		struct piece piece = {.offset = member->offset};
		if (members[i].master != member || members[i].link == DOWN)
			continue;
		add_touched(piece_send(&members[i], &piece), &sim_server_redis(number)->keys,
			    &member->touched);
	}
	sim_keys_clear(&member->touched);
	return member->offset;
}

void sim_replication_ask(unsigned number)
{
	struct member *member = &members[number];
	member->offset += ASK_SIZE;
	for (unsigned i = 0; i < count; i++) {
		struct piece piece = {.offset = member->offset, .asks = true};
		if (members[i].master == member && members[i].link != DOWN)
			piece_send(&members[i], &piece);
	}
}

int sim_replication_count(unsigned number, int64_t offset)
{
	int have = 0;
	for (unsigned i = 0; i < count; i++)
		have += members[i].master == &members[number] && members[i].acked >= offset;
	return have;
}

/* ---- from a replica ---- */

static void hear(void *context)
{
	struct told *told = context;
	struct member *from = told->from;
	if (told->generation == from->generation) {
		from->acked = told->offset > from->acked ? told->offset : from->acked;
		sim_server_heard(from->master->number);
	}
	free(told);
}

static void tell(struct member *member)
{
	struct told *told = malloc(sizeof(*told));
	*told = (struct told){member, member->generation, member->offset};
	sim_at(arrival_ns(&member->back_ns), hear, told);
}

static void take(struct member *member, const struct piece *piece)
{
	struct sim_redis *redis = sim_server_redis(member->number);
	const struct sim_key *key;
	if (piece->whole) {
		sim_keys_clear(&redis->keys);
		memcpy(member->replicated.history, member->master->replicated.history,
		       SIM_HISTORY_SIZE);
		member->link = UP;
		sim_note("server %u has a copy of what server %u has", member->number,
			 member->master->number);
	}
	for (key = piece->keys.table; key; key = key->hh.next)
		sim_key_put(&redis->keys, key);
	member->offset = piece->offset;
	if (piece->whole || !piece->asks)
		member->changed = piece->offset;
	if (piece->whole || piece->asks)
		tell(member);
}

/* Reads what has arrived, once it does anything. */
static void read_pieces(void *context)
{
	struct member *member = context;
	struct piece *piece, *next;
	if (sim_server_hangs(member->number))
		sim_at(sim_server_hangs(member->number), read_pieces, member);
	if (!is_able(member))
		return;
	DL_FOREACH_SAFE(member->arrived, piece, next)
	{
		DL_DELETE(member->arrived, piece);
		if (piece->generation == member->generation)
			take(member, piece);
		piece_free(piece);
	}
}

static void arrive(void *context)
{
	struct piece *piece = context;
	struct member *to = piece->to; /* reading frees the piece */
	DL_APPEND(to->arrived, piece);
	read_pieces(to);
}

static void tell_unasked(void *context)
{
	struct member *member = context;
	if (rests)
		return;
	if (member->link == UP && is_able(member))
		tell(member);
	sim_at(sim_now_ns() + TELL_MS * SIM_MS, tell_unasked, member);
}

/* ---- links ---- */

static void try_link(void *context);

struct
try {
	struct member *member;
	unsigned generation;
};

static void link_in(struct member *member, int64_t most_ms)
{
	struct try *try = malloc(sizeof(*try));
	*try = (struct try){member, member->generation};
	sim_at(sim_now_ns() + sim_between(1, most_ms) * SIM_MS, try_link, try);
}

static void try_link(void *context)
{
	struct try try = *(struct try *)context;
	struct member *member = try.member, *master = member->master;
	struct piece piece = {.whole = true};
	free(context);
	if (!master || try.generation != member->generation || rests)
		return;
	if (member->closed_until_ns > sim_now_ns() || !is_able(member) || !is_able(master) ||
	    master->master) {
		link_in(member, RETRY_MS);
		return;
	}
	member->link = COPIES;
	piece.offset = master->offset;
	if (sim_chance(200)) /* they are many */
		put_off(member, sim_now_ns() + sim_between(0, 500) * SIM_MS);
	add_all(piece_send(member, &piece), &sim_server_redis(master->number)->keys);
}

static void unlink_from_master(struct member *member)
{
	if (member->link == UP)
		member->linked_ns = sim_now_ns();
	member->generation++;
	member->link = DOWN;
	member->acked = -1;
	if (member->master)
		link_in(member, sim_chance(300) ? RETRY_MS : 20);
}

static void lose_replicas(const struct member *member)
{
	for (unsigned i = 0; i < count; i++)
		if (members[i].master == member)
			unlink_from_master(&members[i]);
}

static void new_history(struct member *member)
{
	memcpy(member->replicated.before, member->replicated.history, SIM_HISTORY_SIZE);
	snprintf(member->replicated.history, SIM_HISTORY_SIZE, "%08x%032x", member->number,
		 ++histories);
}

void sim_promote(unsigned number)
{
	struct member *member = &members[number];
	sim_note("server %u is a master", number);
	member->master = NULL;
	unlink_from_master(member);
	member->replicated.read_only = false;
	new_history(member);
}

void sim_follow(unsigned number, unsigned master)
{
	struct member *member = &members[number];
	sim_note("server %u is a replica of server %u", number, master);
	bool was_master = !member->master;
	member->master = &members[master];
	member->replicated.read_only = true;
	unlink_from_master(member);
	if (was_master) {
		lose_replicas(member);
		sim_server_demoted(number);
	}
}

void sim_replication_stall(unsigned number, int64_t until_ns)
{
	struct member *member = &members[number];
	sim_note("server %u gets nothing from its master for %.3f ms", number,
		 (double)(until_ns - sim_now_ns()) / 1e6);
	put_off(member, until_ns);
}

void sim_replication_cut(unsigned number, int64_t until_ns)
{
	struct member *member = &members[number];
	sim_note("server %u is cut off from its master for %.3f ms", number,
		 (double)(until_ns - sim_now_ns()) / 1e6);
	member->closed_until_ns = until_ns;
	unlink_from_master(member);
}

void sim_replication_stopped(unsigned number)
{
	struct member *member = &members[number];
	sim_keys_clear(&member->touched);
	unlink_from_master(member);
	lose_replicas(member);
}

void sim_replication_started(unsigned number)
{
	if (!members[number].master)
		new_history(&members[number]);
}

/* ---- what is asked ---- */

bool sim_is_replicated(void)
{
	return count > 0;
}

bool sim_is_replica(unsigned number)
{
	return members[number].master != NULL;
}

bool sim_was_linked(unsigned number, int64_t since_ns)
{
	return sim_is_linked(number) ||
	       (members[number].linked_ns && members[number].linked_ns >= since_ns);
}

bool sim_is_linked(unsigned number)
{
	return members[number].link == UP;
}

unsigned sim_master_of(unsigned number)
{
	return members[number].master ? members[number].master->number : number;
}

int64_t sim_offset(unsigned number)
{
	return members[number].offset;
}

bool sim_lacks(unsigned number, unsigned other)
{
	return members[number].offset < members[other].changed;
}

static void say_place(struct lk__buffer *out, const struct member *member)
{
	char host[32];
	snprintf(host, sizeof(host), "10.0.0.%u", member->number);
	sim_say_bulk(out, sim_word(host));
}

static void say_replica(struct lk__buffer *out, const struct member *member)
{
	static const char *const links[] = {"connect", "sync", "connected"};
	sim_say_array(out, 5);
	sim_say_bulk(out, sim_word("slave"));
	say_place(out, member->master);
	sim_say_integer(out, atoi(PORT));
	sim_say_bulk(out, sim_word(links[member->link]));
	sim_say_integer(out, member->link == UP ? member->offset : -1);
}

static void say_role(const struct sim_asked *asked)
{
	const struct member *member = &members[asked->redis->number];
	char offset[24];
	if (member->master) {
		say_replica(asked->out, member);
		return;
	}
	size_t replicas = (size_t)sim_replication_count(member->number, 0);
	sim_say_array(asked->out, 3);
	sim_say_bulk(asked->out, sim_word("master"));
	sim_say_integer(asked->out, member->offset);
	sim_say_array(asked->out, replicas);
	for (unsigned i = 0; i < count; i++) {
		if (members[i].master != member || members[i].acked < 0)
			continue;
		sim_say_array(asked->out, 3);
		say_place(asked->out, &members[i]);
		sim_say_bulk(asked->out, sim_word(PORT));
		snprintf(offset, sizeof(offset), "%lld", (long long)members[i].acked);
		sim_say_bulk(asked->out, sim_word(offset));
	}
}

/* ---- a run ---- */

void sim_replication_begin(unsigned servers, unsigned masters)
{
	memset(members, 0, sizeof(members));
	count = servers;
	histories = 0;
	rests = false;
	for (unsigned i = 0; i < count; i++) {
		struct member *member = &members[i];
		bool replica = i >= masters;
		*member = (struct member){.number = i,
					  .replicated = {.read_only = replica,
							 .before = "0",
							 .changed = changed,
							 .say_role = say_role},
					  .master = replica ? &members[i % masters] : NULL,
					  .link = replica ? UP : DOWN,
					  .acked = replica ? 0 : -1};
		snprintf(member->replicated.history, SIM_HISTORY_SIZE, "%040u", i % masters);
		sim_server_replicate(i, &member->replicated);
		sim_at(sim_now_ns() + sim_between(0, TELL_MS) * SIM_MS, tell_unasked, member);
	}
}

void sim_replication_rest(void)
{
	rests = true;
}

void sim_replication_end(void)
{
	for (unsigned i = 0; i < count; i++) {
		struct piece *piece, *next;
		DL_FOREACH_SAFE(members[i].arrived, piece, next)
		piece_free(piece);
		sim_keys_clear(&members[i].touched);
	}
	count = 0;
}
