#include "server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "network.h"
#include "scripts.h"
#include "world.h"

#define KEYS_MAX 16
#define PEERS_MAX 64
#define CHANNELS_MAX 16 /* of one client: a key each, and its own of each */
#define TURNS_MAX 64
#define TAKEN INT64_C(9000000000000000) /* as in sync/turns.lua */
#define TAKEN_TEXT "9000000000000000"
#define WORDS_MAX (LK__SCRIPT_COUNT + 8)
#define CLOCK_OFFSET_US INT64_C(1700000000000000)
#define RUNS_US INT64_C(1000000000) /* since so long, at first */
#define HELD_MAX_MS 20000           /* no owner in these runs keeps a lock for longer */

/* A lock's hash: it has one field while it exists. */
struct key {
	char name[64], owner[64];
	int64_t until_ns, since_ns;
};

struct peer {
	struct sim_link *link; /* NULL: free */
	struct lk__buffer in;
	bool gone;                        /* but what it has sent before is still to be read */
	char channels[CHANNELS_MAX][128]; /* that it listens to; "": none */
};

/* One place in the order of turns (sync/turns.lua). */
struct turn {
	char name[64], id[64]; /* of the lock and the client; no id: free */
	int64_t since_us;
};

struct server {
	struct key keys[KEYS_MAX];
	struct peer peers[PEERS_MAX];
	struct turn turns[TURNS_MAX];
	bool loaded[LK__SCRIPT_COUNT];
	int64_t offset_us;
	unsigned number, starts;
	bool down, durable;
	int64_t started_us, forgot_ns, hangs_until_ns;
};

static struct server servers[SIM_SERVERS_MAX];
static struct server *server; /* which is asked */
static bool closed;           /* nothing may be granted any more */

/* One command: its words, and where the answer goes. */
struct command {
	struct peer *peer;
	size_t count;
	const char *words[WORDS_MAX];
};

__attribute__((format(printf, 2, 3))) static void say(struct sim_link *link, const char *format,
						      ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sim_link_reply(link, text, (size_t)size);
}

/* ---- keys ---- */

static int64_t server_us(void)
{
	return sim_now_ns() / SIM_US + server->offset_us;
}

static struct key *key_find(const char *name)
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

static int64_t key_ttl_ms(const struct key *key)
{
	return (key->until_ns - sim_now_ns()) / SIM_MS;
}

static void key_expire(struct key *key, const char *lease_ms)
{
	key->until_ns = sim_now_ns() + atoll(lease_ms) * SIM_MS;
	if (sim_now_ns() - key->since_ns > HELD_MAX_MS * SIM_MS)
		sim_fail("%s has been kept for %s for %d ms", key->name, key->owner, HELD_MAX_MS);
}

static void key_own(struct key *key, const char *owner)
{
	if (closed)
		sim_fail("all is given back, and then %s is granted", owner);
	snprintf(key->owner, sizeof(key->owner), "%s", owner);
	key->since_ns = sim_now_ns();
}

static struct key *key_new(const char *name, const char *owner)
{
	struct key *key = server->keys;
	while (key->owner[0] && key < &server->keys[KEYS_MAX - 1])
		key++;
	snprintf(key->name, sizeof(key->name), "%s", name);
	key_own(key, owner);
	return key;
}

static bool key_is_of(const struct key *key, const char *owner)
{
	return key && strcmp(key->owner, owner) == 0;
}

const char *sim_server_owner(unsigned number, const char *name, int64_t *since_ns_out,
			     int64_t *until_ns_out)
{
	server = &servers[number];
	const struct key *key = key_find(name);
	if (key && since_ns_out)
		*since_ns_out = key->since_ns;
	if (key && until_ns_out)
		*until_ns_out = key->until_ns;
	return key ? key->owner : NULL;
}

void sim_server_close(void)
{
	closed = true;
}

/* Where the peer has that channel; "": a place for one, NULL: there is none. */
static char *channel_of(struct peer *peer, const char *channel)
{
	for (size_t i = 0; i < CHANNELS_MAX; i++)
		if (strcmp(peer->channels[i], channel) == 0)
			return peer->channels[i];
	return NULL;
}

static int channel_count(const struct peer *peer)
{
	int count = 0;
	for (size_t i = 0; i < CHANNELS_MAX; i++)
		count += peer->channels[i][0] != '\0';
	return count;
}

static bool peer_listens(struct peer *peer, const char *channel)
{
	return peer->link && *channel && channel_of(peer, channel);
}

static int publish(const char *channel, const char *message)
{
	int heard = 0;
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (!peer_listens(&server->peers[i], channel))
			continue;
		say(server->peers[i].link, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
		    strlen(channel), channel, strlen(message), message);
		heard++;
	}
	return heard;
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

static void wait_turn(const char *name, const char *id, const char *since_us)
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

static int listeners(const char *channel)
{
	int count = 0;
	for (size_t i = 0; i < PEERS_MAX; i++)
		count += peer_listens(&server->peers[i], channel);
	return count;
}

static const char *turn_channel(const struct turn *turn, const char *channel, char own_out[128])
{
	snprintf(own_out, 128, "%.60s:%.60s", channel, turn->id);
	return own_out;
}

/* How many listen to the lock's channel and have no turn. */
static int listeners_without_turn(const char *name, const char *channel)
{
	int count = listeners(channel);
	char own[128];
	for (size_t i = 0; i < TURNS_MAX; i++) {
		const struct turn *turn = &server->turns[i];
		if (*turn->id && strcmp(turn->name, name) == 0)
			count -= listeners(turn_channel(turn, channel, own));
	}
	return count;
}

static struct turn *first_turn(const char *name)
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
static int give_turn(const char *name, const char *channel, bool now, bool loud)
{
	struct turn *turn;
	char own[128];
	int all = listeners(channel), others = listeners_without_turn(name, channel);
	bool told = false;
	end_taken(name);
	while ((turn = first_turn(name)) != NULL && turn->since_us != TAKEN) {
		int heard = publish(turn_channel(turn, channel, own), now ? "now" : "soon");
		told |= heard > 0;
		if (heard > 0 && !now)
			break;
		if (heard > 0)
			turn->since_us = TAKEN;
		else
			turn->id[0] = '\0';
		now = now && heard == 0;
	}
	return told && others <= 0 && !loud ? -1 - all : publish(channel, told ? "00" : "0");
}

/* Its place goes; if it was its turn and the lock is free, the next one has it. */
static int leave_turn(const char *name, const char *id, const char *channel)
{
	const struct turn *first = first_turn(name);
	struct turn *turn = turn_of(name, id);
	if (!turn)
		return 0;
	bool told = turn->since_us == TAKEN, is_first = turn == first, others_told = false;
	turn->id[0] = '\0';
	for (size_t i = 0; i < TURNS_MAX; i++)
		others_told |= *server->turns[i].id && server->turns[i].since_us == TAKEN &&
			       strcmp(server->turns[i].name, name) == 0;
	if (key_find(name) || (!told && !is_first))
		return 0;
	return give_turn(name, channel, told || !others_told, false);
}

/* ---- the scripts of src/sync/lock/ ---- */

static bool is_late(struct sim_link *link, const char *deadline_us)
{
	if (server_us() <= atoll(deadline_us))
		return false;
	say(link, "+LATE %" PRId64 "\r\n", server_us());
	return true;
}

static void granted(struct sim_link *link)
{
	say(link, "$-1\r\n");
}

/* Its own owner's repetition: the lease is never shortened. */
static void again(struct sim_link *link, struct key *key, const char *lease_ms)
{
	if (key_ttl_ms(key) < atoll(lease_ms))
		key_expire(key, lease_ms);
	granted(link);
}

static void lock_acquire(struct sim_link *link, const char *name, size_t count,
			 const char **arguments)
{
	struct key *key = key_find(name);
	bool refused = key && !key_is_of(key, arguments[0]);
	bool polite = count > 6 && !key && strcmp(arguments[6], "1") == 0;
	if (is_late(link, arguments[2]))
		return;
	if (count > 4 && (refused || polite))
		wait_turn(name, arguments[3], arguments[4]);
	else if (count > 4)
		wait_turn(name, arguments[3], TAKEN_TEXT);
	if (polite) {
		say(link, ":%d\r\n", strcmp(first_turn(name)->id, arguments[3]) ? 250 : 0);
	} else if (refused) {
		say(link, ":%" PRId64 "\r\n", key_ttl_ms(key));
	} else if (key) {
		again(link, key, arguments[1]);
	} else {
		key_expire(key_new(name, arguments[0]), arguments[1]);
		granted(link);
	}
}

static void lock_release(struct sim_link *link, const char *name, const char **arguments)
{
	struct key *key = key_find(name);
	if (!key_is_of(key, arguments[0])) {
		granted(link); /* the same nil: not the owner */
		return;
	}
	key->owner[0] = '\0';
	say(link, ":%d\r\n", give_turn(name, arguments[1], true, false));
}

static void lock_exchange(struct sim_link *link, const char *name, const char **arguments)
{
	struct key *key = key_find(name);
	if (is_late(link, arguments[3]))
		return;
	if (key_is_of(key, arguments[0])) {
		key_own(key, arguments[1]);
		key_expire(key, arguments[2]);
		granted(link);
	} else if (key_is_of(key, arguments[1])) {
		again(link, key, arguments[2]);
	} else {
		say(link, ":-3\r\n");
	}
}

static void lock_renew(struct sim_link *link, size_t count, const char **names,
		       const char **arguments)
{
	say(link, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		struct key *key = key_find(names[i]);
		const char *lease_ms = arguments[2 * i + 1];
		bool own = key_is_of(key, arguments[2 * i]);
		if (own && strcmp(lease_ms, "1") != 0 && key_ttl_ms(key) < atoll(lease_ms))
			key_expire(key, lease_ms);
		say(link, ":%d\r\n", own);
	}
}

static void multi_acquire(struct sim_link *link, size_t count, const char **names,
			  const char **arguments)
{
	if (is_late(link, arguments[2]))
		return;
	for (size_t i = 0; i < count; i++) {
		const struct key *key = key_find(names[i]);
		if (!key || key_is_of(key, arguments[0]))
			continue;
		say(link, "*2\r\n:%zu\r\n:%" PRId64 "\r\n", i + 1, key_ttl_ms(key));
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct key *key = key_find(names[i]);
		if (!key)
			key_expire(key_new(names[i], arguments[0]), arguments[1]);
		else if (key_ttl_ms(key) < atoll(arguments[1]))
			key_expire(key, arguments[1]);
	}
	granted(link);
}

static void multi_release(struct sim_link *link, size_t count, const char **names,
			  const char **arguments)
{
	say(link, "*%zu\r\n", count);
	for (size_t i = 0; i < count; i++) {
		struct key *key = key_find(names[i]);
		bool own = key_is_of(key, arguments[2 * i]);
		if (own)
			key->owner[0] = '\0';
		say(link, ":%d\r\n",
		    own ? give_turn(names[i], arguments[2 * i + 1], true, true) : -1);
	}
}

static int script_of(const char *sha1)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++)
		if (strcmp(lk__scripts[i].sha1, sha1) == 0)
			return i;
	return -1;
}

static void run_script(const struct command *command)
{
	struct sim_link *link = command->peer->link;
	int script = script_of(command->words[1]);
	size_t keys = (size_t)atoll(command->words[2]);
	const char **names = (const char **)&command->words[3];
	const char **arguments = names + keys;
	if (script < 0 || !server->loaded[script]) {
		say(link, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
		return;
	}
	sim_note("server %u: %s %s %s", server->number, lk__scripts[script].name, arguments[0],
		 command->count > 4 + keys ? arguments[1] : "");
	switch (script) {
	case LK__SCRIPT_LOCK_ACQUIRE:
		lock_acquire(link, names[0], command->count - 3 - keys, arguments);
		break;
	case LK__SCRIPT_LOCK_RELEASE:
		lock_release(link, names[0], arguments);
		break;
	case LK__SCRIPT_LOCK_EXCHANGE:
		lock_exchange(link, names[0], arguments);
		break;
	case LK__SCRIPT_TURNS_LEAVE:
		say(link, ":%d\r\n", leave_turn(names[0], arguments[0], arguments[1]));
		break;
	case LK__SCRIPT_LOCK_RENEW:
		lock_renew(link, keys, names, arguments);
		break;
	case LK__SCRIPT_MULTI_ACQUIRE:
		multi_acquire(link, keys, names, arguments);
		break;
	case LK__SCRIPT_MULTI_RELEASE:
		multi_release(link, keys, names, arguments);
		break;
	default:
		sim_fail("the server has no %s", lk__scripts[script].name);
	}
}

/* ---- the other commands ---- */

static void script_exists(const struct command *command)
{
	say(command->peer->link, "*%zu\r\n", command->count - 2);
	for (size_t i = 2; i < command->count; i++) {
		int script = script_of(command->words[i]);
		say(command->peer->link, ":%d\r\n", script >= 0 && server->loaded[script]);
	}
}

static void script_load(const struct command *command)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++) {
		if (strcmp(lk__scripts[i].text, command->words[2]) != 0)
			continue;
		server->loaded[i] = true;
		say(command->peer->link, "$40\r\n%s\r\n", lk__scripts[i].sha1);
		return;
	}
	sim_fail("SCRIPT LOAD of a script that is not ours");
}

static void tell_time(const struct command *command)
{
	char seconds[24], micros[24];
	snprintf(seconds, sizeof(seconds), "%" PRId64, server_us() / 1000000);
	snprintf(micros, sizeof(micros), "%" PRId64, server_us() % 1000000);
	say(command->peer->link, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(seconds), seconds,
	    strlen(micros), micros);
}

static void subscribe(const struct command *command, bool on)
{
	struct peer *peer = command->peer;
	const char *verb = on ? "subscribe" : "unsubscribe", *channel = command->words[1];
	char *at = channel_of(peer, channel);
	if (!at && on)
		at = channel_of(peer, "");
	if (!at && on)
		sim_fail("a client has too many channels");
	else if (at)
		snprintf(at, sizeof(peer->channels[0]), "%s", on ? channel : "");
	say(peer->link, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:%d\r\n", strlen(verb), verb,
	    strlen(channel), channel, channel_count(peer));
}

static void say_text(struct sim_link *link, const char *text)
{
	say(link, "$%zu\r\n%s\r\n", strlen(text), text);
}

/* Both ends of the time that it runs are cut to whole seconds. */
static void tell_info(struct sim_link *link, const char *section)
{
	char text[400];
	if (strcmp(section, "server") == 0)
		snprintf(text, sizeof(text),
			 "# Server\r\nredis_version:7.2.4\r\nredis_mode:standalone\r\n"
			 "run_id:%08x%032x\r\nuptime_in_seconds:%" PRId64 "\r\n",
			 server->number, server->starts,
			 server_us() / 1000000 - server->started_us / 1000000);
	else if (strcmp(section, "persistence") == 0)
		snprintf(text, sizeof(text), "# Persistence\r\nloading:0\r\naof_enabled:%d\r\n",
			 server->durable);
	else
		snprintf(text, sizeof(text),
			 "# Replication\r\nrole:master\r\nmaster_replid:%08x%032x\r\n"
			 "master_replid2:%040d\r\n",
			 server->number, server->starts, 0);
	say_text(link, text);
}

static void tell_config(const struct command *command)
{
	const char *value = server->durable ? "always" : "everysec";
	if (strcmp(command->words[1], "GET") != 0 || strcmp(command->words[2], "appendfsync") != 0)
		sim_fail("the server knows only CONFIG GET appendfsync");
	say(command->peer->link, "*2\r\n$11\r\nappendfsync\r\n");
	say_text(command->peer->link, value);
}

static void obey(const struct command *command)
{
	const char *verb = command->words[0];
	struct sim_link *link = command->peer->link;
	if (strcmp(verb, "EVALSHA") == 0)
		run_script(command);
	else if (strcmp(verb, "TIME") == 0)
		tell_time(command);
	else if (strcmp(verb, "SCRIPT") == 0 && strcmp(command->words[1], "EXISTS") == 0)
		script_exists(command);
	else if (strcmp(verb, "SCRIPT") == 0)
		script_load(command);
	else if (strcmp(verb, "SUBSCRIBE") == 0)
		subscribe(command, true);
	else if (strcmp(verb, "UNSUBSCRIBE") == 0)
		subscribe(command, false);
	else if (strcmp(verb, "INFO") == 0)
		tell_info(link, command->words[1]);
	else if (strcmp(verb, "CONFIG") == 0)
		tell_config(command);
	else if (strcmp(verb, "CLIENT") == 0)
		say(link, "+OK\r\n");
	else if (strcmp(verb, "HELLO") == 0)
		say(link, "*2\r\n$2\r\nid\r\n:1\r\n");
	else if (strcmp(verb, "PING") == 0 && channel_count(command->peer) > 0)
		say(link, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	else if (strcmp(verb, "PING") == 0)
		say(link, "+PONG\r\n");
	else
		sim_fail("the server does not know %s", verb);
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
static char *read_command(char *at, const char *end, struct command *command)
{
	size_t sizes[WORDS_MAX];
	at = read_number(at, end, &command->count);
	if (!at || command->count > WORDS_MAX)
		return NULL;
	for (size_t i = 0; i < command->count; i++) {
		at = at < end ? read_number(at, end, &sizes[i]) : NULL;
		if (!at || (size_t)(end - at) < sizes[i] + 2)
			return NULL;
		command->words[i] = at;
		at += sizes[i] + 2;
	}
	for (size_t i = 0; i < command->count; i++)
		((char *)command->words[i])[sizes[i]] = '\0';
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
	lk__buffer_free(&peer->in);
	memset(peer, 0, sizeof(*peer));
}

/* Obeys what is there as a whole. */
static void peer_read(struct peer *peer)
{
	struct command command = {.peer = peer};
	struct lk__buffer *in = &peer->in;
	while (lk__buffer_size(in) > 0) {
		char *begin = in->bytes + in->start;
		char *end = read_command(begin, in->bytes + in->end, &command);
		if (!end)
			return;
		obey(&command);
		lk__buffer_take(in, (size_t)(end - begin));
	}
}

static bool server_hangs(void)
{
	return server->hangs_until_ns > sim_now_ns();
}

void sim_server_take(struct sim_link *link, const void *bytes, size_t size)
{
	server = &servers[sim_link_server(link)];
	struct peer *peer = peer_of(link);
	lk__buffer_append(&peer->in, bytes, size);
	if (!server_hangs())
		peer_read(peer);
}

void sim_server_gone(struct sim_link *link)
{
	server = &servers[sim_link_server(link)];
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
	server = context;
	if (server->down || server_hangs())
		return;
	size_t first = sim_random(PEERS_MAX);
	sim_note("server %u answers again", server->number);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &server->peers[(first + i) % PEERS_MAX];
		peer_read(peer);
		if (peer->gone)
			peer_free(peer);
	}
}

void sim_server_hang(unsigned number, int64_t until_ns)
{
	server = &servers[number];
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
	server = &servers[number];
	server->down = true;
	for (size_t i = 0; i < PEERS_MAX; i++)
		peer_free(&server->peers[i]);
}

void sim_server_start(unsigned number, bool remembers)
{
	server = &servers[number];
	remembers |= server->durable;
	sim_note("server %u starts, %s", number, remembers ? "with its data" : "and is empty");
	server->down = false;
	server->starts++;
	server->started_us = server_us();
	memset(server->loaded, 0, sizeof(server->loaded));
	if (remembers)
		return;
	memset(server->keys, 0, sizeof(server->keys));
	memset(server->turns, 0, sizeof(server->turns));
	server->forgot_ns = sim_now_ns();
}

int64_t sim_server_forgot_ns(unsigned number)
{
	return servers[number].forgot_ns;
}

void sim_server_begin(unsigned count, bool durable)
{
	memset(servers, 0, sizeof(servers));
	closed = false;
	for (unsigned i = 0; i < count; i++) {
		server = &servers[i];
		server->number = i;
		server->durable = durable;
		server->offset_us = CLOCK_OFFSET_US + sim_between(0, 1000000);
		server->started_us = server_us() - RUNS_US;
		server->forgot_ns = INT64_MIN;
	}
}

void sim_server_end(void)
{
	for (size_t i = 0; i < SIM_SERVERS_MAX; i++)
		for (size_t j = 0; j < PEERS_MAX; j++)
			lk__buffer_free(&servers[i].peers[j].in);
}
