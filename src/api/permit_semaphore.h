/* SPDX-License-Identifier: MIT */
/* The handle of a permit semaphore, for the two files of its calls. */
#ifndef LK__API_PERMIT_SEMAPHORE_H
#define LK__API_PERMIT_SEMAPHORE_H

#include <lockkeeper/permit_semaphore.h>

#include "api/counter.h"
#include "drive/permit.h"

struct lk_permit_semaphore {
	struct lk__counter *counter; /* with the entry of the wait queue */
};

int lk__permit_enter(struct lk__counter_call *call, lk_permit_semaphore *semaphore,
		     const char *operation, lk_error *error);

/* 0, or LK_EINVAL for what is no id. */
int lk__permit_check_id(const char *operation, const char *id, lk_error *error);

#endif
