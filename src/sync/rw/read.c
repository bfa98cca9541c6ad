/* The read side: shared by any number of owners, and open to an owner that has the write side. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/lock/lock.h"
#include "sync/rw/rw.h"
#include "sync/script.h"

#define SIDE "read"
#define MESSAGE "0"

/* The field that the same client's write side has under another number; "" for number 0. */
static void write_field(char field_out[LK__RW_FIELD_SIZE], const char *field, uint64_t number)
{
	const char *colon = strrchr(field, ':');
	field_out[0] = 0;
	if (number)
		snprintf(field_out, LK__RW_FIELD_SIZE, "%.*s:%" PRIu64 ":write",
			 (int)(colon - field), field, number);
}

static struct lk__request *read_acquire(const struct lk__try *wanted)
{
	const struct lk__target *target = wanted->target;
	struct lk__words words = {0};
	size_t timeout_size = 0, writers_size = 0;
	char *timeout = lk__rw_timeout_key(target, wanted->field, &timeout_size);
	char *writers = lk__rw_writers_key(target, &writers_size);
	char under[LK__RW_FIELD_SIZE];
	write_field(under, wanted->field, wanted->under);
	lk__words_add(&words, target->key, target->key_size);
	lk__words_add(&words, timeout, timeout_size);
	lk__words_add(&words, writers, writers_size);
	lk__words_text(&words, wanted->field);
	lk__words_number(&words, wanted->lease_ms);
	lk__words_number(&words, wanted->deadline_us);
	lk__words_text(&words, under);
	lk__words_number(&words, (wanted->flags & LK__RW_PREFER_WRITERS) != 0);
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_RW_READ_ACQUIRE, 3);
	free(timeout);
	free(writers);
	return request;
}

static struct lk__request *read_release(const struct lk__target *target, const char *field)
{
	return lk__rw_release(target, field, MESSAGE);
}

static struct lk__request *read_force(const struct lk__target *target)
{
	return lk__rw_force(target, SIDE, MESSAGE);
}

/* One word of a batch of renewals: the timeout key or the lease, whose text is ours. */
static bool renew_add(const struct lk__renewal *renewal, size_t at, size_t count, char **argv,
		      size_t *sizes)
{
	char lease[24];
	argv[2 * at] = renewal->target->key;
	sizes[2 * at] = renewal->target->key_size;
	argv[2 * at + 1] = lk__rw_timeout_key(renewal->target, renewal->field, &sizes[2 * at + 1]);
	argv[2 * count + 2 * at] = (char *)renewal->field;
	sizes[2 * count + 2 * at] = strlen(renewal->field);
	sizes[2 * count + 2 * at + 1] = (size_t)snprintf(lease, sizeof(lease), "%" PRId64,
							 renewal->lease_ms);
	argv[2 * count + 2 * at + 1] = strdup(lease);
	return argv[2 * at + 1] && argv[2 * count + 2 * at + 1];
}

static struct lk__request *read_renew(const struct lk__renewal *renewals, size_t count)
{
	char **argv = calloc(4 * count, sizeof(*argv));
	size_t *sizes = calloc(4 * count, sizeof(*sizes));
	bool whole = argv && sizes;
	struct lk__request *request = NULL;
	for (size_t i = 0; i < count && whole; i++)
		whole = renew_add(&renewals[i], i, count, argv, sizes);
	if (whole)
		request = lk__request_script(LK__SCRIPT_RW_READ_RENEW, 2 * count, 4 * count,
					     (const char **)argv, sizes);
	for (size_t i = 1; i < 4 * count && argv; i += 2)
		free(argv[i]);
	free(argv);
	free(sizes);
	return request;
}

static struct lk__request *read_is_locked(const struct lk__target *target)
{
	return lk__rw_is_locked(target, SIDE);
}

const struct lk__recipe lk__read_recipe = {
	.type = "read lock",
	.channel_prefix = LK__RW_CHANNEL_PREFIX,
	.sharing = LK__EACH_OWNER,
	.flags = LK__NO_TERMS | LK__UNDER_OTHER,
	.other_side = &lk__write_recipe,
	.acquire = read_acquire,
	.release = read_release,
	.force = read_force,
	.renew = read_renew,
	.is_locked = read_is_locked,
	.is_held_by = lk__rw_is_held_by,
	.read_acquire = lk__reply_acquired,
	.read_release = lk__reply_released,
};
