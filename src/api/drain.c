/* SPDX-License-Identifier: MIT */
/* The public face of draining a client. */
#include <lockkeeper/drain.h>

#include <stdlib.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lock/drain.h"
#include "lock/loop.h"

int lk_client_drain(lk_client *client, int64_t wait_ms, lk_cancel *cancel, lk_error *error)
{
	const char *operation = "lk_client_drain";
	struct lk__draining draining;
	struct lk__thread *thread;
	lk_error own = {.code = 0};
	int saved, rc = LK__CHECK(operation, error, {LK__WAIT, wait_ms});
	if (rc == 0 && !client)
		rc = lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	if (rc == 0)
		rc = lk__enter(client, operation, &thread, &saved, error);
	if (rc < 0)
		return rc;
	rc = lk__cancel_enter(cancel, thread, error);
	if (rc == 0) {
		rc = lk__drain_begin(client, error);
		lk__draining_init(&draining, client, thread, wait_ms, cancel, NULL,
				  error ? error : &own);
		if (rc == 0)
			rc = lk__op_run(&draining.op);
		lk__cancel_leave(cancel);
	}
	lk__leave(saved);
	return rc;
}

int lk_client_held(lk_client *client, lk_held *held_out, size_t most, lk_error *error)
{
	const char *operation = "lk_client_held";
	struct lk__thread *thread;
	int saved, rc = 0;
	if (!client || (most && !held_out))
		rc = lk__fail(error, LK_EINVAL, "%s: %s is NULL", operation,
			      client ? "held_out" : "client");
	if (rc == 0 && held_out && most)
		rc = lk__check_size(operation, held_out, sizeof(*held_out), sizeof(*held_out),
				    error);
	if (rc == 0)
		rc = lk__enter_briefly(client, operation, &thread, &saved, error);
	if (rc < 0)
		return rc;
	size_t size = held_out && most ? held_out->struct_size : 0;
	rc = lk__drain_held(client, held_out, size, most, error);
	lk__leave(saved);
	return rc;
}

/* ---- through a queue ---- */

struct drain_request {
	lk_client *client;
	int64_t wait_ms;
	struct lk__draining draining;
};

static struct lk__op *request_begin(void *of, struct lk__thread *thread, const _Atomic bool *stop,
				    lk_error *error)
{
	struct drain_request *request = of;
	lk__draining_init(&request->draining, request->client, thread, request->wait_ms, NULL, stop,
			  error);
	return &request->draining.op;
}

int lk__start_drain(const struct lk__start *start)
{
	lk_client *client = start->handle;
	struct lk__thread *thread;
	int saved,
		rc = LK__CHECK(start->operation, start->error, {LK__WAIT, start->request->wait_ms});
	if (rc == 0)
		rc = lk__enter_briefly(client, start->operation, &thread, &saved, start->error);
	if (rc < 0)
		return rc;
	struct drain_request *request = calloc(1, sizeof(*request));
	if (!request)
		rc = lk__fail(start->error, LK_ENOMEM, "%s: out of memory", start->operation);
	if (rc == 0)
		rc = lk__loop_start(client, start->error);
	if (rc == 0) {
		struct lk__async_want want = {.way = LK__ASYNC_DRIVE,
					      .operation = start->operation,
					      .driven = {.client = client,
							 .of = request,
							 .begin = request_begin,
							 .end = free}};
		request->client = client;
		request->wait_ms = start->request->wait_ms;
		rc = lk__start_go(start, NULL, NULL, &want);
	}
	if (rc == 0)
		lk__drain_begin(client, NULL); /* without memory, leaders are not told */
	else
		free(request);
	lk__leave(saved);
	return rc;
}
