/* SPDX-License-Identifier: MIT */
#include "drive/entry/spares.h"

#include <assert.h>
#include <stdlib.h>

#include "drive/entry/entry.h"

#define SPARES 2 /* kept ready by an entry: for a hold that goes, and for a try */

bool lk__compensation_reserve(struct lk__entry *entry)
{
	while (entry->spare_count < SPARES) {
		struct lk__compensation *spare = calloc(1, sizeof(*spare));
		if (!spare)
			return false;
		spare->next_due = entry->spares;
		entry->spares = spare;
		entry->spare_count++;
	}
	return true;
}

struct lk__compensation *lk__compensation_spare(struct lk__entry *entry)
{
	struct lk__compensation *spare = entry->spares;
	if (!spare)
		return calloc(1, sizeof(*spare));
	assert(entry->spare_count > 0);
	entry->spares = spare->next_due;
	entry->spare_count--;
	*spare = (struct lk__compensation){0};
	return spare;
}

void lk__compensation_unreserve(struct lk__entry *entry)
{
	while (entry->spares)
		free(lk__compensation_spare(entry));
}
