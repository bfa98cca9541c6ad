/* SPDX-License-Identifier: MIT */
#include "drive/entry/watch_heap.h"

#include "base/clock.h"
#include "drive/client/loop.h"
#include "drive/entry/entry.h"

void lk__watch_init(lk_client *client)
{
	pthread_mutex_init(&client->watch.mutex, NULL);
	client->watch.armed_ns = LK__NEVER;
}

void lk__watch_free(lk_client *client)
{
	lk__heap_free(&client->watch.heap);
	pthread_mutex_destroy(&client->watch.mutex);
}

int lk__watch_reserve(lk_client *client, size_t count)
{
	pthread_mutex_lock(&client->watch.mutex);
	int rc = lk__heap_reserve(&client->watch.heap, count);
	pthread_mutex_unlock(&client->watch.mutex);
	return rc;
}

void lk__watch_at(struct lk__entry *entry, int64_t at_ns)
{
	lk_client *client = entry->client;
	struct lk__watch *watch = &client->watch;
	bool sooner = false;
	pthread_mutex_lock(&watch->mutex);
	if (at_ns < lk__heap_key(&watch->heap, &entry->watch)) {
		lk__heap_put(&watch->heap, &entry->watch, at_ns);
		sooner = at_ns < watch->armed_ns;
		if (sooner)
			watch->armed_ns = at_ns;
	}
	pthread_mutex_unlock(&watch->mutex);
	if (sooner)
		lk__loop_wake(client);
}

void lk__watch_forget(lk_client *client, struct lk__entry *entry)
{
	pthread_mutex_lock(&client->watch.mutex);
	lk__heap_remove(&client->watch.heap, &entry->watch);
	pthread_mutex_unlock(&client->watch.mutex);
}
