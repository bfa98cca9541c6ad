#include "nomem_looped.h"

#include <poll.h>

#include "fixture.h"

#define LIMIT_MS 20000

/* The program's loop, until the next completion, whose code it returns. */
static int processed(const struct looped *looped)
{
	lk_completion completion = {.struct_size = sizeof(lk_completion),
				    .error = {.code = LK_EINTERNAL}};
	int64_t end_ms = now_ms() + LIMIT_MS;
	while (lk_queue_take(looped->queue, &completion, 1, 0, NULL) == 0 && now_ms() < end_ms) {
		struct pollfd fd = {.fd = lk_client_fd(looped->client, NULL), .events = POLLIN};
		check(lk_client_due_ns(looped->client, NULL) > 0);
		poll(&fd, 1, 10);
		check_int(lk_client_process(looped->client, NULL), ==, 0);
	}
	err = completion.error;
	return err.code;
}

static int make(struct looped *looped, lk_config *config)
{
	lk_config_set_threadless(config, NULL, NULL);
	int code = lk_client_new(&looped->client, config, &err);
	if (code == 0)
		code = lk_queue_new(&looped->queue, 0, &err);
	return code ? code : lk_lock_new(&looped->lock, looped->client, "looped", 6, &err);
}

int looped_run(struct looped *looped, lk_config *config)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_release_options release = LK_RELEASE_OPTIONS_INIT;
	options.owner = release.owner = "task";
	int code = make(looped, config);
	if (code == 0)
		code = lk_queue_start(looped->queue,
				      request_of(ACQUIRE, .lock = looped->lock, .wait_ms = -1,
						 .acquire = &options),
				      NULL, &err);
	if (code == 0)
		code = processed(looped);
	if (code == 0)
		code = lk_queue_start(
			looped->queue,
			request_of(RELEASE, .lock = looped->lock, .release = &release), NULL, &err);
	return code ? code : processed(looped);
}

void looped_end(struct looped *looped)
{
	lk_completion completion = LK_COMPLETION_INIT;
	int code = looped->queue ? LK_EMAYBEHELD : LK_ECLOSED;
	for (int64_t end_ms = now_ms() + LIMIT_MS; code == LK_EMAYBEHELD && now_ms() < end_ms;) {
		expect(0, lk_queue_start(looped->queue,
					 request_of(CLOSE, .client = looped->client,
						    .how = LK_CLOSE_RELEASE),
					 NULL, &err));
		code = processed(looped);
	}
	check(code == 0 || code == LK_ECLOSED);
	lk_lock_free(looped->lock);
	lk_client_free(looped->client);
	while (looped->queue && lk_queue_take(looped->queue, &completion, 1, 0, NULL) > 0)
		continue;
	expect(0, lk_queue_free(looped->queue, &err));
}
