/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <inttypes.h>

#include "clock.h"
#include "message.h"

#define NS_PER_US 1000

static int64_t began_ns;

/* On any thread: a message is one write. */
static void log_take(void *context, int level, const char *line)
{
	int64_t since_us = (clock_now_ns() - began_ns) / NS_PER_US;
	(void)context;
	message_at(level, "%" PRId64 ".%06" PRId64 " %s", since_us / 1000000, since_us % 1000000,
		   line);
}

void log_begin(lk_config *config, int verbose)
{
	if (verbose < 2)
		return;
	began_ns = clock_now_ns();
	lk_config_set_log(config, LK_LOG_DEBUG, log_take, NULL);
}
