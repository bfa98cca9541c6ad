#include "drive/hangup.h"

#include <stdlib.h>
#include <utlist.h>

struct lk__hangup {
	uv_poll_t poll;
	int fd;
	struct lk__conn *conn;
	struct lk__hangups *hangups;
	struct lk__hangup *prev, *next;
};

static void hangup_closed(uv_handle_t *handle)
{
	struct lk__hangup *hangup = handle->data;
	close(hangup->fd);
	free(hangup);
}

static void hangup_end(struct lk__hangup *hangup)
{
	DL_DELETE(hangup->hangups->all, hangup);
	uv_close((uv_handle_t *)&hangup->poll, hangup_closed);
}

static void hangup_on_event(uv_poll_t *poll, int status, int events)
{
	struct lk__hangup *hangup = poll->data;
	(void)status;
	(void)events;
	lk__conn_attend(hangup->conn, hangup->hangups->thread);
	hangup_end(hangup);
}

static void hangup_watch(struct lk__hangups *hangups, struct lk__conn *conn)
{
	int fd = lk__conn_watch(conn);
	if (fd < 0)
		return;
	struct lk__hangup *hangup = calloc(1, sizeof(*hangup));
	if (!hangup || uv_poll_init(hangups->uv, &hangup->poll, fd) < 0) {
		close(fd); /* its end will be noticed by the next who uses it */
		free(hangup);
		return;
	}
	hangup->poll.data = hangup;
	hangup->fd = fd;
	hangup->conn = conn;
	hangup->hangups = hangups;
	DL_APPEND(hangups->all, hangup);
	uv_poll_start(&hangup->poll, UV_DISCONNECT, hangup_on_event);
}

void lk__hangups_turn(struct lk__hangups *hangups, struct lk__node *node)
{
	for (size_t i = 0; i < node->script_count; i++)
		hangup_watch(hangups, &node->scripts[i]);
	hangup_watch(hangups, &node->messages);
	hangup_watch(hangups, &node->work);
}

void lk__hangups_close(struct lk__hangups *hangups)
{
	struct lk__hangup *hangup, *next;
	DL_FOREACH_SAFE(hangups->all, hangup, next)
	hangup_end(hangup);
}
