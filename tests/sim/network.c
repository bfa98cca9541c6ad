#include "network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers.h"
#include "happens.h"
#include "server.h"
#include "world.h"

#define LINKS_MAX 4096 /* of one run */

enum state { CONNECTING, REFUSED, UP, ENDED };

struct sim_link {
	unsigned server, process;
	enum state state;          /* as the client sees it */
	bool shut;                 /* the client has ended it */
	bool cut;                  /* the server has no part in it any more */
	bool silent;               /* what the server says is lost, */
	bool mute;                 /* and what the client says */
	bool lost;                 /* with its server: the next one to run there does not know it */
	int64_t there_ns, back_ns; /* when the last bytes arrive, in each direction */
	int64_t full_until_ns;     /* the client's buffer takes nothing before */
	struct lk__buffer arrived; /* for the client */
};

struct bytes {
	struct sim_link *link;
	size_t size;
	char bytes[];
};

static struct sim_link *links[LINKS_MAX];
static size_t link_count;
static bool vanished[SIM_SERVERS_MAX]; /* nothing comes from there, not even a refusal */
static unsigned isolated;              /* a process that reaches no server, or 0 */

/* A network is quick, now and then slow, and seldom very slow. */
static int64_t delay_ns(void)
{
	if (sim_has(SIM_LOSSES) && sim_chance(5) && sim_happens())
		return sim_between(1, 700) * SIM_MS;
	return sim_chance(50) ? sim_between(1, 20) * SIM_MS : sim_between(20, 300) * SIM_US;
}

static int64_t arrival_ns(int64_t *last_ns)
{
	int64_t at_ns = sim_now_ns() + delay_ns();
	if (at_ns > *last_ns)
		*last_ns = at_ns;
	return *last_ns;
}

static struct bytes *bytes_of(struct sim_link *link, const void *bytes, size_t size)
{
	struct bytes *copy = malloc(sizeof(*copy) + size);
	copy->link = link;
	copy->size = size;
	if (size > 0)
		memcpy(copy->bytes, bytes, size);
	return copy;
}

/* ---- how it ends ---- */

static void link_end(void *context)
{
	struct sim_link *link = context;
	if (link->state == UP)
		link->state = ENDED;
}

static void link_cut(void *context)
{
	struct sim_link *link = context;
	if (link->cut)
		return;
	sim_note("network: a connection is cut");
	link->cut = true;
	sim_server_gone(link);
	sim_at(arrival_ns(&link->back_ns), link_end, link);
}

void sim_link_cut(struct sim_link *link)
{
	link_cut(link);
}

static void link_fall_silent(void *context)
{
	struct sim_link *link = context;
	sim_note("network: a connection falls silent");
	link->silent = true;
	if (sim_chance(500))
		sim_at(sim_now_ns() + sim_between(1, 400) * SIM_MS, link_cut, link);
}

/* The client has just written, and sees the end: what it wrote still arrives, some time later. */
static void link_sever(struct sim_link *link)
{
	sim_note("network: a connection is severed");
	link->silent = true;
	int64_t later_ns = sim_now_ns() + sim_between(0, 300) * SIM_MS;
	if (link->there_ns < later_ns)
		link->there_ns = later_ns;
	sim_at(arrival_ns(&link->back_ns), link_end, link);
}

void sim_network_lose(unsigned server, bool vanishes)
{
	vanished[server] = vanishes;
	for (size_t i = 0; i < link_count; i++) {
		struct sim_link *link = links[i];
		if (link->server != server || link->state == CONNECTING || link->cut)
			continue;
		if (!vanishes)
			link_cut(link);
		link->cut = link->silent = link->lost = true;
	}
}

void sim_network_forget(unsigned server)
{
	unsigned ways = (unsigned)sim_random(3);
	sim_note("network: the connections to server %u are forgotten", server);
	for (size_t i = 0; i < link_count; i++) {
		struct sim_link *link = links[i];
		if (link->server != server || link->state != UP || link->cut)
			continue;
		link->silent |= ways != 1;
		link->mute |= ways != 0;
	}
}

void sim_network_die(unsigned process)
{
	for (size_t i = 0; i < link_count; i++)
		if (links[i]->process == process)
			link_cut(links[i]);
}

void sim_network_isolate(unsigned process)
{
	isolated = process;
	if (process > 0)
		sim_network_die(process);
}

static void link_plan_faults(struct sim_link *link)
{
	int64_t at_ns = sim_now_ns() + sim_between(0, 2000) * SIM_MS;
	if (!sim_has(SIM_LOSSES) || sim_chance(300))
		return;
	void (*fault)(void *) = sim_chance(500) ? link_cut : link_fall_silent;
	if (sim_happens())
		sim_at(at_ns, fault, link);
}

/* ---- the way there ---- */

static void link_connected(void *context)
{
	struct sim_link *link = context;
	bool down = sim_server_is_down(link->server);
	if (down && vanished[link->server])
		return;
	bool refused = down || (isolated > 0 && link->process == isolated);
	if (refused || (sim_has(SIM_LOSSES) && sim_chance(50) && sim_happens())) {
		link->state = REFUSED;
		link->cut = true;
		return;
	}
	link->state = UP;
	link_plan_faults(link);
}

struct sim_link *sim_link_new(unsigned server)
{
	if (link_count == LINKS_MAX) {
		sim_fail("no room for a connection");
		return NULL;
	}
	struct sim_link *link = calloc(1, sizeof(*link));
	link->server = server;
	link->process = sim_process();
	links[link_count++] = link;
	sim_at(arrival_ns(&link->there_ns), link_connected, link);
	return link;
}

/* A server that has started again says that it does not know the connection. */
static void link_arrive(void *context)
{
	struct bytes *bytes = context;
	struct sim_link *link = bytes->link;
	if (!link->cut)
		sim_server_take(link, bytes->bytes, bytes->size);
	else if (link->lost && !sim_server_is_down(link->server))
		sim_at(arrival_ns(&link->back_ns), link_end, link);
	free(bytes);
}

static void nothing(void *context)
{
}

ssize_t sim_link_write(struct sim_link *link, const void *bytes, size_t size)
{
	if (link->state != UP || link->shut) {
		errno = EPIPE;
		return -1;
	}
	if (link->full_until_ns > sim_now_ns() || sim_chance(10)) {
		if (link->full_until_ns <= sim_now_ns()) {
			link->full_until_ns = sim_now_ns() + sim_between(1, 500) * SIM_US;
			sim_at(link->full_until_ns, nothing, NULL);
		}
		errno = EAGAIN;
		return -1;
	}
	if (size > 1 && sim_chance(30))
		size = (size_t)sim_between(1, (int64_t)size - 1);
	if (sim_has(SIM_LOSSES) && !link->silent && sim_chance(30) && sim_happens())
		link_sever(link);
	if (!link->mute)
		sim_at(arrival_ns(&link->there_ns), link_arrive, bytes_of(link, bytes, size));
	return (ssize_t)size;
}

static void link_goodbye(void *context)
{
	struct sim_link *link = context;
	if (!link->cut)
		sim_server_gone(link);
	link->cut = true;
}

/* What was written before still arrives. */
void sim_link_shutdown(struct sim_link *link)
{
	if (link->shut)
		return;
	link->shut = true;
	if (link->mute)
		return;
	sim_at(arrival_ns(&link->there_ns), link_goodbye, link);
}

void sim_link_discard(struct sim_link *link)
{
	if (sim_chance(500))
		link_goodbye(link);
}

/* ---- the way back ---- */

static void link_return(void *context)
{
	struct bytes *bytes = context;
	if (bytes->link->state == UP && !bytes->link->shut)
		lk__buffer_append(&bytes->link->arrived, bytes->bytes, bytes->size);
	free(bytes);
}

void sim_link_reply(struct sim_link *link, const void *bytes, size_t size)
{
	if (!link->silent)
		sim_at(arrival_ns(&link->back_ns), link_return, bytes_of(link, bytes, size));
}

ssize_t sim_link_read(struct sim_link *link, void *bytes, size_t size)
{
	size_t there = lk__buffer_size(&link->arrived);
	if (link->shut || (there == 0 && link->state == ENDED))
		return 0;
	if (there == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (size > there)
		size = there;
	if (size > 1 && sim_chance(30))
		size = (size_t)sim_between(1, (int64_t)size - 1);
	memcpy(bytes, lk__buffer_front(&link->arrived), size);
	lk__buffer_take(&link->arrived, size);
	return (ssize_t)size;
}

/* ---- what the client sees ---- */

unsigned sim_link_server(const struct sim_link *link)
{
	return link->server;
}

bool sim_link_connecting(const struct sim_link *link)
{
	return link->state == CONNECTING;
}

int sim_link_failure(const struct sim_link *link)
{
	return link->state == REFUSED ? ECONNREFUSED : 0;
}

bool sim_link_ended(const struct sim_link *link)
{
	return link->state == ENDED || link->state == REFUSED || link->shut;
}

bool sim_link_readable(const struct sim_link *link)
{
	return lk__buffer_size(&link->arrived) > 0 || sim_link_ended(link);
}

bool sim_link_writable(const struct sim_link *link)
{
	return link->state != CONNECTING && link->full_until_ns <= sim_now_ns();
}

void sim_network_begin(void)
{
	link_count = 0;
	isolated = 0;
	memset(vanished, 0, sizeof(vanished));
}

void sim_network_end(void)
{
	for (size_t i = 0; i < link_count; i++) {
		lk__buffer_free(&links[i]->arrived);
		free(links[i]);
	}
}
