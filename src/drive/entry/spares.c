/* SPDX-License-Identifier: MIT */
#include "drive/entry/spares.h"

#include <stdlib.h>

#include "drive/entry/entry.h"

#define SPARES 2 /* kept ready by an entry: for a hold that goes, and for a try */

static int spares_count(const struct lk__entry *entry)
{
	int count = 0;
	for (const struct lk__compensation *spare = entry->spares; spare; spare = spare->next_due)
		count++;
	return count;
}

bool lk__compensation_reserve(struct lk__entry *entry)
{
	for (int count = spares_count(entry); count < SPARES; count++) {
		struct lk__compensation *spare = calloc(1, sizeof(*spare));
		if (!spare)
			return false;
		spare->next_due = entry->spares;
		entry->spares = spare;
	}
	return true;
}

struct lk__compensation *lk__compensation_spare(struct lk__entry *entry)
{
	struct lk__compensation *spare = entry->spares;
	if (!spare)
		return calloc(1, sizeof(*spare));
	entry->spares = spare->next_due;
	*spare = (struct lk__compensation){0};
	return spare;
}

void lk__compensation_unreserve(struct lk__entry *entry)
{
	while (entry->spares)
		free(lk__compensation_spare(entry));
}
