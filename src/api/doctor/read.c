/* SPDX-License-Identifier: MIT */
/* Reads the answers to INFO, ROLE and CONFIG GET. What they leave out stays unknown. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/doctor/facts.h"
#include "resp/reply.h"

#define VALUE_SIZE 256 /* of what INFO says; the rest is left out */

/* ---- what takes more than to be copied ---- */

/* A name that no server has. */
static void set_any(struct lk__facts *facts, const char *value)
{
	(void)value;
	facts->any_setting = true;
	facts->has_config = false;
}

static void set_snapshots(struct lk__facts *facts, const char *value)
{
	facts->snapshots = *value != '\0';
}

static void set_append(struct lk__facts *facts, const char *value)
{
	facts->append = strcmp(value, "yes") == 0 || strcmp(value, "1") == 0;
}

static void set_step(struct lk__facts *facts, const char *value)
{
	facts->in_step = strcmp(value, "up") == 0;
}

static void set_read_only(struct lk__facts *facts, const char *value)
{
	facts->read_only = strcmp(value, "1") == 0;
}

/* "normal 0 0 0 slave … pubsub 33554432 8388608 60". */
static void set_buffer(struct lk__facts *facts, const char *value)
{
	const char *limits = strstr(value, "pubsub ");
	if (limits)
		limits = lk__number_take(limits + strlen("pubsub "), 0, INT64_MAX,
					 &facts->buffer_hard);
	if (limits && *limits == ' ')
		lk__number_take(limits + 1, 0, INT64_MAX, &facts->buffer_soft);
}

/* Reads what KeyDB alone says, whose INFO looks like that of Redis. */
static void set_active(struct lk__facts *facts, const char *value)
{
	bool other = *facts->server && strcmp(facts->server, "redis") != 0 &&
		     strcmp(facts->server, "keydb") != 0;
	bool yes = strcmp(value, "yes") == 0;
	if (other || (!yes && strcmp(value, "no") != 0))
		return;
	snprintf(facts->server, sizeof(facts->server), "keydb");
	if (facts->active != 1)
		facts->active = yes;
}

/* ---- the facts that INFO and CONFIG GET tell ---- */

/* A fact, and its names in both; NULL: it is not there. */
static const struct field {
	const char *setting, *info;
	void (*set)(struct lk__facts *facts, const char *value); /* NULL: it is copied */
	size_t at, room; /* where to; the size of a text, 0: a number */
} fields[] = {
#define SET_BY(function) function, 0, 0
#define NUMBER(member) NULL, offsetof(struct lk__facts, member), 0
#define TEXT(member)                                                                               \
	NULL, offsetof(struct lk__facts, member), sizeof(((struct lk__facts *)0)->member)
	{"lockkeeper-nothing", NULL, SET_BY(set_any)}, /* before those that depend on it */
	{"maxmemory", "maxmemory", NUMBER(memory_limit)},
	{"maxmemory-policy", "maxmemory_policy", TEXT(policy)},
	{"save", NULL, SET_BY(set_snapshots)},
	{"appendonly", "aof_enabled", SET_BY(set_append)},
	{"appendfsync", NULL, TEXT(fsync)},
	{"min-replicas-to-write", NULL, NUMBER(min_replicas)},
	{"min-replicas-max-lag", NULL, NUMBER(lag_s)},
	{"timeout", NULL, NUMBER(timeout_s)},
	{"client-output-buffer-limit", NULL, SET_BY(set_buffer)},
	{"cluster-node-timeout", NULL, NUMBER(node_timeout_ms)},
	{"active-replica", NULL, SET_BY(set_active)},
	{"multi-master", NULL, SET_BY(set_active)},
	{NULL, "used_memory", NUMBER(memory_used)},
	{NULL, "connected_slaves", NUMBER(replicas)},
	{NULL, "slave_priority", NUMBER(priority)},
	{NULL, "slave_read_only", SET_BY(set_read_only)},
	{NULL, "master_link_status", SET_BY(set_step)},
	{NULL, "uptime_in_seconds", NUMBER(uptime_s)},
	{NULL, "run_id", TEXT(run_id)},
	{NULL, "master_replid", TEXT(data_id)},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static void field_set(struct lk__facts *facts, const struct field *field, const char *value)
{
	char *at = (char *)facts + field->at;
	if (field->set)
		field->set(facts, value);
	else if (field->room)
		snprintf(at, field->room, "%s", value);
	else
		lk__number_read(value, 0, INT64_MAX, (int64_t *)(void *)at);
}

void lk__facts_clear(struct lk__facts *facts)
{
	*facts = (struct lk__facts){
		.compatible = -1,
		.active = -1,
		.in_step = -1,
		.read_only = -1,
		.down_after_ms = -1,
		.slots_missing = -1,
		.lease_ms = -1,
		.snapshots = -1,
		.append = -1,
		.buffer_hard = -1,
		.buffer_soft = -1,
		.trip_best_us = -1,
		.trip_worst_us = -1,
	};
	for (size_t i = 0; i < FIELDS; i++)
		if (!fields[i].set && !fields[i].room)
			*(int64_t *)(void *)((char *)facts + fields[i].at) = -1;
}

const char *lk__facts_setting(size_t index)
{
	return index < FIELDS ? fields[index].setting : NULL;
}

/* ---- INFO ---- */

/* Copies the value behind "name:" at the start of a line; false when there is none. */
static bool info_text(const char *info, const char *name, char *text_out, size_t room)
{
	size_t size = strlen(name);
	for (const char *line = info; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, size) == 0 && line[size] == ':') {
			const char *value = line + size + 1;
			snprintf(text_out, room, "%.*s", (int)strcspn(value, "\r\n"), value);
			return true;
		}
	}
	return false;
}

static bool info_is(const char *info, const char *name, const char *value)
{
	char text[32];
	return info_text(info, name, text, sizeof(text)) && strcmp(text, value) == 0;
}

static int compatible(const char *info)
{
	char text[32];
	int64_t part[3] = {0, 0, 0};
	if (!info_text(info, "redis_version", text, sizeof(text)))
		return -1;
	const char *at = lk__number_take(text, 0, 999, &part[0]);
	at = at && *at == '.' ? lk__number_take(at + 1, 0, 999, &part[1]) : NULL;
	if (!at)
		return -1;
	if (*at == '.') /* there may be none, or a word */
		lk__number_take(at + 1, 0, 999, &part[2]);
	return (int)(part[0] * 10000 + part[1] * 100 + part[2]);
}

/* Each kind of server is known by a field of its own; Redis by having none of the others'. */
static void read_server(struct lk__facts *facts, const char *info)
{
	static const char *const kinds[][2] = {
		{"valkey_version", "valkey"}, {"dragonfly_version", "dragonfly"},
		{"garnet_version", "garnet"}, {"kvrocks_version", "kvrocks"},
		{"mvcc_depth", "keydb"},      {"redis_version", "redis"},
	};
	char program[256] = "";
	const char *server = "";
	for (size_t i = 0; !*server && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (info_text(info, kinds[i][0], facts->version, sizeof(facts->version)))
			server = kinds[i][1];
	info_text(info, "executable", program, sizeof(program));
	if (strcmp(server, "redis") == 0 && strstr(program, "keydb"))
		server = "keydb";
	if (strcmp(server, "keydb") == 0)
		info_text(info, "redis_version", facts->version, sizeof(facts->version));
	snprintf(facts->server, sizeof(facts->server), "%s", server);
	facts->compatible = compatible(info);
	facts->cluster = info_is(info, "cluster_enabled", "1") ||
			 info_is(info, "redis_mode", "cluster");
	facts->sentinel |= info_is(info, "redis_mode", "sentinel");
	facts->loading = info_is(info, "loading", "1");
	facts->disk_errors = info_is(info, "rdb_last_bgsave_status", "err") ||
			     (facts->append == 1 && info_is(info, "aof_last_write_status", "err"));
}

static void role_set(struct lk__facts *facts, const char *role)
{
	snprintf(facts->role, sizeof(facts->role), "%s", role);
}

static void read_replication(struct lk__facts *facts, const char *info)
{
	char role[24] = "", host[256] = "", port[16] = "";
	info_text(info, "role", role, sizeof(role));
	if (strcmp(role, "active-replica") == 0)
		facts->active = 1;
	if (strcmp(role, "slave") == 0)
		role_set(facts, "replica");
	else if (strcmp(role, "master") == 0 || facts->active == 1)
		role_set(facts, "master");
	if (info_text(info, "master_host", host, sizeof(host)) &&
	    info_text(info, "master_port", port, sizeof(port)))
		snprintf(facts->master, sizeof(facts->master), "%s:%s", host, port);
}

void lk__facts_read_info(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return;
	facts->has_info = true;
	for (size_t i = 0; i < FIELDS; i++) {
		char value[VALUE_SIZE];
		if (fields[i].info && info_text(reply->str, fields[i].info, value, sizeof(value)))
			field_set(facts, &fields[i], value);
	}
	read_server(facts, reply->str);
	read_replication(facts, reply->str);
}

/* ---- ROLE ---- */

void lk__facts_read_role(struct lk__facts *facts, const redisReply *reply)
{
	redisReply **part = reply->element;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
	    part[0]->type != REDIS_REPLY_STRING)
		return;
	const char *role = part[0]->str;
	if (strcmp(role, "master") == 0 || strcmp(role, "sentinel") == 0)
		role_set(facts, role);
	facts->sentinel |= strcmp(role, "sentinel") == 0;
	/* It leaves out those that are still copying the data, which INFO counts. */
	if (strcmp(role, "master") == 0 && facts->replicas < 0 && reply->elements > 2 &&
	    part[2]->type == REDIS_REPLY_ARRAY)
		facts->replicas = (int64_t)part[2]->elements;
	if (strcmp(role, "slave") != 0)
		return;
	role_set(facts, "replica");
	if (reply->elements > 2 && part[1]->type == REDIS_REPLY_STRING &&
	    part[2]->type == REDIS_REPLY_INTEGER)
		snprintf(facts->master, sizeof(facts->master), "%.255s:%lld", part[1]->str,
			 part[2]->integer);
}

/* ---- CONFIG GET ---- */

/* A server that does not know the setting answers with an empty list. */
void lk__facts_read_setting(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || facts->any_setting)
		return;
	facts->has_config = true;
	if (reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return;
	for (size_t i = 0; lk__facts_setting(i); i++)
		if (strcmp(reply->element[0]->str, fields[i].setting) == 0)
			field_set(facts, &fields[i], reply->element[1]->str);
}
