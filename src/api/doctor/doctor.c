/* SPDX-License-Identifier: MIT */
/* The public face of the doctor: asks each node, judges all, and keeps the report. */
#include <lockkeeper/doctor.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/red_lock.h>

#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/doctor/facts.h"
#include "api/doctor/findings.h"
#include "api/lock_handle.h"
#include "base/fail.h"
#include "conf/config.h"

#define OPERATION "lk_doctor_new"
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
	lk__examined_free(&doctor->examined);
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
	rc = lk__examine(&doctor->examined, clients, count, key, size, error);
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
