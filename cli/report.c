/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>

#include "clock.h"
#include "message.h"

static int64_t since_ms(int64_t began_ns)
{
	return (clock_now_ns() - began_ns) / NS_PER_MS;
}

void report_begin(struct report *report, const char *name, int verbose)
{
	*report = (struct report){verbose, name, clock_now_ns(), 0};
}

void report_acquired(struct report *report)
{
	report->held_ns = clock_now_ns();
	if (report->verbose)
		message("acquired %.200s after %" PRId64 " ms", report->name,
			since_ms(report->began_ns));
}

void report_owner(const struct report *report, const char *owner, const lk_client *client)
{
	if (report->verbose && *owner)
		message("owner of %.200s: %s", report->name, owner);
	else if (report->verbose)
		message("owner of %.200s: client %s", report->name, lk_client_id(client));
}

void report_missed(const struct report *report)
{
	if (report->verbose)
		message("waited %" PRId64 " ms for %.200s, in vain", since_ms(report->began_ns),
			report->name);
}

void report_held(const struct report *report)
{
	if (report->verbose && report->held_ns)
		message("held %.200s for %" PRId64 " ms", report->name, since_ms(report->held_ns));
}

void report_released(const struct report *report, int64_t kept_ms)
{
	if (report->verbose && kept_ms)
		message("%.200s stays locked for another %" PRId64 " ms", report->name, kept_ms);
	else if (report->verbose)
		message("released %.200s", report->name);
}
