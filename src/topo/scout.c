/* SPDX-License-Identifier: MIT */
#include "topo/scout.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "net/stream.h"

#define ROUND_NS (2000 * LK__MS)  /* the longest round */
#define OPEN_MS 500               /* to open one link */
#define LATE_MS 5                 /* behind that this thread had no time */
#define ANSWER_MS 1000            /* for all answers of one peer */
#define PARTS 3                   /* of each: one for a link that may have been forgotten */
#define REOPEN_NS (100 * LK__MS)  /* after a link was refused, */
#define SILENT_NS (2000 * LK__MS) /* or nobody was there */
#define BLIND_NS (20 * LK__MS)    /* between turns where nothing tells */
#define POLL_MS 1000              /* poll() does not count while the machine is suspended */

struct lk__scout {
	_Atomic int refs;
	const struct lk__scout_ops *ops;
	void *kind;
	struct lk_config *config; /* of the client: what it calls the deployment */
	struct lk_config *asking; /* how peers are reached, in all but host and port */
	int wake_fd, stop_fd;
	_Atomic unsigned wants; /* a bit for each reason that was given, until it is heard */
	int set_fd; /* of a threadless client: of the first, and of the links; -1: none yet */

	/* The thread's. */
	struct lk__peer peers[LK__PEERS_MAX];
	size_t count;
	bool over;     /* of the round: all have answered or failed */
	bool told;     /* of the round: those who wait */
	size_t probed; /* peers, one after the other */

	pthread_mutex_t mutex;    /* of what follows */
	struct lk__rounds rounds; /* the thread alone begins them */
	pthread_t pthread;
	bool started, joined, stopped;
	uint64_t known; /* the last round whose outcome follows: */
	lk_error error; /* its code is 0 when something is known */
};

/* ---- for the kinds ---- */

void *lk__scout_kind(const struct lk__scout *scout)
{
	return scout->kind;
}

const struct lk_config *lk__scout_config(const struct lk__scout *scout)
{
	return scout->config;
}

size_t lk__scout_count(const struct lk__scout *scout)
{
	return scout->count;
}

const struct lk__peer *lk__scout_peer(const struct lk__scout *scout, size_t index)
{
	return &scout->peers[index];
}

bool lk__scout_has_answered(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return peer->answered_round == scout->rounds.round;
}

bool lk__scout_is_alive(const struct lk__peer *peer)
{
	return peer->answered_round > peer->failed_round;
}

uint64_t lk__scout_round(const struct lk__scout *scout)
{
	return scout->rounds.round;
}

static void peer_close(struct lk__peer *peer)
{
	lk__link_close(&peer->ask);
	lk__link_close(&peer->hear);
}

static struct lk__peer *scout_add(struct lk__scout *scout, const char *name)
{
	if (scout->count == LK__PEERS_MAX)
		return NULL;
	struct lk__peer *peer = &scout->peers[scout->count++];
	*peer = (struct lk__peer){.named_round = scout->rounds.round};
	snprintf(peer->name, sizeof(peer->name), "%s", name);
	return peer;
}

/* Nobody has answered at its name since it failed. */
static bool peer_is_lost(const struct lk__peer *peer)
{
	return peer->failed_round > 0 && !lk__scout_is_alive(peer) && !peer->ask.config;
}

static bool peer_has_id(const struct lk__peer *peer, const char *id)
{
	return *id && strcmp(peer->id, id) == 0;
}

/* It is elsewhere now: a server that starts again at another address keeps its id. */
static void peer_move(struct lk__peer *peer, const char *name)
{
	peer_close(peer);
	snprintf(peer->name, sizeof(peer->name), "%s", name);
	*peer->says = *peer->fault = '\0';
	peer->open_ns = 0;
	peer->answered_round = peer->failed_round = 0;
}

/* One that answers under another name is known. One that does not has moved; a listed name stays,
 * since it may lead to another server later. */
void lk__scout_learn(struct lk__scout *scout, const char *name, const char *id)
{
	struct lk__peer *known = NULL, *moved = NULL;
	for (size_t i = 0; i < scout->count && !known; i++) {
		struct lk__peer *peer = &scout->peers[i];
		bool same = peer_has_id(peer, id);
		if (strcmp(peer->name, name) == 0 || (same && !peer_is_lost(peer)))
			known = peer;
		else if (same && !peer->listed)
			moved = peer;
	}
	if (!known && moved)
		peer_move(moved, name);
	if (!known)
		known = moved ? moved : scout_add(scout, name);
	if (!known)
		return;
	known->named_round = scout->rounds.round;
	if (!*known->id)
		snprintf(known->id, sizeof(known->id), "%s", id);
}

void lk__scout_fault(struct lk__peer *peer, int code, const char *reason)
{
	peer->code = code;
	snprintf(peer->fault, sizeof(peer->fault), "%.100s", reason);
}

void lk__scout_refused(struct lk__peer *peer, const char *words)
{
	int code = lk__refusal(words).code;
	if (code != LK_EAUTH || peer->code != LK_EAUTH)
		lk__scout_fault(peer, code == LK_EMAYBEHELD ? LK_EPROTOCOL : code, words);
}

int lk__scout_worst(const struct lk__scout *scout, int code)
{
	for (size_t i = 0; i < scout->count; i++) {
		int other = scout->peers[i].code;
		if (other == LK_EAUTH || other == LK_EDENIED || other == LK_ETLS)
			return other;
		if (other == LK_ENOMEM || other == LK_ESYSTEM)
			code = other;
	}
	return code;
}

int lk__scout_fail(const struct lk__scout *scout, lk_error *error, int code, const char *text)
{
	char faults[360];
	size_t used = 0;
	*faults = '\0';
	for (size_t i = 0; i < scout->count && used < sizeof(faults); i++) {
		const struct lk__peer *peer = &scout->peers[i];
		if (*peer->fault)
			used += (size_t)snprintf(faults + used, sizeof(faults) - used, "%s%s: %s",
						 used ? "; " : ": ", peer->name, peer->fault);
	}
	return lk__fail(error, code, "%s: %s%s", scout->config->url, text, faults);
}

/* ---- peers ---- */

/* Nothing more comes of it in this round. */
static void peer_fail(struct lk__scout *scout, struct lk__peer *peer, int code, const char *reason)
{
	peer_close(peer);
	lk__scout_fault(peer, code, reason);
	peer->failed_round = scout->rounds.round;
}

static bool peer_is_done(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return peer->answered_round == scout->rounds.round ||
	       peer->failed_round == scout->rounds.round;
}

static void peer_ask(struct lk__scout *scout, struct lk__peer *peer, bool first)
{
	peer->asked_round = scout->rounds.round;
	peer->asked_ns = lk__now_ns();
	if ((first && lk__link_auth(&peer->ask) < 0) || scout->ops->ask(scout, peer, first) < 0)
		peer_fail(scout, peer, LK_ENOMEM, "out of memory");
}

static int peer_begin(const struct lk__scout *scout, const struct lk__peer *peer,
		      struct lk__link *link, lk_error *error)
{
	struct lk_config *config = lk__config_copy(scout->asking);
	if (config && lk__config_point(config, peer->name) == 0)
		return lk__link_open(link, config, lk__after_ms(lk__now_ns(), OPEN_MS), error);
	lk_config_free(config);
	return lk__fail(error, LK_ENOMEM, "out of memory");
}

/* The messages are a second link: a subscriber cannot ask. Without them, the rounds must do. */
static void peer_listen(struct lk__scout *scout, struct lk__peer *peer)
{
	lk_error error;
	if (scout->ops->listen && !peer->hear.config)
		peer_begin(scout, peer, &peer->hear, &error);
}

static void peer_open_hear(struct lk__scout *scout, struct lk__peer *peer)
{
	lk_error error;
	if (lk__link_step(&peer->hear, &error) == 1 &&
	    (lk__link_auth(&peer->hear) < 0 || scout->ops->listen(&peer->hear) < 0))
		lk__link_close(&peer->hear);
}

static void peer_open(struct lk__scout *scout, struct lk__peer *peer);

/* Where this thread had no time to look, that says nothing of the peer: it is tried again, as long
 * as the round lasts. */
static void peer_not_open(struct lk__scout *scout, struct lk__peer *peer, int code,
			  const lk_error *error)
{
	int64_t now_ns = lk__now_ns();
	if (!scout->over && now_ns > lk__after_ms(peer->begun_ns, OPEN_MS + LATE_MS)) {
		peer_open(scout, peer);
		return;
	}
	bool silent = now_ns - peer->begun_ns > REOPEN_NS;
	const char *reason = strstr(error->message, ": "); /* behind the place */
	peer->open_ns = now_ns + (silent ? SILENT_NS : REOPEN_NS);
	peer_fail(scout, peer, code, reason ? reason + 2 : error->message);
}

/* When its answer, or its word in a TLS handshake, is late; LK__NEVER: it owes none. */
static int64_t peer_late_ns(const struct lk__scout *scout, const struct lk__peer *peer)
{
	const struct lk__opening *opening = peer->ask.opening;
	bool first = peer->silent_round < scout->rounds.round;
	if (opening)
		return first && lk__opening_shakes(opening)
			       ? lk__after_ms(peer->begun_ns, OPEN_MS / PARTS)
			       : LK__NEVER;
	if (!peer->ask.owed_count)
		return LK__NEVER;
	return lk__after_ms(peer->asked_ns, first ? ANSWER_MS / PARTS : ANSWER_MS);
}

/* The first time in a round, a firewall may have forgotten the link, and a new one work. */
static void peer_is_silent(struct lk__scout *scout, struct lk__peer *peer)
{
	if (peer->silent_round < scout->rounds.round)
		peer_close(peer);
	else
		peer_fail(scout, peer, LK_EUNREACHABLE, "no answer within a second");
	peer->silent_round = scout->rounds.round;
}

/* True when it says another thing than before, and the round has told what it was asked for. */
static bool peer_read(struct lk__scout *scout, struct lk__peer *peer)
{
	redisReply *reply;
	const char *what;
	char reason[LK__PEER_FAULT_SIZE], said[LK__PLACE_SIZE];
	int64_t now_ns = lk__now_ns(); /* before it looks what has come */
	int rc = 0;
	memcpy(said, peer->says, sizeof(said));
	while (peer->ask.stream &&
	       (rc = lk__link_next(&peer->ask, &reply, &what, reason, sizeof(reason))) == 1) {
		if (what && scout->ops->answered(scout, peer, what, reply))
			peer->answered_round = peer->asked_round;
		freeReplyObject(reply);
	}
	if (rc < 0)
		peer_fail(scout, peer, rc, reason);
	else if (now_ns >= peer_late_ns(scout, peer))
		peer_is_silent(scout, peer);
	return scout->told && strcmp(said, peer->says) != 0;
}

/* Goes on to connect; and asks as soon as that is done. */
static void peer_open_ask(struct lk__scout *scout, struct lk__peer *peer)
{
	lk_error error;
	int64_t now_ns = lk__now_ns();
	int rc = lk__link_step(&peer->ask, &error);
	if (rc < 0)
		peer_not_open(scout, peer, rc, &error);
	else if (rc == 0 && now_ns >= peer_late_ns(scout, peer))
		peer_is_silent(scout, peer);
	if (rc <= 0)
		return;
	peer_listen(scout, peer);
	peer_ask(scout, peer, true);
}

static void peer_open(struct lk__scout *scout, struct lk__peer *peer)
{
	lk_error error;
	peer->begun_ns = lk__now_ns();
	int rc = peer_begin(scout, peer, &peer->ask, &error);
	if (rc < 0)
		peer_not_open(scout, peer, rc, &error);
	else
		peer_open_ask(scout, peer);
}

/* A message says that something has changed; what, the next round tells. */
static bool peer_hears(struct lk__peer *peer)
{
	redisReply *reply;
	const char *what;
	char reason[LK__PEER_FAULT_SIZE];
	bool news = false;
	int rc = 0;
	while (peer->hear.stream &&
	       (rc = lk__link_next(&peer->hear, &reply, &what, reason, sizeof(reason))) == 1) {
		news |= reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
			reply->element[2]->type == REDIS_REPLY_STRING;
		freeReplyObject(reply);
	}
	if (rc < 0) /* opened again with the other link */
		peer_close(peer);
	return news;
}

/* Does what is due for it in this round. */
static void peer_tend(struct lk__scout *scout, struct lk__peer *peer)
{
	if (peer->ask.opening)
		peer_open_ask(scout, peer);
	if (peer->hear.opening)
		peer_open_hear(scout, peer);
	if (peer->ask.stream && peer_read(scout, peer))
		lk__scout_want(scout, LK__WANT_NEWS);
	if (peer_is_done(scout, peer) || scout->over || peer->ask.opening)
		return;
	if (!peer->ask.stream && lk__now_ns() < peer->open_ns)
		peer->failed_round = scout->rounds.round; /* as a moment ago */
	else if (!peer->ask.stream)
		peer_open(scout, peer);
	else if (peer->ask.owed_count == 0 && peer->asked_round < scout->rounds.round)
		peer_ask(scout, peer, false);
	if (peer->ask.stream && lk__link_waits(&peer->ask).events & POLLOUT)
		peer_read(scout, peer); /* which writes first */
}

/* It has said where masters are, and so named others. */
static bool peer_has_said(const struct lk__scout *scout, const struct lk__peer *peer)
{
	return lk__scout_has_answered(scout, peer) && *peer->says;
}

/* Drops the learned peers that others name no more, at the end of a round. In an outage nobody is
 * named, and the last one that answers is named by none. */
static void scout_forget(struct lk__scout *scout)
{
	size_t answers = 0;
	for (size_t i = 0; i < scout->count; i++)
		answers += peer_has_said(scout, &scout->peers[i]);
	for (size_t i = scout->count; i-- > 0;) {
		struct lk__peer *peer = &scout->peers[i];
		bool others = answers > peer_has_said(scout, peer);
		if (peer->named_round == scout->rounds.round)
			peer->unnamed = 0;
		else if (others)
			peer->unnamed++;
		if (peer->listed || peer->unnamed < LK__PEER_ROUNDS || peer->ask.opening)
			continue;
		peer_close(peer);
		*peer = scout->peers[--scout->count];
	}
}

/* ---- what is known ---- */

/* The outcome of the round, for those who wait: once, and again where it turns out otherwise. */
static void scout_tell(struct lk__scout *scout, const lk_error *error)
{
	scout->told = true;
	pthread_mutex_lock(&scout->mutex);
	scout->known = scout->rounds.round;
	scout->error = *error;
	pthread_mutex_unlock(&scout->mutex);
	if (!scout->config->threadless) /* whose turn goes on */
		scout->ops->told(scout);
}

/* `now_ns`: before it was looked what has come. */
static void scout_judge(struct lk__scout *scout, int64_t now_ns)
{
	lk_error error = {0};
	bool over = now_ns >= scout->rounds.begun_ns + ROUND_NS;
	size_t done = 0;
	for (size_t i = 0; i < scout->count; i++)
		done += peer_is_done(scout, &scout->peers[i]);
	over |= done == scout->count;
	if (scout->over || (scout->told && !over))
		return;
	scout->over = over;
	if (scout->ops->judge(scout, over, &error))
		scout_tell(scout, &error);
}

/* ---- the thread ---- */

/* While a master is missed, peers are asked in turn between the rounds: what one of them says anew
 * begins the next. Those that publish do so. */
static int64_t scout_probe_ns(struct lk__scout *scout)
{
	if (!scout->told || scout->ops->listen)
		return LK__NEVER;
	pthread_mutex_lock(&scout->mutex);
	int64_t probe_ns = lk__rounds_probe_ns(&scout->rounds, lk__now_ns());
	pthread_mutex_unlock(&scout->mutex);
	return probe_ns;
}

static void scout_probe(struct lk__scout *scout)
{
	int64_t now_ns = lk__now_ns();
	if (now_ns < scout_probe_ns(scout))
		return;
	pthread_mutex_lock(&scout->mutex);
	lk__rounds_probed(&scout->rounds, now_ns);
	pthread_mutex_unlock(&scout->mutex);
	for (size_t i = 0; i < scout->count; i++) {
		struct lk__peer *peer = &scout->peers[scout->probed++ % scout->count];
		if (!peer->ask.stream || peer->ask.owed_count || !peer_is_done(scout, peer))
			continue;
		peer_ask(scout, peer, false);
		return;
	}
}

/* When the next round begins: one that is wanted does not wait for those who have not answered. */
static int64_t scout_next_ns(struct lk__scout *scout)
{
	pthread_mutex_lock(&scout->mutex);
	int64_t wanted_ns = scout->told ? lk__rounds_wanted_ns(&scout->rounds) : LK__NEVER;
	int64_t watch_ns = scout->over ? scout->rounds.watch_ns : LK__NEVER;
	pthread_mutex_unlock(&scout->mutex);
	return lk__earlier(wanted_ns, watch_ns);
}

static void scout_begin(struct lk__scout *scout)
{
	scout_forget(scout);
	pthread_mutex_lock(&scout->mutex);
	lk__rounds_begin(&scout->rounds, lk__now_ns());
	pthread_mutex_unlock(&scout->mutex);
	scout->over = scout->told = false;
}

/* When there is something to do, though nothing is to be read. */
static int64_t scout_due_ns(struct lk__scout *scout)
{
	int64_t due_ns = lk__earlier(scout_next_ns(scout), scout_probe_ns(scout));
	if (!scout->over)
		due_ns = lk__earlier(due_ns, scout->rounds.begun_ns + ROUND_NS);
	for (size_t i = 0; i < scout->count; i++) {
		const struct lk__peer *peer = &scout->peers[i];
		due_ns = lk__earlier(due_ns, peer_late_ns(scout, peer));
		due_ns = lk__earlier(due_ns, lk__link_waits(&peer->ask).until_ns);
		due_ns = lk__earlier(due_ns, lk__link_waits(&peer->hear).until_ns);
	}
	return due_ns;
}

static bool scout_is_stopped(struct lk__scout *scout)
{
	pthread_mutex_lock(&scout->mutex);
	bool stopped = scout->stopped;
	pthread_mutex_unlock(&scout->mutex);
	return stopped;
}

/* With the mutex held. */
static void scout_hear_wants(struct lk__scout *scout)
{
	unsigned wants = atomic_exchange(&scout->wants, 0);
	for (enum lk__want why = LK__WANT_AWAITED; why <= LK__WANT_LATER; why++)
		if (wants & 1u << why)
			lk__rounds_want(&scout->rounds, why, lk__now_ns());
}

static void scout_step(struct lk__scout *scout)
{
	bool news = false;
	for (size_t i = 0; i < scout->count; i++)
		news |= peer_hears(&scout->peers[i]);
	if (news)
		lk__scout_want(scout, LK__WANT_HEARD);
	pthread_mutex_lock(&scout->mutex);
	scout_hear_wants(scout);
	pthread_mutex_unlock(&scout->mutex);
	if (lk__now_ns() >= scout_next_ns(scout))
		scout_begin(scout);
	int64_t now_ns = lk__now_ns();
	for (size_t i = 0; i < scout->count; i++)
		peer_tend(scout, &scout->peers[i]);
	scout_judge(scout, now_ns);
	scout_probe(scout);
}

static void scout_close_peers(struct lk__scout *scout)
{
	for (size_t i = 0; i < scout->count; i++)
		peer_close(&scout->peers[i]);
}

/* Sleeps until there is something to read or to do. */
static void scout_wait(struct lk__scout *scout)
{
	struct pollfd fds[2 + 2 * LK__PEERS_MAX] = {{.fd = scout->wake_fd, .events = POLLIN},
						    {.fd = scout->stop_fd, .events = POLLIN}};
	size_t count = 2;
	for (size_t i = 0; i < scout->count; i++) {
		struct lk__readiness ask = lk__link_waits(&scout->peers[i].ask);
		struct lk__readiness hear = lk__link_waits(&scout->peers[i].hear);
		fds[count++] = (struct pollfd){.fd = ask.fd, .events = ask.events};
		fds[count++] = (struct pollfd){.fd = hear.fd, .events = hear.events};
	}
	lk__poll(fds, count, lk__ms_until(lk__now_ns(), scout_due_ns(scout), POLL_MS));
	if (fds[0].revents)
		lk__wake_fd_clear(scout->wake_fd);
}

static void *scout_main(void *argument)
{
	struct lk__scout *scout = argument;
	pthread_setname_np(pthread_self(), "lockkeeper-find");
	while (!scout_is_stopped(scout)) {
		scout_step(scout);
		scout_wait(scout);
	}
	scout_close_peers(scout);
	return NULL;
}

/* ---- or the program's turns ---- */

/* The set of a scout is in the client's set, which tells of all that is in it. */
static bool scout_has_set(struct lk__scout *scout, int set_fd)
{
	if (scout->set_fd >= 0)
		return true;
	int own_fd = lk__set_new();
	if (own_fd < 0)
		return false;
	if (lk__set_add(own_fd, scout->wake_fd, LK__SET_READABLE, NULL) < 0 ||
	    lk__set_add(set_fd, own_fd, LK__SET_READABLE, NULL) < 0) {
		lk__fd_close(own_fd);
		return false;
	}
	scout->set_fd = own_fd;
	return true;
}

/* False: it is to be looked at again soon. */
static bool link_watch(struct lk__link *link, int set_fd)
{
	struct lk__readiness waits = lk__link_waits(link);
	bool writes = waits.events & POLLOUT;
	return waits.fd < 0 || lk__set_rearm(set_fd, waits.fd, writes, NULL) == 0 ||
	       (lk__set_add(set_fd, waits.fd, LK__SET_ENDED, NULL) == 0 &&
		lk__set_rearm(set_fd, waits.fd, writes, NULL) == 0);
}

static bool scout_watch(struct lk__scout *scout, int set_fd)
{
	bool all = scout_has_set(scout, set_fd);
	for (size_t i = 0; i < scout->count && all; i++)
		all = link_watch(&scout->peers[i].ask, scout->set_fd) &&
		      link_watch(&scout->peers[i].hear, scout->set_fd);
	return all;
}

int64_t lk__scout_turn(struct lk__scout *scout, int set_fd)
{
	void *ready[2 * LK__PEERS_MAX];
	pthread_mutex_lock(&scout->mutex);
	bool idle = !scout->started || scout->stopped;
	uint64_t known = scout->known;
	pthread_mutex_unlock(&scout->mutex);
	if (idle)
		return LK__NEVER;
	if (scout->set_fd >= 0)
		lk__set_take(scout->set_fd, ready, 2 * LK__PEERS_MAX);
	lk__wake_fd_clear(scout->wake_fd);
	scout_step(scout);
	if (scout->known != known)
		return 0;
	int64_t due_ns = scout_due_ns(scout);
	bool watched = scout_watch(scout, set_fd);
	return watched ? due_ns : lk__earlier(due_ns, lk__now_ns() + BLIND_NS);
}

/* ---- those who ask ---- */

void lk__scout_want(struct lk__scout *scout, enum lk__want why)
{
	if (!(atomic_fetch_or(&scout->wants, 1u << why) & 1u << why))
		lk__wake_fd(scout->wake_fd);
}

static int scout_start(struct lk__scout *scout, lk_error *error)
{
	if (scout->stopped)
		return lk__fail(error, LK_ECLOSED, "%s: the client is closed", scout->config->url);
	bool starts = !scout->started && !scout->config->threadless;
	int rc = starts ? lk__thread_start(&scout->pthread, scout_main, scout) : 0;
	scout->started |= rc == 0;
	return rc == 0 ? 0
		       : lk__fail_system(error, rc, "%s: cannot start a thread",
					 scout->config->url);
}

/* A new client makes several connections at once, which all go where one round has led it. With the
 * mutex held. */
static bool scout_is_fresh(const struct lk__scout *scout)
{
	return scout->known > 0 && scout->known == scout->rounds.round && !scout->error.code &&
	       lk__rounds_fresh(&scout->rounds, lk__now_ns());
}

/* With the mutex held. */
static int scout_await(struct lk__scout *scout, uint64_t *asked, int64_t deadline_ns,
		       lk_error *error)
{
	scout_hear_wants(scout);
	if (*asked == 0 && scout_is_fresh(scout)) {
		*asked = scout->known;
	} else if (*asked == 0) {
		if (lk__rounds_want(&scout->rounds, LK__WANT_AWAITED, lk__now_ns()))
			lk__wake_fd(scout->wake_fd);
		*asked = scout->rounds.wanted;
	}
	if (scout->stopped)
		return lk__fail(error, LK_ECLOSED, "%s: the client is closed", scout->config->url);
	if (scout->known < *asked && lk__now_ns() < deadline_ns)
		return 1;
	if (scout->known < *asked)
		return lk__fail(error, LK_EUNREACHABLE,
				"%s: no master was found within the connect limit",
				scout->config->url);
	if (scout->error.code)
		*error = scout->error;
	return scout->error.code;
}

int lk__scout_await(struct lk__scout *scout, uint64_t *asked, int64_t deadline_ns, lk_error *error)
{
	pthread_mutex_lock(&scout->mutex);
	int rc = scout_start(scout, error);
	if (rc == 0)
		rc = scout_await(scout, asked, deadline_ns, error);
	pthread_mutex_unlock(&scout->mutex);
	return rc;
}

int lk__scout_point(const struct lk__scout *scout, const char *place, struct lk_config *config,
		    lk_error *error)
{
	char *url = NULL;
	if (lk__config_point(config, place) < 0 ||
	    asprintf(&url, "%s of %s", place, scout->config->url) < 0)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", scout->config->url);
	lk__text_wipe(config->url);
	config->url = url;
	return 0;
}

void lk__scout_unref(struct lk__scout *scout)
{
	if (!scout || atomic_fetch_sub(&scout->refs, 1) > 1)
		return;
	if (scout->wake_fd >= 0)
		lk__fd_close(scout->wake_fd);
	if (scout->stop_fd >= 0)
		lk__fd_close(scout->stop_fd);
	if (scout->set_fd >= 0)
		lk__fd_close(scout->set_fd);
	lk_config_free(scout->config);
	lk_config_free(scout->asking);
	pthread_mutex_destroy(&scout->mutex);
	free(scout);
}

void lk__scout_stop(struct lk__scout *scout)
{
	pthread_mutex_lock(&scout->mutex);
	bool ends = scout->started && !scout->joined;
	scout->stopped = scout->joined = true;
	pthread_mutex_unlock(&scout->mutex);
	lk__wake_fd(scout->stop_fd);
	if (ends && scout->config->threadless)
		scout_close_peers(scout);
	else if (ends)
		lk__thread_join(scout->pthread);
}

int lk__scout_new(struct lk__scout **scout_out, const struct lk__scout_ops *ops, void *kind,
		  struct lk_config *asking, const struct lk_config *config, lk_error *error)
{
	struct lk__scout *scout = calloc(1, sizeof(*scout));
	if (!scout) {
		lk_config_free(asking);
		return lk__fail(error, LK_ENOMEM, "out of memory");
	}
	atomic_store(&scout->refs, 1);
	pthread_mutex_init(&scout->mutex, NULL);
	scout->ops = ops;
	scout->kind = kind;
	scout->asking = asking;
	scout->over = scout->told = true;
	scout->set_fd = -1;
	scout->config = asking ? lk__config_copy(config) : NULL;
	scout->wake_fd = lk__wake_fd_new();
	scout->stop_fd = lk__wake_fd_new();
	int rc = scout->config ? 0 : lk__fail(error, LK_ENOMEM, "out of memory");
	if (rc == 0 && (scout->wake_fd < 0 || scout->stop_fd < 0))
		rc = lk__fail_system(error, errno, "eventfd");
	if (rc < 0) {
		lk__scout_unref(scout);
		return rc;
	}
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	int port;
	for (const char *at = scout->config->places; (at = lk__place_next(at, host, &port));) {
		lk__place_name(name, host, port);
		scout_add(scout, name)->listed = true;
	}
	*scout_out = scout;
	return 0;
}
