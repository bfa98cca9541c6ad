/* SPDX-License-Identifier: MIT */
#include "api/doctor/asking.h"

#include <stdio.h>

#include "base/clock.h"
#include "conf/config.h"

static int asking_wait(const struct lk__asking *asking, int64_t until_ns)
{
	struct lk__readiness waits = lk__link_waits(&asking->link);
	if (until_ns < waits.until_ns)
		waits.until_ns = until_ns;
	int status = lk__socket_wait(&waits, -1);
	return status == 0 || lk__now_ns() < until_ns ? 0 : status;
}

int lk__asking_open(struct lk__asking *asking, struct lk_config *config)
{
	lk_error error = {0};
	int64_t until_ns = lk__after_ms(lk__now_ns(), config->connect_timeout_ms);
	int rc = lk__link_open(&asking->link, config, until_ns, &error);
	while (rc == 0 && (rc = lk__link_step(&asking->link, &error)) == 0)
		asking_wait(asking, lk__after_ms(until_ns, 1)); /* the link itself has a limit */
	snprintf(asking->reason, sizeof(asking->reason), "%.255s", error.message);
	return rc > 0 ? 0 : rc;
}

redisReply *lk__asking_ask(struct lk__asking *asking, size_t argc, const char **argv, int *code_out)
{
	int64_t until_ns = lk__after_ms(lk__now_ns(), asking->limit_ms);
	redisReply *reply = NULL;
	const char *what;
	int rc = lk__link_say(&asking->link, "", argc, argv);
	while (rc == 0 && (rc = lk__link_next(&asking->link, &reply, &what, asking->reason,
					      sizeof(asking->reason))) == 0)
		if (asking_wait(asking, until_ns) < 0) {
			snprintf(asking->reason, sizeof(asking->reason),
				 "no answer within the command limit");
			rc = LK_EUNREACHABLE;
		}
	*code_out = rc;
	return rc == 1 ? reply : NULL;
}
