/* SPDX-License-Identifier: MIT */
#include "drive/notices.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include <lockkeeper/event.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fail.h"
#include "drive/entry.h"

int lk__notices_init(lk_client *client, lk_error *error)
{
	pthread_mutex_init(&client->notices.mutex, NULL);
	client->notices.fd = lk__wake_fd_new();
	if (client->notices.fd < 0)
		return lk__fail_errno(error, LK_ESYSTEM, errno, "eventfd");
	return 0;
}

void lk__notices_free(lk_client *client)
{
	if (client->notices.fd >= 0)
		lk__fd_close(client->notices.fd);
	pthread_mutex_destroy(&client->notices.mutex);
}

static void notices_mark(lk_client *client, bool readable)
{
	if (readable)
		lk__wake_fd(client->notices.fd);
	else
		lk__wake_fd_clear(client->notices.fd);
}

void lk__notices_give(lk_client *client, struct lk__hold *hold, unsigned notice)
{
	struct lk__notices *notices = &client->notices;
	if (hold->no_loss)
		return;
	pthread_mutex_lock(&notices->mutex);
	if (!hold->notices) {
		if (!notices->holds)
			notices_mark(client, true);
		DL_APPEND2(notices->holds, hold, notice_prev, notice_next);
	}
	hold->notices |= notice;
	hold->told_until_ns = lk__hold_deadline(hold);
	pthread_mutex_unlock(&notices->mutex);
}

static void notices_take(lk_client *client, struct lk__hold *hold)
{
	struct lk__notices *notices = &client->notices;
	DL_DELETE2(notices->holds, hold, notice_prev, notice_next);
	if (!notices->holds && atomic_load(&client->state) == LK__CLIENT_OPEN)
		notices_mark(client, false);
}

void lk__notices_forget(lk_client *client, struct lk__hold *hold)
{
	pthread_mutex_lock(&client->notices.mutex);
	if (hold->notices) {
		hold->notices = 0;
		notices_take(client, hold);
	}
	pthread_mutex_unlock(&client->notices.mutex);
}

void lk__notices_close(lk_client *client)
{
	pthread_mutex_lock(&client->notices.mutex);
	notices_mark(client, true);
	pthread_mutex_unlock(&client->notices.mutex);
}

static void notice_fill(const struct lk__hold *hold, int type, lk_event *event_out)
{
	const struct lk__entry *entry = hold->entry;
	size_t shown = entry->name_size < sizeof(event_out->name) ? entry->name_size
								  : sizeof(event_out->name) - 1;
	memset(event_out, 0, sizeof(*event_out));
	event_out->type = type;
	event_out->tag = hold->tag;
	event_out->deadline_ns = hold->told_until_ns;
	event_out->fence = hold->fence;
	lk__field(entry, hold->number, event_out->field);
	event_out->name_size = entry->name_size;
	memcpy(event_out->name, entry->name, shown);
}

/* 1 and the oldest notice, or 0. */
static int notices_next(lk_client *client, lk_event *event_out)
{
	static const struct {
		unsigned notice;
		int type;
	} kinds[] = {{LK__NOTICE_AT_RISK, LK_EVENT_AT_RISK},
		     {LK__NOTICE_ABANDONED, LK_EVENT_ABANDONED},
		     {LK__NOTICE_LOST, LK_EVENT_LOST}};
	int found = 0;
	pthread_mutex_lock(&client->notices.mutex);
	struct lk__hold *hold = client->notices.holds;
	for (size_t i = 0; hold && !found && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!(hold->notices & kinds[i].notice))
			continue;
		found = 1;
		notice_fill(hold, kinds[i].type, event_out);
		hold->notices &= ~kinds[i].notice;
		if (!hold->notices)
			notices_take(client, hold);
	}
	pthread_mutex_unlock(&client->notices.mutex);
	return found;
}

static int notices_sleep(lk_client *client, int64_t until_ns, lk_cancel *cancel)
{
	struct pollfd fds[2] = {
		{.fd = client->notices.fd, .events = POLLIN},
		{.fd = cancel ? cancel->fd : -1, .events = POLLIN},
	};
	int timeout_ms = until_ns == LK__NEVER ? -1 : lk__ms_until(lk__now_ns(), until_ns, 60000);
	return lk__poll(fds, 2, timeout_ms);
}

static int notices_wait(lk_client *client, lk_event *event_out, int64_t until_ns, lk_cancel *cancel,
			lk_error *error)
{
	for (;;) {
		if (notices_next(client, event_out))
			return 1;
		if (atomic_load(&client->state) != LK__CLIENT_OPEN)
			return lk__fail(error, LK_ECLOSED, "lk_event_wait: the client is closed");
		if (lk__cancelled(cancel))
			return lk__fail(error, LK_ECANCELLED, "lk_event_wait: cancelled");
		if (until_ns != LK__NEVER && lk__now_ns() >= until_ns)
			return 0;
		notices_sleep(client, until_ns, cancel);
	}
}

int lk_event_wait(lk_client *client, lk_event *event_out, int64_t wait_ms, lk_cancel *cancel,
		  lk_error *error)
{
	if (!client || !event_out || wait_ms < -1)
		return lk__fail(error, LK_EINVAL, "lk_event_wait: %s",
				wait_ms < -1 ? "wait_ms is under -1" : "an argument is NULL");
	if (lk__client_forked(client))
		return lk__fail(error, LK_EFORKED, "lk_event_wait: %s", lk_error_text(LK_EFORKED));
	int saved;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	int64_t until_ns = wait_ms < 0 ? LK__NEVER : lk__after_ms(lk__now_ns(), wait_ms);
	int rc = notices_wait(client, event_out, until_ns, cancel, error);
	pthread_setcancelstate(saved, NULL);
	return rc;
}

int lk_event_fd(lk_client *client, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "lk_event_fd: client is NULL");
	if (lk__client_forked(client))
		return lk__fail(error, LK_EFORKED, "lk_event_fd: %s", lk_error_text(LK_EFORKED));
	return client->notices.fd;
}
