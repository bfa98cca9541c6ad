/* SPDX-License-Identifier: MIT */
#include "server_look.h"

#include <string.h>

#include "clock.h"

/* Asks the doctor; what it found before stays where it cannot be asked now. */
static void examine(struct server_look *look)
{
	lk_doctor *doctor = NULL;
	lk_error error = {0};
	if (look->examined_ns &&
	    clock_now_ns() - look->examined_ns < EXAMINATION_KEPT_MS * NS_PER_MS)
		return;
	if (lk_doctor_new(&doctor, &look->client, 1, NULL, 0, &error) == 0) {
		lk_doctor_free(look->doctor);
		look->doctor = doctor;
	}
	look->examined_ns = clock_now_ns();
}

int server_look(struct server_look *look)
{
	int64_t begun_ns = clock_now_ns();
	if (look->looked_ns && begun_ns - look->looked_ns < LOOK_KEPT_MS * NS_PER_MS)
		return look->error.code;
	look->error = (lk_error){0};
	if (lock_rows_read(&look->rows, look->client, &look->wanted, &look->error) == 0) {
		look->took_ms = (clock_now_ns() - begun_ns) / NS_PER_MS;
		examine(look);
	}
	look->looked_ns = clock_now_ns();
	return look->error.code;
}

void server_look_free(struct server_look *look)
{
	lock_rows_free(&look->rows);
	look->doctor = lk_doctor_free(look->doctor);
}

static void row_add(struct server_sums *sums, const struct lock_row *row)
{
	int is_permits = strcmp(row->type, "permit semaphore") == 0;
	sums->foreign += row->is_foreign;
	sums->contended += row->waiters > 0;
	sums->waiting += row->waiters;
	sums->without_lease += row->holders > 0 && row->ttl_ms < 0;
	sums->permits_used += is_permits ? (int64_t)row->holders : 0;
	sums->permits_free += is_permits ? row->count : 0;
	if (row->holders > 0 && (!sums->oldest_ns || row->since_ns < sums->oldest_ns))
		sums->oldest_ns = row->since_ns;
}

void server_sum(const struct server_look *look, struct server_sums *sums_out)
{
	const lk_finding *finding;
	*sums_out = (struct server_sums){0};
	for (size_t i = 0; i < look->rows.count; i++)
		row_add(sums_out, &look->rows.rows[i]);
	for (size_t i = 0; look->doctor && (finding = lk_doctor_finding(look->doctor, i)); i++)
		if (finding->severity >= 0 && finding->severity < SEVERITIES)
			sums_out->findings[finding->severity]++;
}
