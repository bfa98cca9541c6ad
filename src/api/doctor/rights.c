/* SPDX-License-Identifier: MIT */
/*
 * What the user may do on a node. Four ways to ask, the better ones first. Three of them put other
 * words before those of the command in question:
 *
 *   ACL DRYRUN user …   the server says what it would answer (7.0 and later, with that right)
 *   EVALSHA probe 0 …   a script asks for its own user, who needs no right for that (7.0 and later)
 *   ACL GETUSER user    whether the user may do everything (before 7.0, with that right)
 *   …                   the command itself, of those that only read
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/doctor/facts.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/classify.h"
#include "conn/request.h"
#include "drive/lock/ask.h"
#include "sync/recipe.h"

#define WORDS 5 /* of one command, at most */

enum need { CORE, PARTIAL, MESSAGE, INSTEAD };
enum when { ALWAYS = 1, PLAIN = 2, SHARDED = 4, MOVING = 8, ACKED = 16, SYNCED = 32, CLUSTER = 64 };
enum how { READS, ASKED };

static const struct right {
	enum need need;
	enum when when;
	enum how how;
	const char *words[WORDS];
} rights[] = {
#define LK__RIGHT(need, when, how, ...) {need, when, how, {__VA_ARGS__}},
#include "api/doctor/rights.def"
#undef LK__RIGHT
};

#define RIGHTS (sizeof(rights) / sizeof(rights[0]))

static const char probe[] = "if not redis.acl_check_cmd then return -1 end "
			    "local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV)) "
			    "return known and allowed and 1 or 0";

enum verdict { ALLOWED, REFUSED, NOT_ASKED, NO_SUCH_WAY };

struct asker {
	const struct lk__asked *asked;
	const char *name;
	size_t name_size;
	unsigned when;         /* what is so */
	const char *before[3]; /* the words of the way */
	bool old;              /* before 7.0 */
	bool sends;            /* the commands themselves */
	bool first_refused;    /* the first of the last questions */
	bool no_load, no_call; /* of scripts, as the second way has shown */
	enum verdict (*read)(const redisReply *reply);
	enum verdict verdict[RIGHTS];
	lk_error *error;
};

/* What a client with this configuration does on its servers: a set of enum when. */
static unsigned when_of(const struct lk_config *config)
{
	int acks = lk__config_acks(config);
	enum lk__fsync fsync = lk__config_fsync(config);
	enum lk__messages messages = lk__config_messages(config);
	bool moving = config->deployment != LK__SINGLE;
	unsigned when = ALWAYS;
	if (messages != LK__MESSAGES_SHARDED)
		when |= PLAIN;
	if (messages != LK__MESSAGES_PLAIN)
		when |= SHARDED;
	if (moving)
		when |= MOVING;
	/* Where the disks of replicas are waited for, their memory is not. */
	if (fsync != LK__FSYNC_REPLICAS && (acks > 0 || (acks == LK__ACKS_ALL && moving)))
		when |= ACKED;
	if (fsync != LK__FSYNC_OFF)
		when |= SYNCED;
	if (config->deployment == LK__CLUSTER)
		when |= CLUSTER;
	return when;
}

/* The name that a word of the table stands for; NULL when out of memory. */
static char *name_of(const struct asker *asker, const char *word, size_t *size_out)
{
	if (word[1] == ':')
		return lk__suffixed_name(asker->name, asker->name_size, word + 2, size_out);
	if (word[1] == '&')
		return lk__braced_name(word + 2, asker->name, asker->name_size, size_out);
	return lk__derived_name(word + 1, asker->name, asker->name_size, size_out);
}

static bool is_name(const char *word)
{
	return *word == '~' || *word == '&';
}

static bool asker_add(const struct asker *asker, const struct right *right,
		      struct lk__request *batch)
{
	struct lk__words words = {0};
	for (size_t i = 0; i < 3 && asker->before[i]; i++)
		lk__words_text(&words, asker->before[i]);
	for (size_t i = 0; i < WORDS && right->words[i]; i++) {
		const char *word = right->words[i];
		size_t size = 0;
		if (strcmp(word, "~") == 0) {
			lk__words_add(&words, asker->name, asker->name_size);
		} else if (is_name(word)) {
			char *name = name_of(asker, word, &size);
			lk__words_own(&words, name, size);
		} else {
			lk__words_text(&words, word);
		}
	}
	return lk__words_batch(batch, &words);
}

static bool is_needed(const struct asker *asker, size_t at)
{
	return asker->when & rights[at].when;
}

static bool is_asked(const struct asker *asker, size_t at)
{
	return is_needed(asker, at) && (!asker->sends || rights[at].how == READS);
}

/* A batch that begins with TIME: what becomes of a batch is what becomes of its first command. */
static struct lk__request *time_batch(size_t most)
{
	struct lk__words time = {0};
	struct lk__request *batch = lk__request_batch(most);
	lk__words_text(&time, "TIME");
	if (batch && lk__words_batch(batch, &time))
		return batch;
	lk__request_free(batch);
	return NULL;
}

static struct lk__request *asker_questions(const struct asker *asker)
{
	struct lk__request *batch = time_batch(1 + RIGHTS);
	bool made = batch;
	for (size_t i = 0; made && i < RIGHTS; i++)
		if (is_asked(asker, i))
			made = asker_add(asker, &rights[i], batch);
	if (made)
		return batch;
	lk__request_free(batch);
	return NULL;
}

static bool is_refusal(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && lk__classify(reply->str) == LK_EDENIED;
}

/* LK__WAIT_READY with the verdicts, 0 when the server knows no such way, or a code. */
static int asker_ask(struct asker *asker)
{
	struct lk__request *batch = asker_questions(asker);
	int rc = lk__facts_question(asker->asked, batch, asker->error);
	if (rc != LK__WAIT_READY)
		return rc;
	const redisReply *all = batch->reply;
	size_t next = 1;
	asker->first_refused = is_refusal(all->element[1]);
	for (size_t i = 0; i < RIGHTS && rc; i++) {
		if (!is_asked(asker, i) || next >= all->elements)
			continue;
		enum verdict verdict = asker->read(all->element[next++]);
		if (verdict == NO_SUCH_WAY)
			rc = 0;
		else
			asker->verdict[i] = verdict;
	}
	lk__request_free(batch);
	return rc;
}

/* ---- the three ways ---- */

/* "OK", or in words why not; an error about the command in question means that it is unknown. */
static enum verdict read_dryrun(const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_STATUS)
		return ALLOWED;
	if (reply->type == REDIS_REPLY_STRING)
		return REFUSED;
	bool unknown = reply->type == REDIS_REPLY_ERROR &&
		       strncmp(reply->str, "ERR Command '", 13) == 0;
	return unknown ? REFUSED : NO_SUCH_WAY;
}

static enum verdict read_probe(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0)
		return NO_SUCH_WAY;
	return reply->integer == 1 ? ALLOWED : REFUSED;
}

static enum verdict read_command(const redisReply *reply)
{
	return is_refusal(reply) ? REFUSED : ALLOWED;
}

static const char *user_of(const struct asker *asker)
{
	const char *user = asker->asked->client->config->username;
	return *user ? user : "default";
}

static int ask_dryrun(struct asker *asker)
{
	asker->before[0] = "ACL";
	asker->before[1] = "DRYRUN";
	asker->before[2] = user_of(asker);
	asker->read = read_dryrun;
	return asker_ask(asker);
}

static struct lk__request *load_request(void)
{
	struct lk__request *batch = time_batch(2);
	struct lk__words load = {0};
	lk__words_text(&load, "SCRIPT");
	lk__words_text(&load, "LOAD");
	lk__words_text(&load, probe);
	if (batch && lk__words_batch(batch, &load))
		return batch;
	lk__request_free(batch);
	return NULL;
}

/* Servers before 7.0 cannot answer, and would send the script to their replicas. */
static int ask_probe(struct asker *asker)
{
	if (asker->old)
		return 0;
	struct lk__request *batch = load_request();
	int rc = lk__facts_question(asker->asked, batch, asker->error);
	if (rc != LK__WAIT_READY)
		return rc;
	const redisReply *sha1 = batch->reply->element[1];
	rc = 0;
	asker->no_load = is_refusal(sha1);
	if (sha1->type == REDIS_REPLY_STRING) {
		asker->before[0] = "EVALSHA";
		asker->before[1] = sha1->str;
		asker->before[2] = "0";
		asker->read = read_probe;
		rc = asker_ask(asker);
		asker->no_call = rc == 0 && asker->first_refused;
	}
	lk__request_free(batch);
	return rc;
}

/* Whether a list of flags has this one. */
static bool has_flag(const redisReply *flags, const char *flag)
{
	for (size_t i = 0; flags->type == REDIS_REPLY_ARRAY && i < flags->elements; i++) {
		const redisReply *one = flags->element[i];
		if ((one->type == REDIS_REPLY_STRING || one->type == REDIS_REPLY_STATUS) &&
		    strcmp(one->str, flag) == 0)
			return true;
	}
	return false;
}

/* The answer is a list of names and values, "flags" the first. */
static bool may_do_all(const redisReply *reply)
{
	const redisReply *flags = reply->type == REDIS_REPLY_ARRAY && reply->elements > 1
					  ? reply->element[1]
					  : NULL;
	return flags && has_flag(flags, "allcommands") && has_flag(flags, "allkeys") &&
	       has_flag(flags, "allchannels");
}

/* Every verdict is ALLOWED if nothing was asked before that says otherwise. */
static int ask_user(struct asker *asker)
{
	struct lk__words user = {0};
	struct lk__request *batch = time_batch(2);
	lk__words_text(&user, "ACL");
	lk__words_text(&user, "GETUSER");
	lk__words_text(&user, user_of(asker));
	if (batch && !lk__words_batch(batch, &user)) {
		lk__request_free(batch);
		batch = NULL;
	}
	int rc = lk__facts_question(asker->asked, batch, asker->error);
	if (rc != LK__WAIT_READY)
		return rc;
	rc = may_do_all(batch->reply->element[1]) ? LK__WAIT_READY : 0;
	for (size_t i = 0; i < RIGHTS; i++)
		asker->verdict[i] = ALLOWED;
	lk__request_free(batch);
	return rc;
}

static bool is_load(const struct right *right)
{
	return strcmp(right->words[0], "script") == 0 && strcmp(right->words[1], "load") == 0;
}

static int ask_commands(struct asker *asker)
{
	asker->before[0] = NULL;
	asker->sends = true;
	asker->read = read_command;
	for (size_t i = 0; i < RIGHTS; i++) {
		bool load = is_load(&rights[i]);
		bool call = strcmp(rights[i].words[0], "evalsha") == 0;
		asker->verdict[i] = (load && asker->no_load) || (call && asker->no_call)
					    ? REFUSED
					    : NOT_ASKED;
	}
	return asker_ask(asker);
}

/* ---- what they tell ---- */

/* Whether the second word of the command names what it does. */
static bool has_subcommand(const char *verb)
{
	static const char *const verbs[] = {"client", "cluster", "pubsub", "script"};
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verb, verbs[i]) == 0)
			return true;
	return false;
}

/* "hset", "script load", "the key a:timeout", "publish on the channel b". */
static void right_text(const struct asker *asker, const struct right *right, char *text_out,
		       size_t room)
{
	const char *verb = right->words[0], *word = right->words[1];
	size_t size;
	if (has_subcommand(verb)) {
		snprintf(text_out, room, "%s %s", verb, word);
	} else if (word && is_name(word) && strcmp(word, "~") != 0) {
		char *name = name_of(asker, word, &size);
		snprintf(text_out, room, "%s%s %.*s", *word == '&' ? verb : "the key",
			 *word == '&' ? " on the channel" : "", name ? (int)size : 0,
			 name ? name : "");
		free(name);
	} else {
		snprintf(text_out, room, "%s", verb);
	}
}

static void list_add(char *list, const char *text)
{
	size_t used = strlen(list), left = LK__REFUSED_SIZE - used;
	static const char more[] = ", …";
	if (strlen(text) + sizeof(more) + 2 < left)
		snprintf(list + used, left, "%s%s", used ? ", " : "", text);
	else if (used < sizeof(more) || strcmp(list + used - sizeof(more) + 1, more) != 0)
		snprintf(list + used, left, "%s", more);
}

static bool is_about_key(const struct right *right)
{
	return right->words[1] && strcmp(right->words[1], "~") == 0;
}

/* All commands on the key are refused: it is the key that is. */
static bool key_is_refused(const struct asker *asker)
{
	bool all = true;
	for (size_t i = 0; i < RIGHTS; i++)
		if (is_about_key(&rights[i]) && asker->verdict[i] != NOT_ASKED)
			all &= asker->verdict[i] == REFUSED;
	return all;
}

/* Whether it does harm that this is refused. */
static bool is_missed(const struct asker *asker, const struct right *right)
{
	bool instead = false;
	for (size_t i = 0; i < RIGHTS; i++)
		instead |= rights[i].need == INSTEAD && asker->verdict[i] == ALLOWED;
	return right->need != INSTEAD && !(instead && is_load(right));
}

static char *list_of(struct lk__facts *facts, enum need need)
{
	return need == CORE      ? facts->refused
	       : need == MESSAGE ? facts->refused_messages
				 : facts->refused_partial;
}

static void tell(const struct asker *asker, struct lk__facts *facts)
{
	char text[200];
	bool key_refused = key_is_refused(asker);
	if (key_refused) {
		snprintf(text, sizeof(text), "every command on the key %.*s", (int)asker->name_size,
			 asker->name);
		list_add(facts->refused, text);
	}
	facts->has_rights = true;
	for (size_t i = 0; i < RIGHTS; i++) {
		if (!is_needed(asker, i))
			continue;
		facts->has_rights &= asker->verdict[i] != NOT_ASKED;
		if (asker->verdict[i] != REFUSED || !is_missed(asker, &rights[i]) ||
		    (key_refused && is_about_key(&rights[i])))
			continue;
		right_text(asker, &rights[i], text, sizeof(text));
		list_add(list_of(facts, rights[i].need), text);
	}
}

int lk__facts_ask_rights(struct lk__facts *facts, const struct lk__asked *asked, const char *name,
			 size_t name_size, lk_error *error)
{
	static int (*const ways[])(struct asker * asker) = {ask_dryrun, ask_probe, ask_user,
							    ask_commands};
	struct asker asker = {.asked = asked,
			      .name = name,
			      .name_size = name_size,
			      .when = when_of(asked->serves),
			      .old = facts->compatible >= 0 && facts->compatible < 70000,
			      .error = error};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(ways) / sizeof(ways[0]); i++)
		rc = ways[i](&asker);
	if (rc == LK__WAIT_READY)
		tell(&asker, facts);
	return rc < 0 ? rc : LK__WAIT_READY;
}
