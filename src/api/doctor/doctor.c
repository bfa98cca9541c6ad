/* SPDX-License-Identifier: MIT */
/* The public face of the doctor: asks each node, judges all, and keeps the report. */
#include <lockkeeper/doctor.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/red_lock.h>

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/doctor/findings.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "conf/config.h"

#define OPERATION "lk_doctor_new"
#define NAME_DEFAULT "lockkeeper-doctor"

struct lk_doctor {
	bool quorum; /* else one server, or the masters of a cluster */
	size_t node_count;
	struct lk__facts *facts;
	lk_doctor_node *nodes;
	struct lk__findings findings;
	lk_finding *told;
	char promise[320];
};

lk_doctor *lk_doctor_free(lk_doctor *doctor)
{
	if (!doctor)
		return NULL;
	for (size_t i = 0; doctor->facts && i < doctor->node_count; i++)
		free(doctor->facts[i].url);
	free(doctor->facts);
	free(doctor->nodes);
	free(doctor->findings.list);
	free(doctor->told);
	free(doctor);
	return NULL;
}

static lk_doctor *doctor_make(size_t count)
{
	lk_doctor *doctor = calloc(1, sizeof(*doctor));
	if (!doctor)
		return NULL;
	doctor->node_count = count;
	doctor->facts = calloc(count, sizeof(*doctor->facts));
	doctor->nodes = calloc(count, sizeof(*doctor->nodes));
	return doctor->facts && doctor->nodes ? doctor : lk_doctor_free(doctor);
}

static int ask_node(struct lk__facts *facts, struct lk__asked *asked, const char *name,
		    size_t name_size, lk_error *error)
{
	const char *prefix = asked->client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	int saved, rc = lk__enter(asked->client, OPERATION, &asked->thread, &saved, error);
	if (rc < 0)
		return rc;
	char *key = malloc(prefix_size + name_size + 1);
	if (key) {
		char *end = mempcpy(key, prefix, prefix_size);
		end = mempcpy(end, name, name_size);
		*end = '\0';
		rc = lk__facts_ask(facts, asked, key, prefix_size + name_size, error);
	} else {
		rc = lk__fail(error, LK_ENOMEM, OPERATION ": out of memory");
	}
	free(key);
	lk__leave(saved);
	return rc;
}

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

static struct lk__node *node_of(lk_client *client, size_t index)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *keeper = topo->ops->keeper_at(topo, index);
	return keeper ? keeper : topo->ops->node_at(topo, 0);
}

static int ask_nodes(lk_doctor *doctor, lk_client *const *clients, const char *name,
		     size_t name_size, lk_error *error)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < doctor->node_count; i++) {
		lk_client *client = clients[doctor->quorum ? i : 0];
		struct lk__asked asked = {.client = client,
					  .node = node_of(client, doctor->quorum ? 0 : i)};
		rc = ask_node(&doctor->facts[i], &asked, name, name_size, error);
	}
	return rc;
}

static void tell_nodes(lk_doctor *doctor)
{
	for (size_t i = 0; i < doctor->node_count; i++) {
		const struct lk__facts *facts = &doctor->facts[i];
		doctor->nodes[i] = (lk_doctor_node){
			.url = facts->url,
			.server = facts->server,
			.version = facts->version,
			.role = facts->sentinel ? "sentinel" : facts->role,
			.round_trip_us = facts->trip_best_us,
			.clock_ahead_us = facts->clock_ahead_us,
		};
	}
}

/* False: out of memory. */
static bool tell_findings(lk_doctor *doctor)
{
	const struct lk__findings *findings = &doctor->findings;
	doctor->told = calloc(findings->count + 1, sizeof(*doctor->told));
	if (!doctor->told || findings->incomplete)
		return false;
	for (size_t i = 0; i < findings->count; i++) {
		const struct lk__found_at *found = &findings->list[i];
		const lk_finding_info *info = lk_finding_at(found->what);
		bool together = found->node == LK__TOGETHER;
		doctor->told[i] = (lk_finding){
			.id = info->id,
			.severity = info->severity,
			.node = together ? "" : doctor->facts[found->node].url,
			.detail = found->detail,
			.meaning = info->meaning,
			.remedy = info->remedy,
		};
	}
	return true;
}

static int check_arguments(lk_client *const *clients, size_t count, const char *name, size_t *size,
			   lk_error *error)
{
	if (!clients)
		return lk__fail(error, LK_EINVAL, OPERATION ": an argument is NULL");
	int rc = lk__check_range(OPERATION, "count", (int64_t)count, 1, LK_RED_NODES_MAX, error);
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
	size_t nodes = count;
	if (count == 1 && clients[0]->topo->slotted)
		rc = masters_count(clients[0], &nodes, error);
	if (rc < 0)
		return rc;
	lk_doctor *doctor = doctor_make(nodes);
	if (!doctor)
		return lk__fail(error, LK_ENOMEM, OPERATION ": out of memory");
	doctor->quorum = count > 1;
	rc = ask_nodes(doctor, clients, key, size, error);
	if (rc == 0) {
		lk__judge(&doctor->findings, doctor->facts, nodes, doctor->quorum);
		lk__promise(&doctor->findings, doctor->facts, nodes, doctor->quorum,
			    doctor->promise, sizeof(doctor->promise));
		tell_nodes(doctor);
		if (!tell_findings(doctor))
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
	return index < doctor->findings.count ? &doctor->told[index] : NULL;
}

const lk_doctor_node *lk_doctor_node_at(const lk_doctor *doctor, size_t index)
{
	return index < doctor->node_count ? &doctor->nodes[index] : NULL;
}

int lk_doctor_worst(const lk_doctor *doctor)
{
	return doctor->findings.count ? doctor->told[0].severity : LK_SEVERITY_NOTE;
}

const char *lk_doctor_promise(const lk_doctor *doctor)
{
	return doctor->promise;
}
