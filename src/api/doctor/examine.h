/* SPDX-License-Identifier: MIT */
/*
 * The examination: which servers there are, and what each of them is.
 *
 * Of a client's deployment, the servers that have locks are asked through the client. Their
 * replicas, of which one may have them next, are asked through clients of their own, and sentinels
 * through a link.
 */
#ifndef LK__API_DOCTOR_EXAMINE_H
#define LK__API_DOCTOR_EXAMINE_H

#include "api/doctor/facts.h"
#include "conf/url.h"

#define LK__PLACES_MORE_MAX 64 /* replicas, and sentinels, of one deployment */

struct lk__places {
	size_t count;
	char name[LK__PLACES_MORE_MAX][LK__PLACE_SIZE]; /* host:port */
};

/* Adds what is not there yet, as long as there is room. */
void lk__places_add(struct lk__places *places, const char *name);

/* Asks all. `name`: of a lock, without the prefix. A node that cannot be asked is not a failure.
 * LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EFORKED, with `examined` to be freed all the same. */
int lk__examine(struct lk__examined *examined, lk_client *const *clients, size_t count,
		const char *name, size_t name_size, lk_error *error);

void lk__examined_free(struct lk__examined *examined);

/* Asks the sentinel at `place` about the master of the client, and adds the replicas and the
 * sentinels that it knows. Its facts but for part and `of`. LK_ENOMEM, LK_ESYSTEM. */
int lk__sentinel_examine(struct lk__facts *facts, const struct lk_config *config, const char *place,
			 struct lk__places *replicas, struct lk__places *sentinels,
			 lk_error *error);

/* Asks the sentinel at `place` only how long it waits until it calls the master down; 0: it does
 * not say. Each step takes `limit_ms` at most. Returns 0, or the code of the failure. */
int lk__sentinel_pace(const struct lk_config *config, const char *place, int64_t limit_ms,
		      int64_t *down_after_ms_out);

#endif
