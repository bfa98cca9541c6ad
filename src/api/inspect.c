/* Walking over locks: SCAN for hashes, then each one's fields, time to live and listeners. */
#include <lockkeeper/inspect.h>
#include <lockkeeper/lock.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "drive/caller.h"
#include "sync/lock/lock.h"

#define HOLDERS_MAX 64 /* fields of a lock; the reentrant one has one */

struct lk_scan {
	lk_client *client;
	char *pattern;
	size_t pattern_size;
	char cursor[24];
	bool begun;
	struct lk__request *page; /* the answer to SCAN */
	size_t next_key;
	struct lk__request *fields; /* the answer to HGETALL */
	char *name;
	lk_holder holders[HOLDERS_MAX];
};

/* A pattern for keys: the prefix taken literally, then the user's glob. */
static int scan_set_pattern(lk_scan *scan, const char *pattern)
{
	const char *prefix = scan->client->config->key_prefix;
	char *end = scan->pattern = malloc(2 * strlen(prefix) + strlen(pattern) + 1);
	if (!scan->pattern)
		return LK_ENOMEM;
	for (; *prefix; prefix++) {
		if (strchr("*?[]\\", *prefix))
			*end++ = '\\';
		*end++ = *prefix;
	}
	memcpy(end, pattern, strlen(pattern) + 1);
	scan->pattern_size = strlen(scan->pattern);
	return 0;
}

int lk_scan_new(lk_scan **scan_out, lk_client *client, const char *pattern, lk_error *error)
{
	if (!scan_out || !client)
		return lk__fail(error, LK_EINVAL, "lk_scan_new: an argument is NULL");
	int rc = lk__client_check(client, "lk_scan_new", error);
	if (rc < 0)
		return rc;
	if (pattern && strlen(pattern) > LK_NAME_SIZE_MAX)
		return lk__fail(error, LK_EINVAL,
				"lk_scan_new: the pattern is longer than a name can be");
	lk_scan *scan = calloc(1, sizeof(*scan));
	if (scan) {
		scan->client = client;
		strcpy(scan->cursor, "0");
	}
	if (!scan || scan_set_pattern(scan, pattern ? pattern : "*") < 0) {
		free(scan);
		return lk__fail(error, LK_ENOMEM, "lk_scan_new: out of memory");
	}
	lk__client_ref(client);
	*scan_out = scan;
	return 0;
}

lk_scan *lk_scan_free(lk_scan *scan)
{
	if (!scan)
		return NULL;
	lk__request_free(scan->page);
	lk__request_free(scan->fields);
	if (!lk__client_forked(scan->client))
		lk__client_unref(scan->client);
	free(scan->pattern);
	free(scan->name);
	free(scan);
	return NULL;
}

static int scan_ask(lk_scan *scan, struct lk__thread *thread, const char *key, size_t key_size,
		    struct lk__request *request, struct lk__request **answer_out, lk_error *error)
{
	lk_client *client = scan->client;
	struct lk__node *node = lk__topo_node_of(client->topo, key, key_size);
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	int rc = lk__ask(client, lk__node_scripts(node, key, key_size), thread, request, "inspect",
			 until_ns, error);
	if (rc == LK_EMAYBEHELD)
		rc = LK_EUNREACHABLE;
	if (rc == LK_EUNREACHABLE && error)
		error->code = rc;
	if (rc < 0)
		return rc;
	*answer_out = request;
	return 0;
}

/* The next page of keys: 1, or 0 when there is none. */
static int scan_turn_page(lk_scan *scan, struct lk__thread *thread, lk_error *error)
{
	if (scan->begun && strcmp(scan->cursor, "0") == 0)
		return 0;
	const char *argv[] = {"SCAN",  scan->cursor, "MATCH", scan->pattern,
			      "COUNT", "200",        "TYPE",  "hash"};
	size_t sizes[] = {4, strlen(scan->cursor), 5, scan->pattern_size, 5, 3, 4, 4};
	lk__request_free(scan->page);
	scan->page = NULL;
	struct lk__request *page;
	int rc = scan_ask(scan, thread, "", 0, lk__request_new(8, argv, sizes), &page, error);
	if (rc < 0)
		return rc;
	scan->page = page;
	const redisReply *reply = page->reply;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[0]->len >= sizeof(scan->cursor) ||
	    reply->element[1]->type != REDIS_REPLY_ARRAY)
		return lk__fail(error, LK_EPROTOCOL,
				"inspect: SCAN was answered with something else");
	memcpy(scan->cursor, reply->element[0]->str, reply->element[0]->len + 1);
	scan->begun = true;
	scan->next_key = 0;
	return 1;
}

static bool is_decimal(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	return size > 0 && size < 20;
}

/* A holder's field ends in ":" and a number; its value is a number. */
static bool is_holder(const redisReply *field, const redisReply *value)
{
	const char *colon = memrchr(field->str, ':', (size_t)field->len);
	if (!colon || colon == field->str)
		return false;
	return is_decimal(colon + 1, (size_t)(field->str + field->len - colon - 1)) &&
	       is_decimal(value->str, (size_t)value->len);
}

/* 1: the hash is a lock, or not there; 0: it is something else. */
static int scan_read_holders(lk_scan *scan, const redisReply *reply, lk_lock_info *info)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements / 2 > HOLDERS_MAX)
		return 0;
	for (size_t i = 0; i + 1 < reply->elements; i += 2) {
		const redisReply *field = reply->element[i], *value = reply->element[i + 1];
		if (field->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
		    !is_holder(field, value))
			return 0;
		scan->holders[i / 2] = (lk_holder){field->str, (size_t)field->len,
						   strtoll(value->str, NULL, 10)};
	}
	info->holder_count = reply->elements / 2;
	info->holders = scan->holders;
	return 1;
}

static int scan_integer(lk_scan *scan, struct lk__thread *thread, const char *key, size_t key_size,
			struct lk__request *request, int64_t *integer_out, lk_error *error)
{
	struct lk__request *answer;
	int rc = scan_ask(scan, thread, key, key_size, request, &answer, error);
	if (rc < 0)
		return rc;
	const redisReply *reply = answer->reply;
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
		reply = reply->element[1]; /* PUBSUB NUMSUB: channel, count */
	*integer_out = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
	lk__request_free(answer);
	return 0;
}

static int scan_read_rest(lk_scan *scan, struct lk__thread *thread, const char *key,
			  size_t key_size, lk_lock_info *info, lk_error *error)
{
	size_t channel_size;
	char *channel = lk__derived_name(LK__LOCK_CHANNEL_PREFIX, key, key_size, &channel_size);
	if (!channel)
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	struct lk__request *request = lk__request_new(2, (const char *[]){"PTTL", key},
						      (size_t[]){4, key_size});
	int rc = scan_integer(scan, thread, key, key_size, request, &info->ttl_ms, error);
	if (rc == 0) {
		request = lk__request_new(3, (const char *[]){"PUBSUB", "NUMSUB", channel},
					  (size_t[]){6, 6, channel_size});
		rc = scan_integer(scan, thread, key, key_size, request, &info->waiting_clients,
				  error);
	}
	if (rc == LK_EDENIED) { /* the number of listeners is a hint that one can do without */
		info->waiting_clients = 0;
		rc = 0;
	}
	free(channel);
	return rc;
}

/* 1 and the lock's picture, or 0 for a key that is no lock. */
static int scan_look(lk_scan *scan, struct lk__thread *thread, const char *key, size_t key_size,
		     lk_lock_info *info_out, lk_error *error)
{
	size_t prefix_size = strlen(scan->client->config->key_prefix);
	lk_lock_info info = {.type = lk__lock_recipe.type, .name_size = key_size - prefix_size};
	lk__request_free(scan->fields);
	scan->fields = NULL;
	free(scan->name);
	scan->name = malloc(key_size + 1);
	if (!scan->name)
		return lk__fail(error, LK_ENOMEM, "inspect: out of memory");
	memcpy(scan->name, key, key_size);
	scan->name[key_size] = 0;
	info.name = scan->name + prefix_size;
	struct lk__request *request = lk__request_new(2, (const char *[]){"HGETALL", key},
						      (size_t[]){7, key_size});
	int rc = scan_ask(scan, thread, key, key_size, request, &scan->fields, error);
	if (rc < 0)
		return rc;
	if (!scan_read_holders(scan, scan->fields->reply, &info))
		return 0;
	rc = scan_read_rest(scan, thread, key, key_size, &info, error);
	if (rc < 0)
		return rc;
	*info_out = info;
	return 1;
}

static int scan_next(lk_scan *scan, struct lk__thread *thread, lk_lock_info *info_out,
		     lk_error *error)
{
	for (;;) {
		const redisReply *keys = scan->page ? scan->page->reply->element[1] : NULL;
		if (!keys || scan->next_key >= keys->elements) {
			int rc = scan_turn_page(scan, thread, error);
			if (rc <= 0)
				return rc;
			continue;
		}
		const redisReply *key = keys->element[scan->next_key++];
		int rc = key->type == REDIS_REPLY_STRING
				 ? scan_look(scan, thread, key->str, (size_t)key->len, info_out,
					     error)
				 : 0;
		if (rc == LK_EWRONGTYPE || (rc == 1 && info_out->holder_count == 0))
			continue; /* it changed since SCAN saw it */
		if (rc != 0)
			return rc;
	}
}

int lk_scan_next(lk_scan *scan, lk_lock_info *info_out, lk_error *error)
{
	struct lk__thread *thread;
	int saved;
	if (!scan || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_scan_next: an argument is NULL");
	int rc = lk__enter(scan->client, "lk_scan_next", &thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = scan_next(scan, thread, info_out, error);
	lk__leave(saved);
	return rc;
}

int lk_scan_show(lk_scan *scan, const void *name, size_t name_size, lk_lock_info *info_out,
		 lk_error *error)
{
	struct lk__thread *thread;
	int saved;
	if (!scan || !name || !info_out)
		return lk__fail(error, LK_EINVAL, "lk_scan_show: an argument is NULL");
	if (name_size == 0 || name_size > LK_NAME_SIZE_MAX)
		return lk__fail(error, LK_EINVAL, "lk_scan_show: the name has %zu bytes",
				name_size);
	int rc = lk__enter(scan->client, "lk_scan_show", &thread, &saved, error);
	if (rc < 0)
		return rc;
	const char *prefix = scan->client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	char *key = malloc(prefix_size + name_size);
	if (key) {
		memcpy(key, prefix, prefix_size);
		memcpy(key + prefix_size, name, name_size);
		rc = scan_look(scan, thread, key, prefix_size + name_size, info_out, error);
		free(key);
	} else {
		rc = lk__fail(error, LK_ENOMEM, "lk_scan_show: out of memory");
	}
	lk__leave(saved);
	if (rc == 0)
		return lk__fail(error, LK_EWRONGTYPE, "show: the key is a hash, but no lock");
	return rc < 0 ? rc : 0;
}
