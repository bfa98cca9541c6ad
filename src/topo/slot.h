/* SPDX-License-Identifier: MIT */
/* Which of a cluster's slots a key is in: "Keys distribution model" of the Redis Cluster
 * specification. */
#ifndef LK__TOPO_SLOT_H
#define LK__TOPO_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define LK__SLOTS 16384

/* Of a key with a hash tag, what stands between the first "{" and the next "}" decides, unless that
 * is nothing. */
uint16_t lk__slot_of(const void *key, size_t size);

#endif
