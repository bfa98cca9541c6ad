/* SPDX-License-Identifier: MIT */
#include "drive/notices/lost.h"

#include <assert.h>
#include <utlist.h>

#include "drive/client/loop.h"

void lk__lost_note(struct lk__hold *hold)
{
	lk_client *client = hold->entry->client;
	if (!(hold->entry->target.recipe->flags & LK__FORGETS))
		return;
	assert(!lk__hold_thread(hold)); /* which it would be in the list of */
	pthread_mutex_lock(&client->mutex);
	hold->noted = true;
	client->lost_count++;
	if (lk__hold_extra(hold)->no_loss)
		DL_PREPEND2(client->lost, hold, lost_prev, lost_next);
	else
		DL_APPEND2(client->lost, hold, lost_prev, lost_next);
	bool due = lk__hold_extra(hold)->no_loss || client->lost_count > LK__LOST_MAX;
	pthread_mutex_unlock(&client->mutex);
	if (due)
		lk__loop_wake(client);
}

void lk__lost_forget(struct lk__hold *hold)
{
	lk_client *client = hold->entry->client;
	if (!hold->noted)
		return;
	pthread_mutex_lock(&client->mutex);
	DL_DELETE2(client->lost, hold, lost_prev, lost_next);
	client->lost_count--;
	hold->noted = false;
	pthread_mutex_unlock(&client->mutex);
}

struct lk__entry *lk__lost_due(lk_client *client, const struct lk__hold **hold_out)
{
	pthread_mutex_lock(&client->mutex);
	const struct lk__hold *hold = client->lost;
	bool due = hold && (lk__hold_extra(hold)->no_loss || client->lost_count > LK__LOST_MAX);
	struct lk__entry *entry = due ? hold->entry : NULL;
	if (entry)
		lk__entry_ref(entry); /* the hold has one, until it is out of the list */
	pthread_mutex_unlock(&client->mutex);
	*hold_out = hold;
	return entry;
}
