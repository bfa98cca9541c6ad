#include "queued.h"

#include <poll.h>

#define LIMIT_MS 20000

lk_queue *queue;
lk_client *client;

static int make_kind(lk_lock **lock, enum kind kind, lk_client *of)
{
	switch (kind) {
	case KIND_FAIR:
		return lk_fair_lock_new(lock, of, "kind", LK_STRLEN, &err);
	case KIND_READ:
		return lk_read_lock_new(lock, of, "kind", LK_STRLEN, NULL, &err);
	case KIND_WRITE:
		return lk_write_lock_new(lock, of, "kind", LK_STRLEN, NULL, &err);
	case KIND_FENCED:
		return lk_fenced_lock_new(lock, of, "kind", LK_STRLEN, NULL, &err);
	case KIND_SPIN:
		return lk_spin_lock_new(lock, of, "kind", LK_STRLEN, NULL, &err);
	case KIND_PLAIN:
		return lk_plain_lock_new(lock, of, "kind", LK_STRLEN, NULL, &err);
	default:
		return lk_lock_new(lock, of, "kind", LK_STRLEN, &err);
	}
}

lk_lock *new_kind(enum kind kind, lk_client *of)
{
	lk_lock *lock = NULL;
	expect(0, make_kind(&lock, kind, of));
	return lock;
}

void open_queue(void)
{
	open_queue_with("");
}

void open_queue_with(const char *options)
{
	client = open_driven("%s", options);
	expect(0, lk_queue_new(&queue, 0, &err));
}

void close_queue(size_t left)
{
	lk_completion completion = LK_COMPLETION_INIT;
	/* What was in flight when its server went away is compensated, within its own limits. */
	wait_until(program_close(client, LK_CLOSE_RELEASE, &err) == 0, 20000);
	program_free(client);
	for (size_t i = 0; i < left; i++)
		expect(1, lk_queue_take(queue, &completion, 1, LIMIT_MS, &err));
	expect(0, lk_queue_take(queue, &completion, 1, 0, &err));
	expect(0, lk_queue_free(queue, &err));
}

uint64_t begin_acquire(lk_lock *lock, const char *owner, int64_t wait_ms, uint64_t tag)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = owner;
	options.tag = tag;
	expect(0, lk_queue_start(queue,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = wait_ms,
					    .acquire = &options, .tag = options.tag),
				 &id, &err));
	check(id != 0);
	return id;
}

uint64_t begin_release(lk_lock *lock, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	uint64_t id = 0;
	options.owner = owner;
	expect(0, lk_queue_start(queue,
				 request_of(RELEASE, .lock = lock, .release = &options, .tag = 7),
				 &id, &err));
	return id;
}

uint64_t begin_extend(lk_lock *lock, const char *owner, int64_t lease_ms)
{
	uint64_t id = 0;
	expect(0, lk_queue_start(queue,
				 request_of(EXTEND, .lock = lock, .lease_ms = lease_ms,
					    .extend = extend_by(owner), .tag = 7),
				 &id, &err));
	return id;
}

lk_completion next_completion(void)
{
	lk_completion completion = LK_COMPLETION_INIT;
	expect(1, lk_queue_take(queue, &completion, 1, LIMIT_MS, &err));
	return completion;
}

lk_completion completed(uint64_t id, int code)
{
	lk_completion completion = next_completion();
	check_int(completion.id, ==, id);
	if (completion.error.code != code)
		check_fail(__FILE__, __LINE__, "request %llu: %d %s, not %d",
			   (unsigned long long)id, completion.error.code, completion.error.message,
			   code);
	check((code == 0) == (completion.error.message[0] == '\0'));
	return completion;
}

lk_completion acquire(lk_lock *lock, const char *owner)
{
	return completed(begin_acquire(lock, owner, -1, 0), 0);
}

void release(lk_lock *lock, const char *owner)
{
	completed(begin_release(lock, owner), 0);
}

static int end_apart(lk_queue *apart)
{
	lk_completion got = LK_COMPLETION_INIT;
	expect(1, lk_queue_take(apart, &got, 1, LIMIT_MS, &err));
	expect(0, lk_queue_free(apart, &err));
	return got.error.code;
}

int acquire_apart(lk_lock *lock, const lk_acquire_options *options)
{
	lk_queue *apart = NULL;
	expect(0, lk_queue_new(&apart, 1, &err));
	expect(0, lk_queue_start(apart,
				 request_of(ACQUIRE, .lock = lock, .wait_ms = -1,
					    .acquire = options, .tag = options ? options->tag : 0),
				 NULL, &err));
	return end_apart(apart);
}

int release_apart(lk_lock *lock, const char *owner)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	lk_queue *apart = NULL;
	options.owner = owner;
	expect(0, lk_queue_new(&apart, 1, &err));
	expect(0, lk_queue_start(apart, request_of(RELEASE, .lock = lock, .release = &options),
				 NULL, &err));
	return end_apart(apart);
}

void release_to(lk_lock *lock, const char *owner, uint64_t next)
{
	uint64_t id = begin_release(lock, owner), seen = 0;
	for (int both = 0; both < 2; both++) {
		lk_completion got = next_completion();
		check(got.id == id || got.id == next);
		check(got.id != seen);
		check_int(got.error.code, ==, 0);
		seen = got.id;
	}
}

bool queue_is_readable(void)
{
	struct pollfd fd = {.fd = lk_queue_fd(queue, &err), .events = POLLIN};
	return poll(&fd, 1, 0) == 1;
}

void open_multi_set(struct multi_set *set, const char *options)
{
	static const char *const names[MULTI_PARTS] = {"a", "b", "c"};
	set->client[0] = open_driven_at(server.url_unix, options);
	set->client[1] = open_driven_at(other_server.url_unix, options);
	for (size_t i = 0; i < MULTI_PARTS; i++)
		set->part[i] = new_lock(set->client[i == 2], names[i]);
	expect(0, lk_multi_lock_new(&set->all, set->part, MULTI_PARTS, &err));
	expect(0, lk_queue_new(&queue, 0, &err));
}
