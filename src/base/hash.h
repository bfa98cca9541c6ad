/* SPDX-License-Identifier: MIT */
/*
 * uthash, told not to end the process when memory runs out: an add that failed leaves the
 * element's hh.tbl NULL and the table as it was.
 */
#ifndef LK__BASE_HASH_H
#define LK__BASE_HASH_H

#define HASH_NONFATAL_OOM 1

#include <uthash.h>

#endif
