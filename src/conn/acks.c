/* SPDX-License-Identifier: MIT */
/*
 * Answers that count when replicas, or disks, have the change that they report.
 *
 *   EVALSHA a ─ EVALSHA b ─▶ answers of a and b are kept ─▶ ROLE WAIT ROLE ─▶ both are done
 *
 * A WAIT covers all that its connection has done before. So one serves all answers that arrived
 * together, and a refusal needs none. During a WAIT the server reads nothing more from this
 * connection. A request may therefore wait for two of them: one that is under way, and its own. So
 * each has a third of the command limit.
 *
 * Where disks must have the change (fsync_acks), WAITAOF does the same. For the master's disk alone
 * it follows the WAIT for the replicas' memory, and shares its time. For the replicas' disks too it
 * takes the place of the WAIT.
 *
 * WAIT does not say which replicas have acknowledged. Where they are known by address or listed,
 * the first ROLE tells the master's offset, and the second which replicas are connected, and their
 * offsets. Each known replica must be there and have reached the master's offset, unless WAIT has
 * counted all that are connected; so must each listed one (listed replicas in node.h). WAITAOF does
 * not say whose disks it has counted: they must be as many as the replicas that have reached the
 * offset, since no other can have the change on disk.
 *
 * Unreported replicas may be connected as well: followers.c says which of them must acknowledge.
 * WAIT counts them too. If it has missed one, it is repeated once. While no replica is known, the
 * connected ones are looked at once a second.
 *
 * What gives something back is answered at once, and kept as a copy of its request
 * (lk__conn_keep()): the WAIT of the next grant serves it too, or one of its own some time later.
 *
 * If too few replicas acknowledge in time, the outcome is LK_ENOTDURABLE. If the connection is lost
 * before that, the answers are void: the requests are sent again, like all that may be repeated.
 *
 * Newer servers let WAIT count only from the last write of the connection; so every script whose
 * answer is kept here writes, also one that finds its work done.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conf/url.h"
#include "conn/conn.h"
#include "conn/node.h"
#include "conn/request.h"
#include "resp/reply.h"

#define DISK_PARTS 4 /* of a WAIT's time, of which the last three are the disk's */
#define LOOK_NS (1000 * LK__MS)

#define ASKED_MAX 4
#define PORT_MAX 65535

/* The questions, and their answers, in this order. */
struct asked {
	bool roles; /* first and last */
	bool memory, disk;
};

static struct asked asked_of(const struct lk__node *node, int count)
{
	bool named = node->acks == LK__ACKS_ALL && node->replicas.named;
	bool listed = node->acks == LK__ACKS_ALL && node->replicas.listed;
	return (struct asked){
		.roles = named || listed,
		.memory = node->fsync == LK__FSYNC_OFF ||
			  (node->fsync == LK__FSYNC_LOCAL && (named || count > 0)),
		.disk = node->fsync != LK__FSYNC_OFF,
	};
}

static bool add_role(struct lk__request *batch, bool asked)
{
	struct lk__words words = {0};
	if (!asked)
		return true;
	lk__words_text(&words, "ROLE");
	return lk__words_batch(batch, &words);
}

static bool add_wait(struct lk__request *batch, int count, int64_t limit_ms)
{
	struct lk__words words = {0};
	lk__words_text(&words, "WAIT");
	lk__words_number(&words, count);
	lk__words_number(&words, limit_ms);
	return lk__words_batch(batch, &words);
}

static bool add_waitaof(struct lk__request *batch, int count, int64_t limit_ms)
{
	struct lk__words words = {0};
	lk__words_text(&words, "WAITAOF");
	lk__words_text(&words, "1");
	lk__words_number(&words, count);
	lk__words_number(&words, limit_ms);
	return lk__words_batch(batch, &words);
}

/* Each limit is 1 ms at least: 0 would mean without a limit. */
static bool add_waits(struct lk__request *batch, const struct lk__node *node, struct asked asked,
		      int count)
{
	int64_t limit_ms = node->config->command_timeout_ms / LK__ACKS_PARTS + 1;
	int64_t memory_ms = asked.disk ? limit_ms / DISK_PARTS + 1 : limit_ms;
	int64_t disk_ms = asked.memory ? limit_ms - limit_ms / DISK_PARTS : limit_ms;
	int disks = node->fsync == LK__FSYNC_REPLICAS ? count : 0;
	return (!asked.memory || add_wait(batch, count, memory_ms)) &&
	       (!asked.disk || add_waitaof(batch, disks, disk_ms));
}

static struct lk__request *acks_request(const struct lk__conn *conn)
{
	int count = lk__node_acks(conn->node);
	struct asked asked = asked_of(conn->node, count);
	int more = asked.roles ? conn->more_acks : 0;
	struct lk__request *batch = lk__request_batch(ASKED_MAX);
	if (batch && add_role(batch, asked.roles) &&
	    add_waits(batch, conn->node, asked, count + more) && add_role(batch, asked.roles)) {
		batch->asks_acks = true;
		batch->wants_acks = count;
		batch->more_acks = more;
		batch->finish = lk__request_forget;
		return batch;
	}
	lk__request_free(batch);
	return NULL;
}

/* False when out of memory. */
static bool acks_ask(struct lk__conn *conn, bool again)
{
	struct lk__request *request = acks_request(conn);
	if (!request)
		return false;
	request->asks_again = again;
	conn->asks_acks = true;
	lk__conn_enqueue(conn, request);
	lk__conn_flush(conn);
	return true;
}

/* All that is kept is done. `missing`: in words; NULL: nothing is. */
static void unacked_end(struct lk__conn *conn, const char *missing, struct lk__deferred *after)
{
	struct lk__request *request, *next;
	DL_FOREACH_SAFE(conn->unacked, request, next)
	{
		DL_DELETE(conn->unacked, request);
		lk__conn_done(conn, request, missing ? LK_ENOTDURABLE : 0, missing ? missing : "",
			      after);
	}
}

static bool is_refusal(const struct lk__request *request)
{
	int type = request->reply->type;
	return request->durable == LK__DURABLE_GRANTS &&
	       (type == REDIS_REPLY_INTEGER || type == REDIS_REPLY_ARRAY);
}

/* Tells whether an answer is kept until replicas have what it tells of. */
static bool acks_await(struct lk__conn *conn, struct lk__request *request,
		       struct lk__deferred *after)
{
	if (is_refusal(request))
		return false;
	DL_APPEND(conn->unacked, request);
	if (!conn->asks_acks && !acks_ask(conn, false)) /* one under way was sent behind it */
		unacked_end(conn, "the master has done it, and there is no memory to ask others",
			    after);
	return true;
}

/* ---- what nobody waits for ---- */

/* The connection that is up is the one on which it was answered: a WAIT that is answered from now
 * on covers it, for it came behind it. */
bool lk__conn_keep(struct lk__conn *conn, struct lk__request *request, int64_t sent_ns,
		   int64_t pause_ns)
{
	struct lk__deferred after;
	int64_t at_ns = lk__now_ns() + pause_ns;
	assert(!request->thread && request->finish && request->resend && !request->done);
	lk__conn_lock(conn, &after);
	bool same = conn->state == LK__CONN_UP && sent_ns >= conn->greeted_ns;
	if (same) {
		conn->ask_ns = conn->unacked ? lk__earlier(conn->ask_ns, at_ns) : at_ns;
		atomic_store(&request->conn, conn);
		request->sent_ns = sent_ns;
		request->sends = 1;
		DL_APPEND(conn->unacked, request);
		if (!lk__conn_is_led(conn))
			conn->node->events->attention(conn->node->context);
	}
	lk__conn_unlock_held(conn, &after);
	return same;
}

static void acks_turn(struct lk__conn *conn, struct lk__deferred *after)
{
	if (!conn->asks_acks && lk__now_ns() >= conn->ask_ns && !acks_ask(conn, false))
		unacked_end(conn, "out of memory: replicas are not asked", after);
}

/* ---- who has acknowledged ---- */

struct count {
	int wanted, came;
	int more;            /* to be waited for, beside those that are known */
	bool again;          /* some of these had no time to come */
	bool off_disk;       /* the master's disk must have it, and has not */
	const char *refusal; /* the server's words; NULL: none */
	/* One that is known and not connected, and one that is connected and not known; or "". */
	char absent[LK__CONN_PLACE_SIZE], unknown[LK__CONN_PLACE_SIZE];
};

/* Their answers; NULL: they were not asked. */
struct heard {
	const redisReply *before, *waited, *synced, *behind;
};

static struct heard heard_of(const struct lk__node *node, const struct lk__request *asked)
{
	struct asked each = asked_of(node, asked->wants_acks);
	redisReply **next = asked->reply->element;
	struct heard heard = {0};
	if (each.roles)
		heard.before = *next++;
	if (each.memory)
		heard.waited = *next++;
	if (each.disk)
		heard.synced = *next++;
	if (each.roles)
		heard.behind = *next;
	return heard;
}

static int reply_number(const redisReply *reply)
{
	int64_t number = 0;
	lk__reply_integer(reply, 0, INT_MAX, &number);
	return (int)number;
}

/* Reads one of the two numbers of a WAITAOF. */
static int synced_number(const redisReply *synced, size_t index)
{
	bool whole = synced->type == REDIS_REPLY_ARRAY && synced->elements == 2;
	return whole ? reply_number(synced->element[index]) : 0;
}

/* How many replicas have it where they must have it. */
static int heard_count(const struct lk__node *node, const struct heard *heard)
{
	if (node->fsync == LK__FSYNC_REPLICAS)
		return synced_number(heard->synced, 1);
	return heard->waited ? reply_number(heard->waited) : 0;
}

/* The offset of a master, or -1. */
static long long role_offset(const redisReply *role)
{
	bool master = role->type == REDIS_REPLY_ARRAY && role->elements == 3 &&
		      strcmp(lk__element_text(role, 0), "master") == 0 &&
		      role->element[1]->type == REDIS_REPLY_INTEGER &&
		      role->element[2]->type == REDIS_REPLY_ARRAY;
	return master ? role->element[1]->integer : -1;
}

static long long replica_offset(const redisReply *replica)
{
	int64_t offset = -1;
	lk__number_read(lk__element_text(replica, 2), -1, INT64_MAX, &offset);
	return offset;
}

/* Tells whether a master's replica is up to the offset; its address. */
static bool replica_has(const redisReply *replica, long long offset, char place_out[LK__PLACE_SIZE])
{
	int64_t port;
	if (replica->type != REDIS_REPLY_ARRAY ||
	    !lk__number_read(lk__element_text(replica, 1), 0, PORT_MAX, &port))
		return false;
	char host[LK__PLACE_SIZE];
	snprintf(host, sizeof(host), "%.255s", lk__element_text(replica, 0));
	lk__place_name(place_out, host, (int)port);
	return replica_offset(replica) >= offset;
}

static bool replicas_have(const struct lk__replicas *replicas, int count, const char *place)
{
	for (int i = 0; i < count && i < LK__ACKS_MAX; i++)
		if (strncmp(replicas->place[i], place, sizeof(replicas->place[i]) - 1) == 0)
			return true;
	return false;
}

static bool is_returning(const struct lk__replicas *replicas, const char *place)
{
	return *replicas->returning &&
	       strncmp(replicas->returning, place, sizeof(replicas->returning) - 1) == 0;
}

/* The offset of the replica at `place`, or -1: it is not connected. */
static long long offset_of(const redisReply *role, const char *place)
{
	char other[LK__PLACE_SIZE];
	for (size_t i = 0; i < role->element[2]->elements; i++) {
		const redisReply *replica = role->element[2]->element[i];
		*other = '\0';
		replica_has(replica, 0, other);
		if (strcmp(other, place) == 0)
			return replica_offset(replica);
	}
	return -1;
}

/* Counts the replicas that may have it on disk. */
static int count_up_to(const redisReply *replicas, long long offset)
{
	char place[LK__PLACE_SIZE];
	int count = 0;
	for (size_t i = 0; i < replicas->elements; i++)
		count += replica_has(replicas->element[i], offset, place);
	return count;
}

/* Followers of another master say nothing about those of this one. */
static void followers_start(struct lk__replicas *replicas, uint64_t generation)
{
	if (replicas->generation == generation)
		return;
	replicas->generation = generation;
	memset(&replicas->followers, 0, sizeof(replicas->followers));
	lk__listed_forget(&replicas->list);
}

/* One that is connected. */
static void count_replica(struct count *count, struct lk__replicas *replicas,
			  const struct lk__sighting *seen)
{
	bool again = lk__followers_see(&replicas->followers, seen, lk__now_ns());
	count->came += seen->has;
	count->more += again;
	count->again |= again;
}

static void count_connected(struct count *count, struct lk__replicas *replicas,
			    const struct heard *heard, int acked, bool over)
{
	long long offset = role_offset(heard->before);
	const redisReply *behind = heard->behind->element[2];
	bool all = acked >= (int)behind->elements;
	for (size_t i = 0; i < behind->elements; i++) {
		char place[LK__PLACE_SIZE] = "";
		bool has = replica_has(behind->element[i], offset, place) || all;
		struct lk__sighting seen = {
			.place = place,
			.before = offset_of(heard->before, place),
			.behind = replica_offset(behind->element[i]),
			.has = has,
			.known = replicas_have(replicas, count->wanted, place),
			.returning = is_returning(replicas, place),
			.over = over,
		};
		count_replica(count, replicas, &seen);
	}
}

/* Names the missing replicas, for the message. */
static void count_name_missing(struct count *count, const struct lk__replicas *replicas,
			       const redisReply *role)
{
	char place[LK__PLACE_SIZE];
	int known = atomic_load(&replicas->count);
	for (int i = 0; i < known && i < LK__ACKS_MAX && !*count->absent; i++)
		if (offset_of(role, replicas->place[i]) < 0)
			memcpy(count->absent, replicas->place[i], sizeof(count->absent));
	for (size_t i = 0; i < role->element[2]->elements && !*count->unknown; i++)
		if (replica_has(role->element[2]->element[i], 0, place) &&
		    !replicas_have(replicas, known, place))
			snprintf(count->unknown, sizeof(count->unknown), "%.63s", place);
}

/* A disk that WAITAOF counts is that of a replica that has reached the offset. */
static void count_disks(struct count *count, const struct heard *heard, int acked)
{
	if (count->wanted > 0 &&
	    acked < count_up_to(heard->behind->element[2], role_offset(heard->before)))
		count->came = acked < count->wanted ? acked : count->wanted - 1;
}

static bool heard_master(const struct heard *heard)
{
	return role_offset(heard->before) >= 0 && role_offset(heard->behind) >= 0;
}

/* How many of the connected replicas have it; the list knows which those are. */
static int listed_see(struct lk__listed *listed, const struct heard *heard, int acked)
{
	const redisReply *behind = heard->behind->element[2];
	bool all = acked >= (int)behind->elements;
	int have = 0;
	for (size_t i = 0; i < behind->elements; i++) {
		char place[LK__PLACE_SIZE] = "";
		bool has = replica_has(behind->element[i], role_offset(heard->before), place) ||
			   all;
		lk__listed_see(listed, place, has);
		have += has;
	}
	return have;
}

/* Counts the listed replicas that are alive: each must have it. Where others have come in their
 * place, the next WAIT is for these as well. */
static struct count count_listed(struct lk__conn *conn, const struct heard *heard, int asked_more)
{
	struct count count = {0};
	struct lk__node *node = conn->node;
	struct lk__replicas *replicas = &node->replicas;
	int acked = heard_count(node, heard);
	pthread_mutex_lock(&replicas->mutex);
	followers_start(replicas, conn->generation);
	count.wanted = atomic_load(&replicas->count);
	if (heard_master(heard)) {
		int have = listed_see(&replicas->list, heard, acked);
		const char *absent;
		count.came = lk__listed_come(&replicas->list, &absent);
		count.more = have - count.came;
		count.again = count.more > asked_more;
		snprintf(count.absent, sizeof(count.absent), "%s", absent ? absent : "");
	}
	pthread_mutex_unlock(&replicas->mutex);
	if (node->fsync == LK__FSYNC_REPLICAS && heard_master(heard))
		count_disks(&count, heard, acked);
	count.again = count.again && count.came < count.wanted;
	return count;
}

/* Counts who must have it: all replicas that are known, and of the others those that are due. */
static struct count count_named(struct lk__conn *conn, const struct heard *heard, int asked)
{
	struct count count = {0};
	struct lk__node *node = conn->node;
	struct lk__replicas *replicas = &node->replicas;
	bool master = heard_master(heard);
	int acked = heard_count(node, heard);
	pthread_mutex_lock(&replicas->mutex);
	followers_start(replicas, conn->generation);
	count.wanted = atomic_load(&replicas->count);
	if (master)
		count_connected(&count, replicas, heard, acked, acked < asked);
	int due = lk__followers_due(&replicas->followers, lk__now_ns());
	count.wanted += due;
	count.more += due;
	if (master && count.came < count.wanted)
		count_name_missing(&count, replicas, heard->behind);
	pthread_mutex_unlock(&replicas->mutex);
	if (count.more == 0)
		atomic_store(&replicas->look_ns, lk__now_ns() + LOOK_NS);
	if (node->fsync == LK__FSYNC_REPLICAS && master)
		count_disks(&count, heard, acked);
	return count;
}

static struct count count_acks(struct lk__conn *conn, const struct lk__request *asked)
{
	struct lk__node *node = conn->node;
	const redisReply *reply = asked->reply;
	struct heard heard = heard_of(node, asked);
	struct count count = {0};
	if (heard.behind && node->replicas.listed) {
		count = count_listed(conn, &heard, asked->more_acks);
	} else if (heard.behind) {
		count = count_named(conn, &heard, asked->wants_acks + asked->more_acks);
	} else {
		int now = lk__node_acks(node);
		count.wanted = now > asked->wants_acks ? now : asked->wants_acks;
		count.came = heard_count(node, &heard);
	}
	count.off_disk = heard.synced && synced_number(heard.synced, 0) < 1;
	for (size_t i = 0; i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_ERROR)
			count.refusal = reply->element[i]->str;
	return count;
}

static bool count_suffices(const struct count *count)
{
	return !count->refusal && !count->off_disk && count->came >= count->wanted;
}

/* Puts a place behind the text that ends at `end`, whole or not at all; where it ends now. */
static size_t explain_place(const char *words, const char *place, char *reason, size_t size,
			    size_t end)
{
	int length = snprintf(reason + end, size - end, "%s%s", words, place);
	if (length >= 0 && (size_t)length < size - end)
		return end + (size_t)length;
	reason[end] = '\0';
	return end;
}

static void explain_number(const struct count *count, const char *what, char *reason, size_t size)
{
	int length = snprintf(reason, size,
			      "the master has done it%s, and %d of %d replicas have %s",
			      count->off_disk ? " and does not have it on disk" : "", count->came,
			      count->wanted, what);
	if (!*count->absent || length < 0 || (size_t)length >= size)
		return;
	size_t end = (size_t)length;
	end = explain_place("; not connected to it: ", count->absent, reason, size, end);
	if (end > (size_t)length && *count->unknown)
		explain_place(", or as ", count->unknown, reason, size, end);
}

/* Says in words what is missing. */
static void count_explain(const struct count *count, const struct lk__node *node, char *reason,
			  size_t size)
{
	bool on_disk = node->fsync == LK__FSYNC_REPLICAS;
	if (count->refusal)
		snprintf(reason, size, "%s: %.100s",
			 node->fsync != LK__FSYNC_OFF ? "it is not known to be on disk"
						      : "no replica can acknowledge it",
			 count->refusal);
	else if (count->came >= count->wanted)
		snprintf(reason, size,
			 "the master has done it, and its disk did not have it in time");
	else
		explain_number(count, on_disk ? "it on disk" : "acknowledged it", reason, size);
}

/* The next server of a list that is not the master; NULL at its end, else the rest. */
static const char *listed_next(const struct lk__conn *conn, const char *at, char *place_out)
{
	char host[LK__PLACE_SIZE];
	int port;
	while ((at = lk__place_next(at, host, &port))) {
		lk__place_name(place_out, host, port);
		if (strcmp(place_out, conn->place) != 0)
			return at;
	}
	return NULL;
}

/* Puts them behind the text, where all of them are to have it. */
static void explain_listed(const struct lk__conn *conn, int count, char *reason, size_t size)
{
	const char *places = conn->node->config->places, *words = ": ";
	char place[LK__PLACE_SIZE];
	int others = 0;
	for (const char *at = places; (at = listed_next(conn, at, place));)
		others++;
	if (conn->node->replicas.named || others != count)
		return;
	for (const char *at = places; (at = listed_next(conn, at, place));) {
		explain_place(words, place, reason, size, strlen(reason));
		words = ", ";
	}
}

/* The answer to a WAIT: all that is kept was answered before. */
static void acks_came(struct lk__conn *conn, const struct lk__request *asked,
		      struct lk__deferred *after)
{
	struct count count = count_acks(conn, asked);
	conn->asks_acks = false;
	lk__conn_waited(conn);
	conn->more_acks = count.more;
	/* One was named after the question, which was answered by the others alone. */
	bool more = count.wanted > asked->wants_acks + asked->more_acks &&
		    count.came < count.wanted && !count.refusal;
	if ((count.again || more) && !asked->asks_again && acks_ask(conn, true))
		return;
	char missing[sizeof(asked->reason)];
	bool suffices = count_suffices(&count);
	if (!suffices)
		count_explain(&count, conn->node, missing, sizeof(missing));
	if (!suffices && !count.refusal && count.came == 0)
		explain_listed(conn, count.wanted, missing, sizeof(missing));
	unacked_end(conn, suffices ? NULL : missing, after);
}

/* The connection is lost: whether replicas have it will never be known. */
static void acks_lost(struct lk__conn *conn)
{
	struct lk__request *request, *unacked = conn->unacked;
	DL_FOREACH(unacked, request)
	{
		lk__request_drop_answer(request);
		conn->in_flight_count++;
	}
	DL_CONCAT(unacked, conn->in_flight);
	conn->in_flight = unacked;
	conn->unacked = NULL;
	conn->asks_acks = false;
	conn->more_acks = 0;
}

/* ---- the waiter has no more time ---- */

static bool is_late(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS && strncmp(reply->str, "LATE", 4) == 0;
}

/* As many of those that are known as there is room for. */
static void hurry_name(struct lk__replicas *replicas, char *reason, size_t size)
{
	size_t end = strlen(reason);
	pthread_mutex_lock(&replicas->mutex);
	int known = atomic_load(&replicas->count);
	for (int i = 0; i < known && i < LK__ACKS_MAX; i++)
		end = explain_place(i ? ", " : ": ", replicas->place[i], reason, size, end);
	pthread_mutex_unlock(&replicas->mutex);
}

static void hurry_explain(const struct lk__conn *conn, char *reason, size_t size)
{
	struct lk__node *node = conn->node;
	int count = lk__node_acks(node);
	if (node->fsync == LK__FSYNC_LOCAL && count == 0)
		snprintf(reason, size, "the master has done it, and not yet on its disk");
	else if (count == 1)
		snprintf(reason, size,
			 "the master has done it, and its replica has not "
			 "acknowledged it yet");
	else
		snprintf(reason, size,
			 "the master has done it, and not all of %d replicas have "
			 "acknowledged it yet",
			 count);
	if (node->acks == LK__ACKS_ALL && node->replicas.named)
		hurry_name(&node->replicas, reason, size);
	else if (count > 0)
		explain_listed(conn, count, reason, size);
}

static void acks_hurry(struct lk__conn *conn, struct lk__request *request,
		       struct lk__deferred *after)
{
	struct lk__request *kept;
	DL_FOREACH(conn->unacked, kept)
	if (kept == request)
		break;
	if (!kept || is_late(request->reply)) /* which is not done */
		return;
	char reason[sizeof(request->reason)];
	hurry_explain(conn, reason, sizeof(reason));
	DL_DELETE(conn->unacked, request);
	lk__conn_done(conn, request, LK_ENOTDURABLE, reason, after);
}

const struct lk__acks_ops lk__acks_ops = {
	.await = acks_await,
	.came = acks_came,
	.lost = acks_lost,
	.turn = acks_turn,
	.hurry = acks_hurry,
};
