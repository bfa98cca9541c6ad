/* SPDX-License-Identifier: MIT */
/* The public face of threadless clients. */
#include <lockkeeper/loop.h>

#include "api/check.h"
#include "base/fail.h"
#include "conf/config.h"
#include "lock/close.h"
#include "lock/loop.h"
#include "lock/completion_queue.h"

/* 0, or why the program does not drive this client. */
static int check_threadless(const lk_client *client, const char *operation, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	int rc = lk__check_forked(client, operation, error);
	if (rc == 0 && !client->config->threadless)
		rc = lk__fail(error, LK_EINVAL,
			      "%s: the client has a thread (see lk_config_set_threadless)",
			      operation);
	return rc;
}

int lk_client_fd(lk_client *client, lk_error *error)
{
	int rc = check_threadless(client, "lk_client_fd", error);
	return rc < 0 ? rc : lk__loop_fd(client);
}

int64_t lk_client_due_ns(lk_client *client, lk_error *error)
{
	int rc = check_threadless(client, "lk_client_due_ns", error);
	return rc < 0 ? rc : lk__loop_due_ns(client);
}

int lk_client_process(lk_client *client, lk_error *error)
{
	const char *operation = "lk_client_process";
	int saved, rc = check_threadless(client, operation, error);
	if (rc == 0 && atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = LK_ECLOSED;
	else if (rc < 0)
		return rc;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &saved);
	if (rc == 0)
		rc = lk__loop_process(client);
	lk__log_deliver(&client->log);
	pthread_setcancelstate(saved, NULL);
	return rc < 0 ? lk__fail(error, rc, "%s: %s", operation, lk_error_text(rc)) : 0;
}

static int close_check(const struct lk__start *start)
{
	const char *operation = start->operation;
	lk_client *client = start->handle;
	int rc = check_threadless(client, operation, start->error);
	if (rc == 0)
		rc = LK__CHECK(operation, start->error, {LK__HOW, start->request->how});
	if (rc == 0 && atomic_load(&client->state) == LK__CLIENT_CLOSED)
		rc = lk__fail(start->error, LK_ECLOSED, "%s: the client is closed", operation);
	if (rc == 0 && lk__close_is_under_way(client))
		rc = lk__fail(start->error, LK_EPENDING, "%s: the client is being closed",
			      operation);
	return rc;
}

int lk__start_client_close(const struct lk__start *start)
{
	struct lk__completion *completion;
	int rc = close_check(start);
	if (rc == 0)
		rc = lk__start_reserve(start, &completion, NULL);
	if (rc < 0)
		return rc;
	rc = lk__close_start(start->handle, start->request->how, completion, start->error);
	if (rc < 0)
		lk__queue_unreserve(completion);
	return rc;
}
