/* SPDX-License-Identifier: MIT */
/* What the answers to INFO, ROLE and CONFIG GET say. What they leave out stays unknown. */
#include <stdio.h>
#include <string.h>

#include "api/doctor/facts.h"

#include "resp/number.h"

void lk__facts_clear(struct lk__facts *facts)
{
	*facts = (struct lk__facts){
		.compatible = -1,
		.replicas = -1,
		.active = -1,
		.in_step = -1,
		.read_only = -1,
		.priority = -1,
		.down_after_ms = -1,
		.node_timeout_ms = -1,
		.slots_missing = -1,
		.lease_ms = -1,
		.memory_limit = -1,
		.memory_used = -1,
		.snapshots = -1,
		.append = -1,
		.min_replicas = -1,
		.lag_s = -1,
		.timeout_s = -1,
		.uptime_s = -1,
		.buffer_hard = -1,
		.buffer_soft = -1,
		.trip_best_us = -1,
		.trip_worst_us = -1,
	};
}

static void role_set(struct lk__facts *facts, const char *role)
{
	snprintf(facts->role, sizeof(facts->role), "%s", role);
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

static int64_t info_number(const char *info, const char *name)
{
	char text[24];
	int64_t number = -1;
	if (info_text(info, name, text, sizeof(text)))
		lk__number_read(text, 0, INT64_MAX, &number);
	return number;
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
	info_text(info, "run_id", facts->run_id, sizeof(facts->run_id));
	facts->uptime_s = info_number(info, "uptime_in_seconds");
	facts->cluster = info_is(info, "cluster_enabled", "1") ||
			 info_is(info, "redis_mode", "cluster");
	facts->sentinel |= info_is(info, "redis_mode", "sentinel");
	facts->loading = info_is(info, "loading", "1");
}

/* Of a replica: whether it has what its master has. */
static void read_step(struct lk__facts *facts, const char *info)
{
	char link[16];
	if (info_text(info, "master_link_status", link, sizeof(link)))
		facts->in_step = strcmp(link, "up") == 0;
	if (info_number(info, "slave_read_only") >= 0)
		facts->read_only = info_is(info, "slave_read_only", "1");
	facts->priority = info_number(info, "slave_priority");
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
	info_text(info, "master_replid", facts->data_id, sizeof(facts->data_id));
	facts->replicas = info_number(info, "connected_slaves");
	read_step(facts, info);
}

/* Also what CONFIG GET tells, for servers that refuse that. */
static void read_storage(struct lk__facts *facts, const char *info)
{
	int64_t append = info_number(info, "aof_enabled");
	if (append >= 0)
		facts->append = append != 0;
	facts->memory_limit = info_number(info, "maxmemory");
	facts->memory_used = info_number(info, "used_memory");
	info_text(info, "maxmemory_policy", facts->policy, sizeof(facts->policy));
	facts->disk_errors = info_is(info, "rdb_last_bgsave_status", "err") ||
			     (append == 1 && info_is(info, "aof_last_write_status", "err"));
}

void lk__facts_read_info(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return;
	facts->has_info = true;
	read_server(facts, reply->str);
	read_replication(facts, reply->str);
	read_storage(facts, reply->str);
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

static void set_policy(struct lk__facts *facts, const char *value)
{
	snprintf(facts->policy, sizeof(facts->policy), "%s", value);
}

static void set_memory_limit(struct lk__facts *facts, const char *value)
{
	lk__number_read(value, 0, INT64_MAX, &facts->memory_limit);
}

static void set_snapshots(struct lk__facts *facts, const char *value)
{
	facts->snapshots = *value != '\0';
}

static void set_append(struct lk__facts *facts, const char *value)
{
	facts->append = strcmp(value, "yes") == 0;
}

static void set_fsync(struct lk__facts *facts, const char *value)
{
	snprintf(facts->fsync, sizeof(facts->fsync), "%s", value);
}

static void set_min_replicas(struct lk__facts *facts, const char *value)
{
	lk__number_read(value, 0, INT64_MAX, &facts->min_replicas);
}

static void set_lag(struct lk__facts *facts, const char *value)
{
	lk__number_read(value, 0, INT64_MAX, &facts->lag_s);
}

static void set_timeout(struct lk__facts *facts, const char *value)
{
	lk__number_read(value, 0, INT64_MAX, &facts->timeout_s);
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

static void set_node_timeout(struct lk__facts *facts, const char *value)
{
	lk__number_read(value, 0, INT64_MAX, &facts->node_timeout_ms);
}

/* A name that no server has. */
static void set_any(struct lk__facts *facts, const char *value)
{
	(void)value;
	facts->any_setting = true;
	facts->has_config = false;
}

/* Of KeyDB alone, whose INFO looks like that of Redis. */
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

static const struct {
	const char *name;
	void (*set)(struct lk__facts *facts, const char *value);
} settings[] = {
	{"lockkeeper-nothing", set_any}, /* before those that depend on it */
	{"maxmemory", set_memory_limit},
	{"maxmemory-policy", set_policy},
	{"save", set_snapshots},
	{"appendonly", set_append},
	{"appendfsync", set_fsync},
	{"min-replicas-to-write", set_min_replicas},
	{"min-replicas-max-lag", set_lag},
	{"timeout", set_timeout},
	{"client-output-buffer-limit", set_buffer},
	{"cluster-node-timeout", set_node_timeout},
	{"active-replica", set_active},
	{"multi-master", set_active},
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

const char *lk__facts_setting(size_t index)
{
	return index < SETTINGS ? settings[index].name : NULL;
}

/* A server that does not know the setting answers with an empty list. */
void lk__facts_read_setting(struct lk__facts *facts, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || facts->any_setting)
		return;
	facts->has_config = true;
	if (reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return;
	for (size_t i = 0; i < SETTINGS; i++)
		if (strcmp(reply->element[0]->str, settings[i].name) == 0)
			settings[i].set(facts, reply->element[1]->str);
}
