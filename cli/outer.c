/* SPDX-License-Identifier: MIT */
#include "outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_SIZE 36
#define HALF_DIGITS 16 /* of an id, without its dashes: what a permit of the client begins with */

static const char *variable(void)
{
	const char *text = getenv("LOCKKEEPER_OUTER");
	return text ? text : "";
}

/* The next id of the list, or NULL; what is no id is passed over. */
static const char *id_next(const char **at)
{
	while (**at) {
		const char *id = *at;
		size_t size = strcspn(id, ",");
		*at += size + (id[size] == ',');
		if (size == ID_SIZE && strspn(id, "0123456789abcdef-") >= ID_SIZE)
			return id;
	}
	return NULL;
}

int outer_exist(void)
{
	const char *at = variable();
	return id_next(&at) != NULL;
}

void outer_text(lk_client *const *clients, size_t count, char text_out[OUTER_TEXT_SIZE])
{
	const char *id, *at = variable();
	size_t used = 0;
	for (size_t i = 0; i < count && i < OUTER_IDS_MAX; i++)
		used += (size_t)snprintf(text_out + used, OUTER_TEXT_SIZE - used, "%s%.36s",
					 used ? "," : "", lk_client_id(clients[i]));
	while (used + ID_SIZE + 1 < OUTER_TEXT_SIZE && (id = id_next(&at)))
		used += (size_t)snprintf(text_out + used, OUTER_TEXT_SIZE - used, "%s%.36s",
					 used ? "," : "", id);
}

/* A permit is 32 digits, the first half those of its client's id. */
static int is_permit_of(const lk_holder *holder, const char *id)
{
	char half[HALF_DIGITS + 1];
	snprintf(half, sizeof(half), "%.8s%.4s%.4s", id, id + 9, id + 14);
	return holder->field_size >= HALF_DIGITS && !memcmp(holder->field, half, HALF_DIGITS);
}

static int is_outer(const lk_holder *holder)
{
	const char *id, *at = variable();
	while ((id = id_next(&at)))
		if (holder->role == LK_HOLDER_PERMIT
			    ? is_permit_of(holder, id)
			    : holder->field_size > ID_SIZE && !memcmp(holder->field, id, ID_SIZE))
			return 1;
	return 0;
}

/* Judges the holders. Of permits all must be theirs: another's may come back. */
static int holders_judge(const lk_lock_info *info)
{
	size_t theirs = 0;
	for (size_t i = 0; i < info->holder_count; i++)
		theirs += (size_t)is_outer(&info->holders[i]);
	int permits = info->holder_count && info->holders[0].role == LK_HOLDER_PERMIT;
	return permits ? theirs == info->holder_count && info->count <= 0 : theirs > 0;
}

int outer_holds(lk_client *client, const char *name)
{
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	int holds = outer_exist() && lk_scan_new(&scan, client, NULL, NULL) == 0 &&
		    lk_scan_show(scan, name, strlen(name), &info, NULL) == 0 &&
		    holders_judge(&info);
	lk_scan_free(scan);
	return holds;
}
