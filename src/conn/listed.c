/* SPDX-License-Identifier: MIT */
#include "conn/node.h"

#include <stdio.h>
#include <string.h>

struct lk__listed_replica *lk__listed_of(struct lk__listed *listed, const char *place)
{
	char cut[LK__CONN_PLACE_SIZE];
	snprintf(cut, sizeof(cut), "%.63s", place);
	for (int i = 0; i < listed->count; i++)
		if (strcmp(listed->each[i].place, cut) == 0)
			return &listed->each[i];
	if (listed->count == LK__ACKS_MAX)
		return NULL;
	struct lk__listed_replica *replica = &listed->each[listed->count++];
	*replica = (struct lk__listed_replica){.alive = false};
	memcpy(replica->place, cut, sizeof(cut));
	return replica;
}

void lk__listed_forget(struct lk__listed *listed)
{
	for (int i = 0; i < listed->count; i++)
		listed->each[i].met = false;
}

static bool is_at(const struct lk__listed_replica *replica, const char *place)
{
	return strncmp(replica->place, place, sizeof(replica->place) - 1) == 0 ||
	       (*replica->address &&
		strncmp(replica->address, place, sizeof(replica->address) - 1) == 0);
}

void lk__listed_see(struct lk__listed *listed, const char *place, bool has)
{
	for (int i = 0; i < listed->count; i++) {
		struct lk__listed_replica *replica = &listed->each[i];
		if (!is_at(replica, place))
			continue;
		replica->met = replica->shown = true;
		replica->has = has;
		return;
	}
	listed->others += has;
}

int lk__listed_come(struct lk__listed *listed, const char **absent_out)
{
	int come = 0, unknown = 0, others = listed->others;
	*absent_out = NULL;
	listed->others = 0;
	for (int i = 0; i < listed->count; i++) {
		struct lk__listed_replica *replica = &listed->each[i];
		come += replica->alive && replica->has;
		unknown += replica->alive && !replica->shown && !replica->met && replica->follows;
		if (replica->alive && !replica->shown && !*absent_out)
			*absent_out = replica->place;
		replica->shown = replica->has = false;
	}
	return come + (unknown < others ? unknown : others);
}
