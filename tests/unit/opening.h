/* SPDX-License-Identifier: MIT */
/* Opens a stream in the calling thread: all steps, and waits between them. */
#ifndef LK__UNIT_OPENING_H
#define LK__UNIT_OPENING_H

#include <errno.h>

#include "base/fail.h"
#include "conf/config.h"
#include "net/stream.h"

/* Ends early with LK_ECANCELLED when `cancel_fd` (-1: none) becomes readable. */
static inline int open_stream(struct lk__stream **stream_out, struct lk_config *config,
			      int64_t deadline_ns, int cancel_fd, lk_error *error)
{
	struct lk__opening *opening = lk__opening_new(config, deadline_ns);
	struct lk__readiness readiness;
	int rc;
	while ((rc = lk__opening_step(opening, stream_out, &readiness, error)) == 0) {
		int status = lk__socket_wait(&readiness, cancel_fd);
		if (status == -ECANCELED)
			rc = lk__fail(error, LK_ECANCELLED, "cancelled");
		else if (status != 0 && status != -ETIMEDOUT)
			rc = lk__fail_errno(error, LK_ESYSTEM, -status, "wait");
		if (rc < 0)
			break;
	}
	lk__opening_free(opening);
	return rc < 0 ? rc : 0;
}

#endif
