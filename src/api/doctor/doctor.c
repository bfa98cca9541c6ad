/* SPDX-License-Identifier: MIT */
/* The public face of the doctor: finds and asks each node, has all judged, and keeps the report. */
#include <lockkeeper/client.h>
#include <lockkeeper/doctor.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/red_lock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/doctor/facts.h"
#include "api/doctor/findings.h"
#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "resp/reply.h"

#define OPERATION "lk_doctor_new"

static void places_add_all(struct lk__places *places, const char *list)
{
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	int port;
	while ((list = lk__place_next(list, host, &port))) {
		lk__place_name(name, host, port);
		lk__places_add(places, name);
	}
}

/* An examination: what is examined, for whom. */
struct examination {
	struct lk__examined *examined;
	lk_client *const *clients;
	const char *name; /* of a lock, without the prefix */
	size_t name_size;
	lk_error *error;
};

static int no_memory(const struct examination *it)
{
	return lk__fail(it->error, LK_ENOMEM, OPERATION ": out of memory");
}

/* The client that leads to one of those that have locks, and its node there. Each has a client of
 * its own, but for the masters of a cluster. */
static lk_client *client_of(const struct examination *it, size_t own)
{
	return it->clients[it->examined->quorum ? own : 0];
}

static struct lk__node *node_at(lk_client *client, size_t index)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *keeper = topo->ops->keeper_at(topo, index);
	return keeper ? keeper : topo->ops->node_at(topo, 0);
}

static struct lk__node *node_of(const struct examination *it, size_t own)
{
	return node_at(client_of(it, own), it->examined->quorum ? 0 : own);
}

/* Adds a node, of which nothing is known. NULL: out of memory. */
static struct lk__facts *node_add(struct lk__examined *examined, enum lk__part part, size_t of)
{
	size_t size = (examined->count + 1) * sizeof(*examined->nodes);
	struct lk__facts *nodes = realloc(examined->nodes, size);
	if (!nodes)
		return NULL;
	examined->nodes = nodes;
	struct lk__facts *facts = &nodes[examined->count++];
	lk__facts_clear(facts);
	facts->part = part;
	facts->of = of;
	return facts;
}

static void examined_free(struct lk__examined *examined)
{
	for (size_t i = 0; i < examined->count; i++)
		free(examined->nodes[i].url);
	free(examined->nodes);
	*examined = (struct lk__examined){.nodes = NULL};
}

/* ---- one server ---- */

static int ask_node(const struct examination *it, struct lk__facts *facts, struct lk__asked *asked)
{
	int saved, rc = lk__enter(asked->client, OPERATION, &asked->thread, &saved, it->error);
	if (rc < 0)
		return rc;
	char *key = lk__key_new(asked->client, it->name, it->name_size, &asked->key_size);
	asked->key = key;
	asked->what = "examine";
	rc = key ? lk__facts_ask(facts, asked, it->error) : no_memory(it);
	free(key);
	lk__leave(saved);
	return rc;
}

/* ---- those that have locks ---- */

/* The masters of a cluster are known when one of its nodes has been reached. None: that node. */
static int masters_count(lk_client *client, size_t *count_out, lk_error *error)
{
	struct lk__topo *topo = client->topo;
	struct lk__asked asked = {.client = client, .node = topo->ops->node_at(topo, 0)};
	lk_error why;
	int saved, rc = lk__enter(client, OPERATION, &asked.thread, &saved, error);
	if (rc < 0)
		return rc;
	lk__facts_connect(&asked, &why);
	lk__leave(saved);
	for (*count_out = 0; topo->ops->keeper_at(topo, *count_out);)
		++*count_out;
	*count_out += *count_out == 0;
	return 0;
}

/* Looks at slots that no master has: any node of the cluster can be asked, so the first one is. */
static void look_at_slots(struct lk__facts *facts, struct lk__topo *topo)
{
	const struct lk__node *any = topo->ops->node_at(topo, 0);
	if (!topo->slotted || !topo->ops->keeper_at(topo, 0))
		return;
	facts->slots_missing = 0;
	for (int slot = LK__SLOTS; slot-- > 0;)
		if (topo->ops->node_of(topo, (uint16_t)slot) == any) {
			facts->slots_missing++;
			facts->slot_missing = slot;
		}
}

static int ask_own(const struct examination *it, size_t own)
{
	struct lk__facts *facts = node_add(it->examined, LK__PART_OWN, own);
	lk_client *client = client_of(it, own);
	struct lk__asked asked = {
		.client = client, .node = node_of(it, own), .serves = client->config};
	if (!facts)
		return no_memory(it);
	it->examined->own = it->examined->count;
	int rc = ask_node(it, facts, &asked);
	if (it->examined->quorum || own == 0)
		look_at_slots(facts, client->topo);
	return rc;
}

/* ---- replicas ---- */

/* A copy of the configuration that leads to that one server. NULL: out of memory. */
static struct lk_config *config_to(const struct lk_config *config, const char *place)
{
	const char *scheme = config->scheme == LK__SCHEME_TLS ? "rediss" : "redis";
	struct lk_config *to = lk__config_copy(config);
	char *url = NULL;
	if (!to || lk__config_point(to, place) < 0 || asprintf(&url, "%s://%s", scheme, place) < 0)
		return lk_config_free(to);
	lk__text_wipe(to->url);
	to->url = url;
	to->deployment = LK__SINGLE;
	*to->places = *to->master = '\0';
	bool made = lk_config_set(to, "replica_acks", "0", NULL) == 0 &&
		    lk_config_set(to, "fsync_acks", "off", NULL) == 0 &&
		    lk_config_set(to, "messages", "plain", NULL) == 0;
	return made ? to : lk_config_free(to);
}

/* A listed server may be the master under another name. */
static void drop_master(struct lk__examined *examined)
{
	struct lk__facts *last = &examined->nodes[examined->count - 1];
	const char *master = examined->nodes[last->of].run_id;
	if (!*master || strcmp(last->run_id, master) != 0)
		return;
	free(last->url);
	examined->count--;
}

static int ask_replica(const struct examination *it, size_t of, const char *place)
{
	const lk_client *client = client_of(it, of);
	struct lk__facts *facts = node_add(it->examined, LK__PART_REPLICA, of);
	struct lk_config *config = facts ? config_to(client->config, place) : NULL;
	struct lk__asked asked = {.client = NULL, .serves = client->config};
	int rc = config ? lk_client_new(&asked.client, config, it->error) : no_memory(it);
	if (rc == 0) {
		asked.node = node_at(asked.client, 0);
		rc = ask_node(it, facts, &asked);
		facts->deployment = client->config->deployment;
		facts->cluster = facts->cluster && !client->topo->slotted; /* else it was named */
		drop_master(it->examined);
	}
	lk_client_free(asked.client);
	lk_config_free(config);
	return rc;
}

/* "slave0:ip=10.0.0.2,port=6379,state=online,offset=…", one line a replica. */
static void replicas_read(struct lk__places *places, const char *info)
{
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	for (const char *line = info; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		int64_t number, port;
		int size = 0;
		const char *at = strncmp(line, "slave", 5) == 0
					 ? lk__number_take(line + 5, 0, INT32_MAX, &number)
					 : NULL;
		if (!at || sscanf(at, ":ip=%250[^,],port=%n", host, &size) != 1 || size == 0 ||
		    !lk__number_take(at + size, 1, 65535, &port))
			continue;
		lk__place_name(name, host, (int)port);
		lk__places_add(places, name);
	}
}

/* Adds the replicas that the master says it has. */
static int replicas_of(const struct examination *it, size_t of, struct lk__places *places)
{
	struct lk__asked asked = {
		.client = client_of(it, of), .node = node_of(it, of), .what = "examine"};
	lk_error own;
	int saved, rc = lk__enter(asked.client, OPERATION, &asked.thread, &saved, it->error);
	if (rc < 0)
		return rc;
	struct lk__request *request = lk__asked_say(&asked, LK__SAY("INFO", "replication"), &rc,
						    &own);
	if (request && request->reply->type == REDIS_REPLY_STRING)
		replicas_read(places, request->reply->str);
	lk__request_free(request);
	lk__leave(saved);
	return 0;
}

/* ---- all of a deployment ---- */

/* More sentinels become known while they are asked. */
static int ask_sentinels(const struct examination *it, size_t of, struct lk__places *replicas)
{
	const struct lk_config *config = client_of(it, of)->config;
	struct lk__places *sentinels = calloc(1, sizeof(*sentinels));
	int rc = sentinels ? 0 : no_memory(it);
	if (sentinels)
		places_add_all(sentinels, config->places);
	for (size_t i = 0; rc == 0 && i < sentinels->count; i++) {
		struct lk__facts *facts = node_add(it->examined, LK__PART_SENTINEL, of);
		rc = facts ? lk__sentinel_examine(facts, config, sentinels->name[i], replicas,
						  sentinels, it->error)
			   : no_memory(it);
	}
	free(sentinels);
	return rc;
}

static int ask_others(const struct examination *it, size_t of)
{
	const struct lk_config *config = client_of(it, of)->config;
	char place[LK__CONN_PLACE_SIZE];
	struct lk__places *replicas = calloc(1, sizeof(*replicas));
	int rc = replicas ? 0 : no_memory(it);
	if (rc == 0 && config->deployment == LK__SENTINEL)
		rc = ask_sentinels(it, of, replicas);
	else if (rc == 0 && config->deployment == LK__REPLICAS)
		places_add_all(replicas, config->places);
	else if (rc == 0 && it->examined->nodes[of].code == 0)
		rc = replicas_of(it, of, replicas);
	lk__conn_place(lk__node_scripts(node_of(it, of)), place);
	for (size_t i = 0; rc == 0 && i < replicas->count; i++)
		if (strcmp(replicas->name[i], place) != 0)
			rc = ask_replica(it, of, replicas->name[i]);
	free(replicas);
	return rc;
}

/* Asks all. `name`: of a lock, without the prefix. A node that cannot be asked is not a failure.
 * LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EFORKED, with `examined` to be freed all the same. */
static int examine(struct lk__examined *examined, lk_client *const *clients, size_t count,
		   const char *name, size_t name_size, lk_error *error)
{
	const struct examination it = {examined, clients, name, name_size, error};
	size_t nodes = count;
	int rc = 0;
	*examined = (struct lk__examined){.quorum = count > 1};
	if (count == 1 && clients[0]->topo->slotted)
		rc = masters_count(clients[0], &nodes, error);
	for (size_t i = 0; rc == 0 && i < nodes; i++)
		rc = ask_own(&it, i);
	for (size_t i = 0; rc == 0 && i < nodes; i++)
		if (client_of(&it, i)->config->deployment != LK__SINGLE)
			rc = ask_others(&it, i);
	return rc;
}

/* ---- the report ---- */

#define NAME_DEFAULT "lockkeeper-doctor"

struct lk_doctor {
	struct lk__examined examined;
	struct lk__findings findings;
	char promise[320];
};

lk_doctor *lk_doctor_free(lk_doctor *doctor)
{
	if (!doctor)
		return NULL;
	examined_free(&doctor->examined);
	free(doctor->findings.list);
	free(doctor);
	return NULL;
}

/* Nothing moves any more that the public structs point to. */
static void tell(lk_doctor *doctor)
{
	struct lk__facts *nodes = doctor->examined.nodes;
	for (struct lk__facts *facts = nodes; facts < nodes + doctor->examined.count; facts++)
		facts->told = (lk_doctor_node){
			.url = facts->url,
			.server = facts->server,
			.version = facts->version,
			.role = facts->sentinel ? "sentinel" : facts->role,
			.round_trip_us = facts->trip_best_us,
			.clock_ahead_us = facts->clock_ahead_us,
		};
	for (size_t i = 0; i < doctor->findings.count; i++) {
		struct lk__found_at *found = &doctor->findings.list[i];
		const lk_finding_info *info = lk_finding_at(found->what);
		found->told = (lk_finding){
			.id = info->id,
			.severity = info->severity,
			.node = found->node == LK__TOGETHER ? "" : nodes[found->node].url,
			.detail = found->detail,
			.meaning = info->meaning,
			.remedy = info->remedy,
		};
	}
}

static int check_arguments(lk_client *const *clients, size_t count, const char *name, size_t *size,
			   lk_error *error)
{
	if (!clients)
		return lk__fail(error, LK_EINVAL, OPERATION ": an argument is NULL");
	int rc = LK__CHECK(OPERATION, error, {LK__SERVERS, (int64_t)count});
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = lk__name_check(clients[i], name, size, OPERATION, error);
	return rc;
}

int lk_doctor_new(lk_doctor **doctor_out, lk_client *const *clients, size_t count, const void *name,
		  size_t name_size, lk_error *error)
{
	const char *key = name ? name : NAME_DEFAULT;
	size_t size = name ? name_size : strlen(NAME_DEFAULT);
	int rc = doctor_out ? check_arguments(clients, count, key, &size, error)
			    : lk__fail(error, LK_EINVAL, OPERATION ": an argument is NULL");
	if (rc < 0)
		return rc;
	lk_doctor *doctor = calloc(1, sizeof(*doctor));
	if (!doctor)
		return lk__fail(error, LK_ENOMEM, OPERATION ": out of memory");
	rc = examine(&doctor->examined, clients, count, key, size, error);
	if (rc == 0) {
		lk__judge(&doctor->findings, &doctor->examined);
		lk__promise(&doctor->findings, &doctor->examined, doctor->promise,
			    sizeof(doctor->promise));
		tell(doctor);
		if (doctor->findings.incomplete)
			rc = lk__fail(error, LK_ENOMEM, OPERATION ": out of memory");
	}
	if (rc == 0)
		*doctor_out = doctor;
	else
		lk_doctor_free(doctor);
	return rc;
}

const lk_finding *lk_doctor_finding(const lk_doctor *doctor, size_t index)
{
	return index < doctor->findings.count ? &doctor->findings.list[index].told : NULL;
}

const lk_doctor_node *lk_doctor_node_at(const lk_doctor *doctor, size_t index)
{
	return index < doctor->examined.count ? &doctor->examined.nodes[index].told : NULL;
}

int lk_doctor_worst(const lk_doctor *doctor)
{
	return doctor->findings.count ? doctor->findings.list[0].told.severity : LK_SEVERITY_NOTE;
}

const char *lk_doctor_promise(const lk_doctor *doctor)
{
	return doctor->promise;
}
