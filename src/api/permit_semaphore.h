/* SPDX-License-Identifier: MIT */
/* What the files of a permit semaphore's calls share. */
#ifndef LK__API_PERMIT_SEMAPHORE_H
#define LK__API_PERMIT_SEMAPHORE_H

#include <lockkeeper/permit_semaphore.h>

#include "api/counter.h"
#include "drive/count/permit.h"

int lk__permit_enter(struct lk__counter_call *call, lk_permit_semaphore *semaphore,
		     const char *operation, lk_error *error);

/* 0, or LK_EINVAL for what the options of an acquire say. */
int lk__permits_check(const char *operation, const lk_permit_semaphore *semaphore, int64_t count,
		      const lk_acquire_options *options, lk_error *error);

/* 0, or LK_EINVAL for what is not an id. */
int lk__permit_check_id(const char *operation, const char *id, lk_error *error);

/* The same for the arguments of a release. */
int lk__permits_check_ids(const char *operation, const lk_permit *permits, int64_t count,
			  lk_error *error);

#endif
