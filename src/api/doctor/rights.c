/* SPDX-License-Identifier: MIT */
/*
 * Finds out what the user may do on a node. There are four ways to ask, the better ones first.
 * Three of them put other words before those of the command in question:
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
#include "conf/config.h"
#include "conn/request.h"

#define WORDS 6 /* of one command, at most, with a NULL behind them */

enum need { CORE, PARTIAL, MESSAGE, TOLD, INSTEAD };
enum when {
	ALWAYS = 1,
	PLAIN = 2,
	SHARDED = 4,
	MOVING = 8,
	ACKED = 16,
	SYNCED = 32,
	CLUSTER = 64,
	NOTED = 128,
	TRACKED = 256
};
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
	unsigned when;         /* what is so */
	char *record;          /* the key of the client's record */
	const char *before[4]; /* the words of the way, up to a NULL */
	bool old;              /* before 7.0 */
	bool sends;            /* the commands themselves */
	bool first_refused;    /* the first of the last questions */
	bool no_load, no_call; /* of scripts, as the second way has shown */
	enum verdict (*read)(const redisReply *reply);
	enum verdict verdict[RIGHTS];
	lk_error *error;
};

/* The occasions that a client with this configuration has on its servers: a set of enum when. */
static unsigned when_of(const struct lk_config *config)
{
	int acks = lk__config_acks(config);
	enum lk__fsync fsync = config->chosen.fsync;
	enum lk__messages messages = config->chosen.messages;
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
	if (*config->note && config->chosen.records != LK__RECORDS_OFF)
		when |= NOTED;
	if (config->chosen.tracks)
		when |= TRACKED;
	return when;
}

static bool is_needed(const struct asker *asker, size_t at)
{
	return asker->when & rights[at].when;
}

static bool is_asked(const struct asker *asker, size_t at)
{
	return is_needed(asker, at) && (!asker->sends || rights[at].how == READS);
}

static bool is_refusal(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && lk__refusal(reply->str).code == LK_EDENIED;
}

static bool is_about_record(const struct right *right)
{
	return right->words[1] && strcmp(right->words[1], "=") == 0;
}

/* LK__WAIT_READY with the verdicts, 0 when the server knows no such way, or a code. */
static int asker_ask(struct asker *asker)
{
	struct lk__questions questions = lk__questions_begin(RIGHTS);
	questions.key = asker->asked->key;
	questions.key_size = asker->asked->key_size;
	questions.record = asker->record;
	for (size_t i = 0; i < RIGHTS; i++)
		if (is_asked(asker, i))
			lk__questions_add(&questions, asker->before, rights[i].words);
	int rc = lk__asked_ask(asker->asked, questions.batch, asker->error);
	if (rc != LK__WAIT_READY)
		return rc;
	const redisReply *all = questions.batch->reply;
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
	lk__request_free(questions.batch);
	return rc;
}

/* ---- the ways ---- */

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

/* Asks one command: the request, whose second answer it is; or NULL, with a code. */
static struct lk__request *ask_one(const struct asker *asker, const char *const *words,
				   int *code_out)
{
	struct lk__questions questions = lk__questions_begin(1);
	lk__questions_add(&questions, words, LK__SAY(NULL));
	*code_out = lk__asked_ask(asker->asked, questions.batch, asker->error);
	return *code_out == LK__WAIT_READY ? questions.batch : NULL;
}

/* Servers before 7.0 cannot answer, and would send the script to their replicas. */
static int ask_probe(struct asker *asker)
{
	if (asker->old)
		return 0;
	int rc;
	struct lk__request *load = ask_one(asker, LK__SAY("SCRIPT", "LOAD", probe), &rc);
	if (!load)
		return rc;
	const redisReply *sha1 = load->reply->element[1];
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
	lk__request_free(load);
	return rc;
}

/* Tells whether a list of flags has this one. */
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
	int rc;
	struct lk__request *user = ask_one(asker, LK__SAY("ACL", "GETUSER", user_of(asker)), &rc);
	if (!user)
		return rc;
	rc = may_do_all(user->reply->element[1]) ? LK__WAIT_READY : 0;
	for (size_t i = 0; i < RIGHTS; i++)
		asker->verdict[i] = ALLOWED;
	lk__request_free(user);
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

/* Tells whether the second word of the command names what it does. */
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
	if (is_about_record(right)) {
		snprintf(text_out, room, "the key %s (the note)", asker->record);
	} else if (has_subcommand(verb)) {
		snprintf(text_out, room, "%s %s", verb, word);
	} else if (word && lk__word_is_name(word) && strcmp(word, "~") != 0) {
		char *name = lk__word_name(word, asker->asked->key, asker->asked->key_size, &size);
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

/* Tells whether it does harm that this is refused. */
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
	       : need == TOLD    ? facts->refused_tracking
				 : facts->refused_partial;
}

static void tell(const struct asker *asker, struct lk__facts *facts)
{
	char text[200];
	bool key_refused = key_is_refused(asker);
	if (key_refused) {
		snprintf(text, sizeof(text), "every command on the key %.*s",
			 (int)asker->asked->key_size, asker->asked->key);
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

int lk__facts_ask_rights(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error)
{
	static int (*const ways[])(struct asker * asker) = {ask_dryrun, ask_probe, ask_user,
							    ask_commands};
	struct asker asker = {.asked = asked,
			      .when = when_of(asked->serves),
			      .old = facts->compatible >= 0 && facts->compatible < 70000,
			      .error = error};
	int rc = 0;
	asker.record = lk__client_record_key(asked->client);
	if (!asker.record)
		return lk__fail(error, LK_ENOMEM, "doctor: out of memory");
	for (size_t i = 0; rc == 0 && i < sizeof(ways) / sizeof(ways[0]); i++)
		rc = ways[i](&asker);
	if (rc == LK__WAIT_READY)
		tell(&asker, facts);
	free(asker.record);
	return rc < 0 ? rc : LK__WAIT_READY;
}
