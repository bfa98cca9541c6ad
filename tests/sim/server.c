#include "server.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "server_inside.h"
#include "world.h"

static struct server servers[SIM_SERVERS_MAX];
struct server *server;

struct server *srv_at(unsigned number)
{
	return &servers[number];
}

int64_t srv_us(void)
{
	return sim_now_ns() / SIM_US + server->offset_us;
}

void srv_say(struct sim_link *link, const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sim_link_reply(link, text, (size_t)size);
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

int srv_publish(const char *channel, const char *message)
{
	int heard = 0;
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (!peer_listens(&server->peers[i], channel))
			continue;
		srv_say(server->peers[i].link,
			"*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(channel),
			channel, strlen(message), message);
		heard++;
	}
	return heard;
}

int srv_listeners(const char *channel)
{
	int count = 0;
	for (size_t i = 0; i < PEERS_MAX; i++)
		count += peer_listens(&server->peers[i], channel);
	return count;
}

/* ---- the other commands ---- */

static void script_exists(const struct command *command)
{
	srv_say(command->peer->link, "*%zu\r\n", command->count - 2);
	for (size_t i = 2; i < command->count; i++) {
		int script = srv_script_of(command->words[i]);
		srv_say(command->peer->link, ":%d\r\n", script >= 0 && server->loaded[script]);
	}
}

static void script_load(const struct command *command)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++) {
		if (strcmp(lk__scripts[i].text, command->words[2]) != 0)
			continue;
		server->loaded[i] = true;
		srv_say(command->peer->link, "$40\r\n%s\r\n", lk__scripts[i].sha1);
		return;
	}
	sim_fail("SCRIPT LOAD of a script that is not ours");
}

static void tell_time(const struct command *command)
{
	char seconds[24], micros[24];
	snprintf(seconds, sizeof(seconds), "%" PRId64, srv_us() / 1000000);
	snprintf(micros, sizeof(micros), "%" PRId64, srv_us() % 1000000);
	srv_say(command->peer->link, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(seconds), seconds,
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
	srv_say(peer->link, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:%d\r\n", strlen(verb), verb,
		strlen(channel), channel, channel_count(peer));
}

static void say_text(struct sim_link *link, const char *text)
{
	srv_say(link, "$%zu\r\n%s\r\n", strlen(text), text);
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
			 srv_us() / 1000000 - server->started_us / 1000000);
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
	srv_say(command->peer->link, "*2\r\n$11\r\nappendfsync\r\n");
	say_text(command->peer->link, value);
}

static void obey(const struct command *command)
{
	const char *verb = command->words[0];
	struct sim_link *link = command->peer->link;
	if (strcmp(verb, "EVALSHA") == 0)
		srv_run_script(command);
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
		srv_say(link, "+OK\r\n");
	else if (strcmp(verb, "HELLO") == 0)
		srv_say(link, "*2\r\n$2\r\nid\r\n:1\r\n");
	else if (strcmp(verb, "PING") == 0 && channel_count(command->peer) > 0)
		srv_say(link, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	else if (strcmp(verb, "PING") == 0)
		srv_say(link, "+PONG\r\n");
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
	server->started_us = srv_us();
	memset(server->loaded, 0, sizeof(server->loaded));
	if (remembers)
		return;
	memset(server->keys, 0, sizeof(server->keys));
	memset(server->turns, 0, sizeof(server->turns));
	memset(server->strings, 0, sizeof(server->strings));
	memset(&server->sides, 0, sizeof(server->sides));
	server->forgot_ns = sim_now_ns();
}

int64_t sim_server_forgot_ns(unsigned number)
{
	return servers[number].forgot_ns;
}

void sim_server_begin(unsigned count, bool durable)
{
	memset(servers, 0, sizeof(servers));
	srv_close(false);
	for (unsigned i = 0; i < count; i++) {
		server = &servers[i];
		server->number = i;
		server->durable = durable;
		server->offset_us = CLOCK_OFFSET_US + sim_between(0, 1000000);
		server->started_us = srv_us() - RUNS_US;
		server->forgot_ns = INT64_MIN;
	}
}

void sim_server_close(void)
{
	srv_close(true);
}

void sim_server_end(void)
{
	for (size_t i = 0; i < SIM_SERVERS_MAX; i++)
		for (size_t j = 0; j < PEERS_MAX; j++)
			lk__buffer_free(&servers[i].peers[j].in);
}
