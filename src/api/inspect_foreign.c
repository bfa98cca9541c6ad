/* SPDX-License-Identifier: MIT */
/* Reads another library's lock, by the table of their forms, and frees it. */
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/inspect.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/handshake.h"
#include "conn/request.h"
#include "lock/client.h"
#include "lock/operation.h"
#include "resp/reply.h"
#include "sync/foreign/foreign.h"
#include "sync/recipes.h"

static struct lk__foreign_seen seen_of(const struct lk__look *look, const redisReply *value,
				       unsigned kinds)
{
	return (struct lk__foreign_seen){.key = look->key,
					 .key_size = look->key_size,
					 .value = value->str,
					 .value_size = (size_t)value->len,
					 .kinds = kinds};
}

static unsigned string_kinds(int64_t ttl_ms)
{
	unsigned kinds = 1u << LK__FOREIGN_PLAIN | 1u << LK__FOREIGN_BESIDE;
	return ttl_ms >= 0 ? kinds | 1u << LK__FOREIGN_COUNT : kinds;
}

const struct lk__foreign *lk__look_foreign_string(const struct lk__look *look, int64_t ttl_ms,
						  struct lk__foreign_seen *seen)
{
	*seen = seen_of(look, look->parts[LK__LOOK_VALUE], string_kinds(ttl_ms));
	return lk__foreign_find(seen);
}

bool lk__look_tell(struct lk__look *look, const struct lk__foreign_seen *seen,
		   const struct lk__foreign *row, lk_lock_info *info)
{
	if (!row)
		return true;
	look->looks_like = lk__foreign_text(seen, row);
	look->waker = lk__foreign_waker(seen, row);
	info->looks_like = look->looks_like;
	return look->looks_like;
}

/* The first of every `step` elements that a row knows, or NULL. */
static const struct lk__foreign *row_of(struct lk__look *look, const redisReply *elements,
					size_t step, unsigned kinds, struct lk__foreign_seen *seen)
{
	for (size_t i = 0; i + step <= elements->elements; i += step) {
		if (elements->element[i]->type != REDIS_REPLY_STRING)
			continue;
		*seen = seen_of(look, elements->element[i], kinds);
		const struct lk__foreign *row = lk__foreign_find(seen);
		if (row)
			return row;
	}
	return NULL;
}

/* Fields of a hash of which each is a lock, or of one that is a lock as a whole. */
int lk__look_read_foreign_hash(struct lk__look *look, lk_lock_info *info)
{
	const redisReply *page = look->parts[LK__LOOK_VALUE];
	unsigned kinds = 1u << LK__FOREIGN_HASH | 1u << LK__FOREIGN_FIELD;
	struct lk__foreign_seen seen;
	if (page->type != REDIS_REPLY_ARRAY || page->elements != 2 ||
	    page->element[1]->type != REDIS_REPLY_ARRAY)
		return 0;
	const redisReply *fields = page->element[1];
	const struct lk__foreign *row = row_of(look, fields, 2, kinds, &seen);
	if (!row)
		return 0;
	if (!lk__look_holders(look, fields->elements / 2, info) ||
	    !lk__look_tell(look, &seen, row, info))
		return LK_ENOMEM;
	info->type = "foreign lock";
	look->is_field = row->kind == LK__FOREIGN_FIELD;
	for (size_t i = 0; i + 1 < fields->elements; i += 2) {
		const redisReply *field = fields->element[i];
		if (field->type != REDIS_REPLY_STRING)
			continue;
		seen = seen_of(look, field, 1u << row->kind);
		if (lk__foreign_find(&seen) == row)
			lk__look_hold(look, field->str, (size_t)field->len, info->ttl_ms, info);
	}
	return 1;
}

int lk__look_read_zset(struct lk__look *look, lk_lock_info *info)
{
	const redisReply *members = look->parts[LK__LOOK_VALUE];
	const redisReply *ttl = look->parts[LK__LOOK_TTL];
	struct lk__foreign_seen seen;
	info->ttl_ms = ttl->type == REDIS_REPLY_INTEGER ? ttl->integer : -1;
	if (members->type != REDIS_REPLY_ARRAY)
		return 0;
	const struct lk__foreign *row = row_of(
		look, members, 2, 1u << LK__FOREIGN_ZSET | 1u << LK__FOREIGN_POOL, &seen);
	if (!row)
		return 0;
	if (!lk__look_holders(look, members->elements / 2, info) ||
	    !lk__look_tell(look, &seen, row, info))
		return LK_ENOMEM;
	bool is_pool = row->kind == LK__FOREIGN_POOL;
	info->type = is_pool ? "foreign semaphore" : "foreign lock";
	int64_t now_ms = lk__look_time_ms(look);
	for (size_t i = 0; i + 1 < members->elements; i += 2) {
		const redisReply *member = members->element[i];
		/* Its score is its end, but in a semaphore the time when it came. */
		int64_t left_ms = is_pool ? info->ttl_ms
					  : lk__look_score(members->element[i + 1]) - now_ms;
		/* A member that stands for the lock itself is not an owner. */
		bool is_mark = (size_t)member->len == strlen(row->value) &&
			       memcmp(member->str, row->value, (size_t)member->len) == 0;
		if (!is_mark && (is_pool || left_ms > 0))
			lk__look_hold(look, member->str, (size_t)member->len, left_ms, info);
	}
	return 1;
}

/* A string is deleted as a plain lock is, since ours wait for it too. NULL: no memory. */
static struct lk__request *force_request(const struct lk__look *look, const lk_lock_info *info,
					 const struct lk__notify *notify)
{
	struct lk__words words = {0};
	lk__words_add(&words, look->key, look->key_size);
	if (look->type == LK__LOOK_STRING) {
		size_t size;
		char *channel = lk__channel_name(&lk__plain_recipe, look->key, look->key_size,
						 &size);
		lk__words_own(&words, channel, size);
	} else {
		lk__words_text(&words, look->type == LK__LOOK_ZSET ? "zset" : "hash");
		lk__words_add(&words, info->holders[0].field,
			      look->is_field ? info->holders[0].field_size : 0);
	}
	if (notify)
		lk__notify_words(&words, notify);
	return lk__words_script(&words,
				look->type == LK__LOOK_STRING ? LK__SCRIPT_PLAIN_FORCE_RELEASE
							      : LK__SCRIPT_FOREIGN_FORCE_RELEASE,
				1);
}

/* 1: it is to be freed; 0: nobody has it; or a code. */
static int force_check(const struct lk__look *look, const lk_lock_info *info, const char *what,
		       lk_error *error)
{
	bool is_string = strcmp(info->type, "plain lock") == 0 && info->looks_like;
	if (strcmp(info->type, "none") == 0)
		return 0;
	if (!is_string && strcmp(info->type, "foreign lock") != 0)
		return lk__fail(error, LK_EINVAL,
				"%s: \"%.100s\" is a %s, not another library's lock", what,
				info->name, info->type);
	if (look->is_field && info->holder_count > 1)
		return lk__fail(error, LK_EINVAL,
				"%s: the hash \"%.100s\" has %zu locks; delete the field of one",
				what, info->name, info->holder_count);
	return info->holder_count > 0;
}

int lk__look_force_release(struct lk__look *look, const lk_lock_info *info, lk_error *error)
{
	const char *what = "lk_scan_force_release";
	lk_client *client = look->client;
	struct lk__notify *notify = NULL;
	int rc = force_check(look, info, what, error);
	if (rc <= 0)
		return rc;
	if (look->waker &&
	    lk__notify_of(&notify, look->waker, look->key, look->key_size) == LK__NOTIFY_NO_MEMORY)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", what);
	struct lk__request *request = force_request(look, info, notify);
	lk__notify_free(notify);
	if (request)
		lk__request_frees(request);
	struct lk__node *node = lk__topo_node_of(client->topo, look->key, look->key_size);
	int64_t until_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	rc = lk__ask(client, lk__node_scripts(node), look->thread, request, what, until_ns, error);
	if (rc < 0)
		return rc;
	int64_t freed = 0;
	rc = lk__reply_integer(request->reply, 0, 1, &freed)
		     ? (freed || request->sends > 1)
		     : lk__fail(error, LK_EMAYBEHELD, "%s: unexpected reply", what);
	lk__request_free(request);
	return rc;
}
