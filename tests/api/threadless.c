#include "threadless.h"

#include <poll.h>

lk_queue *queue;
lk_client *client;

lk_client *open_threadless(const char *url, lk_resolve_callback resolve, const char *option,
			   const char *value)
{
	lk_config *config = NULL;
	lk_client *opened = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", url, &err));
	expect(0, lk_config_set(config, "client_record", "off", &err));
	if (option)
		expect(0, lk_config_set(config, option, value, &err));
	lk_config_set_threadless(config, resolve, NULL);
	expect(0, lk_client_new(&opened, config, &err));
	lk_config_free(config);
	return opened;
}

void begin(const char *option, const char *value)
{
	client = open_threadless(server.url_unix, NULL, option, value);
	expect(0, lk_queue_new(&queue, 0, &err));
}

void turn(int64_t limit_ms)
{
	struct pollfd fd = {.fd = lk_client_fd(client, &err), .events = POLLIN};
	check(fd.fd >= 0);
	if (poll(&fd, 1, (int)limit_ms) > 0)
		expect(0, lk_client_process(client, &err));
}

lk_completion next_within(int64_t limit_ms)
{
	lk_completion completion = LK_COMPLETION_INIT;
	int64_t end_ms = now_ms() + slow_ms(limit_ms);
	while (lk_queue_take(queue, &completion, 1, 0, &err) == 0 && now_ms() < end_ms)
		turn(10);
	return completion;
}

void ends(int operation, int code)
{
	lk_completion completion = next_within(LIMIT_MS);
	check_int(completion.operation, ==, operation);
	if (completion.error.code != code)
		check_fail(__FILE__, __LINE__, "%d %s, not %d", completion.error.code,
			   completion.error.message, code);
}

uint64_t start_acquire(lk_lock *lock, const char *owner, int64_t wait_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = owner;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
					    .acquire = &options),
				 &id, &err));
	return id;
}

void start_release(lk_lock *lock, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = owner;
	expect(0, lk_queue_start(queue, request_of(RELEASE, .lock = lock, .release = &options),
				 NULL, &err));
}

void end(int how)
{
	expect(0,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = how), NULL, &err));
	ends(LK_OP_CLOSE, 0);
	expect(LK_ECLOSED, lk_client_process(client, &err));
	expect(LK_ECLOSED,
	       lk_queue_start(queue, request_of(CLOSE, .client = client, .how = how), NULL, &err));
	lk_client_free(client);
	expect(0, lk_queue_free(queue, &err));
}
