#include "sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "happens.h"
#include "replication.h"
#include "resp.h"
#include "server.h"
#include "world.h"

#define ASK_MS 200
#define ROLES 300 /* in 1,000 questions, that for a role */
#define SLOW_MS 330
#define NOBODY UINT32_MAX

/* What one of them has heard of a server. What a replica alone tells, its master, whether it has a
 * link to that, and how far it is, stays as it was when it last called itself one: a replica that
 * is promoted still has its former master and a link to that, until the sentinel has its news. */
struct heard {
	int64_t heard_ns, asked_ns, cut_until_ns;
	bool replica; /* as it calls itself; one that was not asked yet is taken for a replica */
	bool linked;
	unsigned master; /* NOBODY: it has never called itself a replica */
	int64_t offset;
};

struct sentinel {
	unsigned number, master, promoted, epoch;
	struct heard of[SIM_SERVERS_MAX];
};

static struct sentinel sentinels[SIM_SERVERS_MAX];
static unsigned watched, count, epoch;
static int64_t down_after_ns;
static bool rests;

static bool is_up(unsigned server)
{
	return !sim_server_is_down(server) && !sim_server_hangs(server);
}

/* ---- what they hear ---- */

/* It is asked for its role not each time. */
static void hear(struct sentinel *sentinel, unsigned server)
{
	struct heard *of = &sentinel->of[server];
	if (!is_up(server) || of->cut_until_ns > sim_now_ns())
		return;
	of->heard_ns = sim_now_ns();
	if (!sim_chance(ROLES))
		return;
	of->replica = sim_is_replica(server);
	if (!of->replica)
		return;
	of->master = sim_master_of(server);
	of->linked = sim_is_linked(server);
	of->offset = sim_offset(server);
}

/* It is slow now and then, and answers what it was asked before. */
static void be_slow(unsigned sentinel)
{
	int64_t until_ns = sim_now_ns() + sim_between(1, SLOW_MS) * SIM_MS;
	if (sim_has(SIM_OUTAGES) && is_up(sentinel) && sim_chance(100) && sim_happens())
		sim_server_hang(sentinel, until_ns);
}

static void ask_all(void *context)
{
	struct sentinel *sentinel = context;
	if (rests)
		return;
	be_slow(sentinel->number);
	for (unsigned i = 0; i < watched && is_up(sentinel->number); i++) {
		sentinel->of[i].asked_ns = sim_now_ns();
		hear(sentinel, i);
	}
	sim_at(sim_now_ns() + ASK_MS * SIM_MS, ask_all, sentinel);
}

/* It has asked meanwhile, and heard nothing. */
static bool calls_down(const struct sentinel *sentinel, unsigned server)
{
	const struct heard *of = &sentinel->of[server];
	return of->asked_ns > of->heard_ns && sim_now_ns() > of->heard_ns + down_after_ns;
}

static unsigned count_down_calls(unsigned server)
{
	unsigned down = 0;
	for (unsigned i = 0; i < count; i++)
		down += is_up(sentinels[i].number) && calls_down(&sentinels[i], server);
	return down;
}

bool sim_is_called_down(unsigned server)
{
	return 2 * count_down_calls(server) > count;
}

/* ---- failovers ---- */

static bool is_eligible(const struct sentinel *sentinel, unsigned server, unsigned master)
{
	const struct heard *of = &sentinel->of[server];
	return server != master && !calls_down(sentinel, server) && of->asked_ns == of->heard_ns &&
	       of->replica && of->master != NOBODY;
}

unsigned sim_sentinels_pick(unsigned master)
{
	unsigned first = (unsigned)sim_random(count), best = master;
	for (unsigned i = 0; i < count && best == master; i++) {
		const struct sentinel *sentinel = &sentinels[(first + i) % count];
		for (unsigned j = 0; j < watched && is_up(sentinel->number); j++)
			if (is_eligible(sentinel, j, master) &&
			    (best == master || sentinel->of[j].offset > sentinel->of[best].offset))
				best = j;
	}
	return best;
}

struct news {
	struct sentinel *to;
	unsigned server, epoch;
};

static void hear_news(void *context);

static void tell_in(int64_t most_ms, const struct news *news)
{
	struct news *copy = malloc(sizeof(*copy));
	*copy = *news;
	sim_at(sim_now_ns() + sim_between(0, most_ms) * SIM_MS, hear_news, copy);
}

/* It has looked at none of the replicas of another master yet. */
static void change_master(struct sentinel *sentinel, unsigned master)
{
	for (unsigned i = 0; i < watched && sentinel->master != master; i++) {
		sentinel->of[i].replica = true;
		sentinel->of[i].linked = false;
		sentinel->of[i].master = NOBODY;
		sentinel->of[i].offset = 0;
	}
	sentinel->master = master;
}

/* News of a failover before the last it has heard of is none. */
static void hear_news(void *context)
{
	struct news news = *(struct news *)context;
	char message[120];
	free(context);
	if (!is_up(news.to->number)) {
		if (!rests) /* it hears of that once it is up */
			tell_in(500, &news);
		return;
	}
	if (news.epoch < news.to->epoch)
		return;
	struct sim_redis *redis = sim_server_redis(news.to->number);
	sim_note("sentinel %u knows that server %u is the master", news.to->number, news.server);
	snprintf(message, sizeof(message), "main 10.0.0.%u 6379 10.0.0.%u 6379", news.to->master,
		 news.server);
	change_master(news.to, news.server);
	news.to->epoch = news.epoch;
	news.to->promoted = NOBODY;
	sim_channels_publish(&redis->channels, false, sim_word("+switch-master"), sim_word(message),
			     redis->tell);
}

void sim_sentinels_switch(unsigned server, int64_t most_ms)
{
	epoch++;
	for (unsigned i = 0; i < count; i++)
		tell_in(most_ms, &(struct news){&sentinels[i], server, epoch});
}

void sim_sentinels_promote(unsigned server)
{
	struct sentinel *sentinel = &sentinels[sim_random(count)];
	if (is_up(sentinel->number))
		sentinel->promoted = server;
}

void sim_sentinel_cut(unsigned sentinel, unsigned server, int64_t until_ns)
{
	sim_note("sentinel %u is cut off from server %u", sentinels[sentinel].number, server);
	sentinels[sentinel].of[server].cut_until_ns = until_ns;
}

/* ---- what they say ---- */

static void say_pair(struct lk__buffer *out, const char *name, const char *value)
{
	sim_say_bulk(out, sim_word(name));
	sim_say_bulk(out, sim_word(value));
}

static void say_number(struct lk__buffer *out, const char *name, int64_t number)
{
	char digits[24];
	snprintf(digits, sizeof(digits), "%lld", (long long)number);
	say_pair(out, name, digits);
}

static void say_instance(struct lk__buffer *out, size_t more, unsigned server, unsigned port)
{
	char text[48];
	sim_say_array(out, 2 * (3 + more));
	snprintf(text, sizeof(text), "10.0.0.%u", server);
	say_pair(out, "ip", text);
	say_number(out, "port", port);
	snprintf(text, sizeof(text), "%040u", server);
	say_pair(out, "runid", text);
}

static void say_replica(struct lk__buffer *out, const struct sentinel *sentinel, unsigned server)
{
	const struct heard *of = &sentinel->of[server];
	bool known = of->master != NOBODY;
	char flags[64], host[24];
	snprintf(flags, sizeof(flags), "slave%s%s%s", calls_down(sentinel, server) ? ",s_down" : "",
		 of->asked_ns > of->heard_ns ? ",disconnected" : "",
		 sentinel->promoted == server ? ",promoted" : "");
	say_instance(out, 8, server, 6379);
	say_pair(out, "flags", flags);
	say_number(out, "last-ok-ping-reply", (sim_now_ns() - of->heard_ns) / SIM_MS);
	say_pair(out, "role-reported", of->replica ? "slave" : "master");
	say_number(out, "master-link-down-time", of->replica && known && !of->linked ? ASK_MS : 0);
	say_pair(out, "master-link-status", of->linked ? "ok" : "err");
	snprintf(host, sizeof(host), "10.0.0.%u", of->master);
	say_pair(out, "master-host", known ? host : "?");
	say_pair(out, "slave-priority", "100");
	say_number(out, "slave-repl-offset", of->offset);
}

static void say_sentinel(const struct sim_asked *asked)
{
	const struct sentinel *sentinel = &sentinels[asked->redis->number - watched];
	struct lk__buffer *out = asked->out;
	char text[48];
	if (sim_word_is(asked->words[1], "MYID")) {
		snprintf(text, sizeof(text), "%040u", sentinel->number);
		sim_say_bulk(out, sim_word(text));
	} else if (sim_word_is(asked->words[1], "GET-MASTER-ADDR-BY-NAME")) {
		snprintf(text, sizeof(text), "10.0.0.%u", sentinel->master);
		sim_say_array(out, 2);
		sim_say_bulk(out, sim_word(text));
		sim_say_bulk(out, sim_word("6379"));
	} else if (sim_word_is(asked->words[1], "REPLICAS")) {
		sim_say_array(out, watched - 1);
		for (unsigned i = 0; i < watched; i++)
			if (i != sentinel->master)
				say_replica(out, sentinel, i);
	} else {
		sim_say_array(out, count - 1);
		for (unsigned i = 0; i < count; i++)
			if (&sentinels[i] != sentinel)
				say_instance(out, 0, sentinels[i].number, 26379);
	}
}

/* ---- a run ---- */

void sim_sentinels_begin(unsigned servers, unsigned some, int64_t down_after_ms)
{
	watched = servers;
	count = some;
	rests = false;
	epoch = 0;
	down_after_ns = down_after_ms * SIM_MS;
	for (unsigned i = 0; i < count; i++) {
		struct sentinel *sentinel = &sentinels[i];
		*sentinel = (struct sentinel){.number = watched + i, .promoted = NOBODY};
		sim_server_redis(sentinel->number)->say_sentinel = say_sentinel;
		for (unsigned j = 0; j < watched; j++)
			sentinel->of[j] = (struct heard){.heard_ns = sim_now_ns(),
							 .asked_ns = sim_now_ns(),
							 .replica = j > 0,
							 .linked = j > 0,
							 .master = j > 0 ? 0 : NOBODY};
		sim_at(sim_now_ns() + sim_between(1, ASK_MS) * SIM_MS, ask_all, sentinel);
	}
}

bool sim_sentinels_agree(unsigned master)
{
	for (unsigned i = 0; i < count; i++)
		if (sentinels[i].master != master)
			return false;
	return true;
}

void sim_sentinels_rest(void)
{
	rests = true;
}
