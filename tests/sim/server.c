#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "network.h"
#include "replication.h"
#include "resp.h"
#include "tracking.h"
#include "world.h"

#define PEERS_MAX 256 /* a server that hangs keeps those that have gone */
#define WORDS_MAX 512
#define CLOCK_OFFSET_US INT64_C(1700000000000000)
#define RUNS_US INT64_C(1000000000) /* since so long, at first */
#define SYNC_MS 1000                /* between what is written to the disk */
#define TRACKED_LOST 125            /* of 1,000 messages of tracking */
#define HELD_MAX_MS 20000           /* no owner in these runs keeps a lock for longer */

struct peer {
	struct sim_link *link; /* NULL: free */
	struct lk__buffer in;
	bool gone;       /* but what it has sent before is still to be read */
	bool asking;     /* ASKING, for the next command */
	int64_t written; /* how far the server was behind its last write */
	/* WAIT: for so many replicas, until then; 0: it does not wait. */
	int acks;
	int64_t waits_until_ns;
	struct sim_tracker tracker;
};

struct server {
	struct sim_redis redis;
	struct sim_tracking tracking;
	struct sim_keys disk; /* with what it was some time ago */
	struct peer peers[PEERS_MAX];
	int64_t offset_us, drift_ppm, drifts_from_ns; /* of its clock */
	bool down, pauses;
	int64_t forgot_ns, hangs_until_ns;
};

/* One command, and where the answer goes. */
struct request {
	struct peer *peer;
	size_t count;
	struct sim_word words[WORDS_MAX];
};

static struct server servers[SIM_SERVERS_MAX];
static struct server *server; /* which is asked */
static unsigned lost_in_1000; /* messages that are published */
static bool closed;           /* nothing may be granted any more */
static void (*watch)(unsigned number, const struct sim_key *key, const struct sim_item *item);
static void (*follow)(unsigned number, const char *what, const char *key);

static int64_t clock_us(const struct server *of)
{
	int64_t drifts_us = (sim_now_ns() - of->drifts_from_ns) / SIM_US;
	return sim_now_ns() / SIM_US + of->offset_us + drifts_us * of->drift_ppm / 1000000;
}

static struct server *choose(unsigned number)
{
	server = &servers[number];
	server->redis.keys.now_us = clock_us(server);
	return server;
}

static bool server_hangs(void)
{
	return server->hangs_until_ns > sim_now_ns();
}

static void peer_read(struct peer *peer);

/* ---- what is asked ---- */

/* To one that listens. */
static void tell(void *listener, const void *bytes, size_t size)
{
	if (lost_in_1000 > 0 && sim_chance(lost_in_1000))
		sim_note("a message is lost");
	else
		sim_link_reply(((struct peer *)listener)->link, bytes, size);
}

static bool begins(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

/* A barrier remembers for an hour what became of those who came. */
static bool is_barrier(const struct sim_key *key)
{
	for (size_t i = 0; i < key->count; i++)
		if (strcmp(key->items[i].bytes, "parties") == 0)
			return true;
	return false;
}

/* A barrier's record of one that has come, gone or left, and with it the number of parties. */
static bool is_record(const struct sim_key *key, const struct sim_item *item)
{
	return is_barrier(key) &&
	       (strcmp(item->bytes, "parties") == 0 || begins(item->value, "met ") ||
		begins(item->value, "left ") || begins(item->value, "gone "));
}

/* A grant is a field of a lock's hash, or a string. */
static void check_made(const struct sim_key *key, const struct sim_item *item)
{
	if (closed && (key->type == SIM_HASH || key->type == SIM_STRING) && !is_record(key, item))
		sim_fail("all is given back, and then %s has %s", key->name, item->bytes);
	struct server *own = server; /* a judge may look at another */
	if (watch)
		watch(server->redis.number, key, item);
	server = own;
}

/* An owner ends in a number behind a colon; a mode and a count do not. */
static void check_held(struct sim_word name)
{
	const struct sim_key *key = sim_key_find(&server->redis.keys, name);
	int64_t since_us = server->redis.keys.now_us - HELD_MAX_MS * INT64_C(1000);
	for (size_t i = 0; key && !is_barrier(key) && i < key->count; i++)
		if (key->items[i].since_us < since_us && strchr(key->items[i].bytes, ':'))
			sim_fail("%s has been kept for %s for %d ms", key->name,
				 key->items[i].bytes, HELD_MAX_MS);
}

static void watch_script(const struct request *request)
{
	int script = sim_script_of_sha1(request->words[1]);
	size_t keys = (size_t)atoll(request->words[2].bytes);
	for (size_t i = 0; i < keys; i++)
		check_held(request->words[3 + i]);
	sim_note("server %u: %s %s %s", server->redis.number,
		 script < 0 ? "?" : sim_script_name(script),
		 request->count > 3 + keys ? request->words[3 + keys].bytes : "",
		 request->count > 4 + keys ? request->words[4 + keys].bytes : "");
}

/* ---- WAIT ---- */

static void say_to(struct peer *peer, struct lk__buffer *out)
{
	sim_link_reply(peer->link, lk__buffer_front(out), lk__buffer_size(out));
	lk__buffer_free(out);
}

/* Whether its time is over, or so many replicas have told that they have it. */
static bool has_waited(struct peer *peer)
{
	struct lk__buffer out = {0};
	int have = sim_replication_count(server->redis.number, peer->written);
	if (have < peer->acks && sim_now_ns() < peer->waits_until_ns)
		return false;
	peer->waits_until_ns = 0;
	sim_say_integer(&out, have);
	say_to(peer, &out);
	return true;
}

static void check_waits(void *context)
{
	struct server *waited = context;
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &waited->peers[i];
		choose((unsigned)(waited - servers));
		if (server->down || server_hangs())
			return;
		if (peer->link && peer->waits_until_ns && has_waited(peer))
			peer_read(peer);
	}
}

static void wait_for_replicas(const struct request *request)
{
	struct peer *peer = request->peer;
	int64_t limit_ms = atoll(request->words[2].bytes);
	if (server->redis.replicated->read_only) {
		struct lk__buffer out = {0};
		sim_say_error(&out, "ERR WAIT cannot be used with replica instances.");
		say_to(peer, &out);
		return;
	}
	peer->acks = atoi(request->words[1].bytes);
	peer->waits_until_ns = limit_ms ? sim_now_ns() + limit_ms * SIM_MS : SIM_NEVER;
	if (has_waited(peer))
		return;
	sim_replication_ask(server->redis.number);
	if (limit_ms)
		sim_at(peer->waits_until_ns, check_waits, server);
}

void sim_server_heard(unsigned number)
{
	check_waits(&servers[number]);
}

void sim_server_demoted(unsigned number)
{
	choose(number);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[i];
		struct lk__buffer out = {0};
		if (!peer->link || !peer->waits_until_ns)
			continue;
		sim_say_error(&out, "UNBLOCKED force unblock from blocking operation, instance "
				    "state changed (master -> replica?)");
		say_to(peer, &out);
		sim_link_cut(peer->link);
	}
}

void sim_server_kill(unsigned number, bool listening)
{
	choose(number);
	sim_note("somebody ends the connections that %s", listening ? "listen" : "track");
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[i];
		bool listens = sim_channels_of(&server->redis.channels, peer, false) > 0;
		if (peer->link && (listening ? listens : peer->tracker.on))
			sim_link_cut(peer->link);
	}
}

void sim_server_pause(unsigned number, bool pauses)
{
	choose(number)->pauses = pauses;
	for (size_t i = 0; i < PEERS_MAX && !pauses; i++)
		if (server->peers[i].link && !server->down && !server_hangs())
			peer_read(&server->peers[i]);
}

/* ---- commands ---- */

/* Only to one that listens. */
static void tell_tracker(int64_t id, const void *bytes, size_t size)
{
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[i];
		if (peer->link && peer->tracker.id == id &&
		    sim_channels_of(&server->redis.channels, peer, false) > 0)
			sim_link_reply(peer->link, bytes, size);
	}
}

static void tell_follower(const struct sim_asked *asked)
{
	bool script = asked->count > 3 && sim_word_is(asked->words[0], "EVALSHA");
	int number = script ? sim_script_of_sha1(asked->words[1]) : -1;
	struct server *own = server; /* a judge may look at another */
	if (follow)
		follow(asked->redis->number,
		       number < 0 ? asked->words[0].bytes : sim_script_name(number),
		       script             ? asked->words[3].bytes
		       : asked->count > 1 ? asked->words[1].bytes
					  : "");
	server = own;
}

static void obey(const struct request *request)
{
	struct lk__buffer out = {0};
	struct sim_asked asked = {&server->redis, request->peer, &out, request->count,
				  request->words};
	if (server->redis.replicated && request->count == 3 &&
	    sim_word_is(request->words[0], "WAIT")) {
		wait_for_replicas(request);
		return;
	}
	server->redis.asking = request->peer->asking;
	request->peer->asking = request->count == 1 && sim_word_is(request->words[0], "ASKING");
	sim_keys_sweep(&server->redis.keys);
	if (request->count > 3 && sim_word_is(request->words[0], "EVALSHA"))
		watch_script(request);
	if (sim_tracking_obeys(&server->tracking, &request->peer->tracker, &asked)) {
		say_to(request->peer, &out);
		return;
	}
	sim_command_run(&asked);
	tell_follower(&asked);
	sim_tracking_ran(&server->tracking, &request->peer->tracker, &asked, tell_tracker);
	int64_t offset = server->redis.replicated ? sim_replication_ship(server->redis.number) : 0;
	request->peer->written = offset ? offset : request->peer->written;
	say_to(request->peer, &out);
}

/* ---- reading ---- */

/* The number behind `*` or `$`, and where its line ends; NULL when it is not all there. */
static char *read_number(char *at, const char *end, size_t *number)
{
	char *line_end = memchr(at, '\n', (size_t)(end - at));
	if (line_end)
		*number = (size_t)atoll(at + 1);
	return line_end ? line_end + 1 : NULL;
}

/* Where a whole command ends, its words ended with a NUL; NULL when it is not all there. */
static char *read_request(char *at, const char *end, struct request *request)
{
	at = read_number(at, end, &request->count);
	if (at && request->count > WORDS_MAX)
		sim_fail("a command has %zu words", request->count);
	if (!at || request->count > WORDS_MAX)
		return NULL;
	for (size_t i = 0; i < request->count; i++) {
		struct sim_word *word = &request->words[i];
		at = at < end ? read_number(at, end, &word->size) : NULL;
		if (!at || (size_t)(end - at) < word->size + 2)
			return NULL;
		word->bytes = at;
		at += word->size + 2;
	}
	for (size_t i = 0; i < request->count; i++)
		((char *)request->words[i].bytes)[request->words[i].size] = '\0';
	return at;
}

static struct peer *peer_of(struct sim_link *link)
{
	struct peer *unused = NULL;
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (server->peers[i].link == link)
			return &server->peers[i];
		if (!server->peers[i].link)
			unused = &server->peers[i];
	}
	if (!unused) {
		sim_fail("the server has too many connections");
		return &server->peers[0];
	}
	unused->link = link;
	return unused;
}

static void peer_free(struct peer *peer)
{
	sim_channels_leave_all(&server->redis.channels, peer);
	sim_tracking_gone(&server->tracking, &peer->tracker);
	lk__buffer_free(&peer->in);
	memset(peer, 0, sizeof(*peer));
}

/* Obeys what is there as a whole, until it must wait. */
static void peer_read(struct peer *peer)
{
	static struct request request;
	struct lk__buffer *in = &peer->in;
	request.peer = peer;
	while (lk__buffer_size(in) > 0 && !peer->waits_until_ns) {
		char *begin = in->bytes + in->start;
		char *end = read_request(begin, in->bytes + in->end, &request);
		if (!end || (server->pauses && sim_command_writes(request.words[0])))
			return;
		obey(&request);
		lk__buffer_take(in, (size_t)(end - begin));
	}
}

void sim_server_take(struct sim_link *link, const void *bytes, size_t size)
{
	choose(sim_link_server(link));
	struct peer *peer = peer_of(link);
	lk__buffer_append(&peer->in, bytes, size);
	if (!server_hangs())
		peer_read(peer);
}

void sim_server_gone(struct sim_link *link)
{
	choose(sim_link_server(link));
	struct peer *peer = peer_of(link);
	if (server_hangs())
		peer->gone = true;
	else
		peer_free(peer);
}

/* ---- how it fails ---- */

/* It reads what has come meanwhile, of one client after the other from any on. */
static void server_wakes(void *context)
{
	choose((unsigned)((struct server *)context - servers));
	if (server->down || server_hangs())
		return;
	size_t first = sim_random(PEERS_MAX);
	sim_note("server %u answers again", server->redis.number);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[(first + i) % PEERS_MAX];
		peer_read(peer);
		if (peer->gone)
			peer_free(peer);
	}
	check_waits(server);
}

int64_t sim_server_hangs(unsigned number)
{
	return servers[number].hangs_until_ns > sim_now_ns() ? servers[number].hangs_until_ns : 0;
}

void sim_server_hang(unsigned number, int64_t until_ns)
{
	choose(number);
	sim_note("server %u hangs for %.3f ms", number, (double)(until_ns - sim_now_ns()) / 1e6);
	server->hangs_until_ns = until_ns;
	sim_at(until_ns, server_wakes, server);
}

bool sim_server_is_down(unsigned number)
{
	return servers[number].down;
}

void sim_server_stop(unsigned number, bool vanishes)
{
	sim_note("server %u %s", number, vanishes ? "vanishes" : "stops");
	servers[number].hangs_until_ns = 0;
	sim_network_lose(number, vanishes);
	choose(number)->down = true;
	for (size_t i = 0; i < PEERS_MAX; i++)
		peer_free(&server->peers[i]);
	server->pauses = false;
	if (server->redis.replicated)
		sim_replication_stopped(number);
}

void sim_server_refuse(unsigned number, enum sim_refusal refuses)
{
	static const char *const what[] = {
		"nothing",           "to serve while it loads", "all while it is busy",
		"to write: MISCONF", "to write: NOREPLICAS",    "what needs memory"};
	choose(number);
	sim_note("server %u refuses %s", number, what[refuses]);
	server->redis.refuses = refuses;
}

void sim_server_step(unsigned number, int64_t ms)
{
	servers[number].offset_us += ms * 1000;
}

void sim_server_drift(unsigned number, int64_t ppm)
{
	servers[number].drift_ppm = ppm;
	servers[number].drifts_from_ns = sim_now_ns();
}

void sim_server_forget_scripts(unsigned number)
{
	choose(number);
	sim_note("server %u forgets the scripts", number);
	memset(server->redis.loaded, 0, sizeof(server->redis.loaded));
}

void sim_server_start(unsigned number, bool remembers)
{
	choose(number);
	remembers |= server->redis.durable;
	sim_note("server %u starts, %s", number, remembers ? "with its data" : "and is empty");
	server->down = false;
	server->redis.starts++;
	server->redis.started_us = server->redis.keys.now_us;
	memset(server->redis.loaded, 0, sizeof(server->redis.loaded));
	if (server->redis.replicated)
		sim_replication_started(number);
	if (remembers)
		return;
	sim_keys_clear(&server->redis.keys);
	server->forgot_ns = sim_now_ns();
}

static void copy_keys(struct sim_keys *to, const struct sim_keys *from)
{
	sim_keys_clear(to);
	for (const struct sim_key *key = from->table; key; key = key->hh.next)
		sim_key_put(to, key);
}

static void sync_disk(void *context)
{
	struct server *synced = context;
	if (!sim_has(SIM_OUTAGES))
		return;
	if (!synced->down)
		copy_keys(&synced->disk, &synced->redis.keys);
	sim_at(sim_now_ns() + SYNC_MS * SIM_MS, sync_disk, synced);
}

void sim_server_sync(unsigned number)
{
	sim_at(sim_now_ns() + sim_between(0, SYNC_MS) * SIM_MS, sync_disk, &servers[number]);
}

void sim_server_start_torn(unsigned number)
{
	sim_server_start(number, true);
	if (server->redis.durable)
		return;
	sim_note("server %u lacks what was last", number);
	copy_keys(&server->redis.keys, &server->disk);
	server->forgot_ns = sim_now_ns();
}

int64_t sim_server_forgot_ns(unsigned number)
{
	return servers[number].forgot_ns;
}

void sim_server_begin(unsigned count, bool durable)
{
	closed = false;
	lost_in_1000 = 0;
	watch = NULL;
	follow = NULL;
	for (unsigned i = 0; i < count; i++) {
		servers[i] = (struct server){.offset_us = CLOCK_OFFSET_US + sim_between(0, 1000000),
					     .forgot_ns = INT64_MIN,
					     .tracking.lost_in_1000 = TRACKED_LOST,
					     .redis = {.keys.made = check_made,
						       .tell = tell,
						       .random = sim_random,
						       .number = i,
						       .durable = durable}};
		server = choose(i);
		server->redis.started_us = server->redis.keys.now_us - RUNS_US;
	}
}

void sim_server_replicate(unsigned number, struct sim_replicated *replicated)
{
	servers[number].redis.replicated = replicated;
	servers[number].offset_us = servers[0].offset_us;
}

struct sim_redis *sim_server_redis(unsigned number)
{
	struct sim_redis *redis = &servers[number].redis;
	redis->keys.now_us = clock_us(&servers[number]);
	return redis;
}

void sim_server_close(void)
{
	closed = true;
}

void sim_server_end(void)
{
	for (size_t i = 0; i < SIM_SERVERS_MAX; i++) {
		for (size_t j = 0; j < PEERS_MAX; j++)
			lk__buffer_free(&servers[i].peers[j].in);
		sim_keys_clear(&servers[i].redis.keys);
		sim_keys_clear(&servers[i].disk);
		sim_channels_clear(&servers[i].redis.channels);
		sim_tracking_clear(&servers[i].tracking);
	}
}

/* ---- what it has ---- */

static int64_t world_ns(int64_t us)
{
	int64_t ahead_us = us - clock_us(server); /* what a faster clock has sooner is sooner */
	return sim_now_ns() + (ahead_us - ahead_us * server->drift_ppm / 1000000) * SIM_US;
}

/* A count is a string as well, and has no time to live. */
static bool is_lock(const struct sim_key *key)
{
	return key->type == SIM_HASH || (key->type == SIM_STRING && key->expires_ms != SIM_KEPT);
}

const char *sim_server_owner(unsigned number, const char *name, int64_t *since_ns_out,
			     int64_t *until_ns_out)
{
	const struct sim_key *key = sim_key_find(&choose(number)->redis.keys, sim_word(name));
	if (!key || !is_lock(key))
		return NULL;
	const struct sim_item *item = key->items;
	if (key->count > 1 && strcmp(item->bytes, "mode") == 0)
		item++;
	if (since_ns_out)
		*since_ns_out = world_ns(item->since_us);
	if (until_ns_out)
		*until_ns_out = key->expires_ms == SIM_KEPT
					? SIM_NEVER
					: world_ns((key->expires_ms + 1) * 1000);
	return item->bytes;
}

const struct sim_key *sim_server_key(unsigned number, const char *name)
{
	return sim_key_find(&choose(number)->redis.keys, sim_word(name));
}

void sim_server_watch(void (*made)(unsigned number, const struct sim_key *key,
				   const struct sim_item *item))
{
	watch = made;
}

void sim_server_follow(void (*ran)(unsigned number, const char *what, const char *key))
{
	follow = ran;
}

static bool is_owner(const char *bytes, const char *owner)
{
	size_t size = strlen(owner);
	return strncmp(bytes, owner, size) == 0 &&
	       (bytes[size] == '\0' || strcmp(bytes + size, ":write") == 0);
}

bool sim_server_has(unsigned number, const char *name, const char *owner, int64_t *until_ns_out)
{
	const struct sim_key *key = sim_server_key(number, name);
	bool has = false;
	for (size_t i = 0; key && i < key->count; i++)
		has |= is_owner(key->items[i].bytes, owner);
	if (has)
		*until_ns_out = key->expires_ms == SIM_KEPT
					? SIM_NEVER
					: world_ns((key->expires_ms + 1) * 1000);
	return has;
}

void sim_server_lose_messages(unsigned in_1000)
{
	lost_in_1000 = in_1000;
	for (unsigned i = 0; i < SIM_SERVERS_MAX; i++)
		servers[i].tracking.lost_in_1000 = in_1000;
}

unsigned sim_server_trackers(unsigned number, const char *key, bool waiting)
{
	return sim_tracking_count(&servers[number].tracking, sim_word(key), waiting);
}

void sim_server_do(unsigned number, const char *const *words, size_t count)
{
	static char nobody; /* no script: a connection of its own, which nobody reads */
	struct sim_tracker tracker = {0};
	struct lk__buffer out = {0};
	struct sim_word command[8];
	for (size_t i = 0; i < count; i++)
		command[i] = sim_word(words[i]);
	struct sim_asked asked = {&choose(number)->redis, &nobody, &out, count, command};
	sim_command_run(&asked);
	tell_follower(&asked);
	sim_tracking_ran(&server->tracking, &tracker, &asked, tell_tracker);
	for (size_t i = 0; i < PEERS_MAX && sim_word_is(command[0], "FLUSHALL"); i++)
		sim_tracking_flushed(&server->tracking, &server->peers[i].tracker, tell_tracker);
	lk__buffer_free(&out);
}

void sim_server_set(unsigned number, const char *name, int64_t value)
{
	struct sim_keys *keys = &choose(number)->redis.keys;
	char digits[24];
	snprintf(digits, sizeof(digits), "%lld", (long long)value);
	struct sim_key *key = sim_key_make(keys, sim_word(name), SIM_STRING);
	sim_item_insert(keys, key, 0, sim_word(digits), SIM_NO_VALUE);
}

bool sim_server_number(unsigned number, const char *name, int64_t *value_out)
{
	const struct sim_key *key = sim_key_find(&choose(number)->redis.keys, sim_word(name));
	bool there = key && key->type == SIM_STRING;
	if (there)
		*value_out = strtoll(key->items[0].bytes, NULL, 10);
	return there;
}
