/* SPDX-License-Identifier: MIT */
#include "api/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "base/fail.h"
#include "conf/config.h"
#include "sync/recipes.h"

#define KEY_SHOWN 120         /* bytes of a key in a message */
#define OPTIONS_SIZE_MAX 1024 /* of any options struct that will ever be */

int lk__check_forked(const lk_client *client, const char *operation, lk_error *error)
{
	return lk__client_forked(client)
		       ? lk__fail(error, LK_EFORKED, "%s: %s", operation, lk_error_text(LK_EFORKED))
		       : 0;
}

int lk__check_blocking(const lk_client *client, const char *operation, lk_error *error)
{
	int rc = lk__check_forked(client, operation,
				  error); /* it is not a matter of how it waits */
	if (rc == 0 && client->config->threadless)
		rc = lk__fail(error, LK_EBLOCKING, "%s: %s", operation,
			      lk_error_text(LK_EBLOCKING));
	return rc;
}

int lk__check_threadless(const lk_client *client, const char *operation, lk_error *error)
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

int lk__enter(lk_client *client, const char *operation, struct lk__thread **thread_out,
	      int *saved_out, lk_error *error)
{
	int rc = client ? lk__check_blocking(client, operation, error) : 0;
	return rc < 0 ? rc : lk__enter_nowait(client, operation, thread_out, saved_out, error);
}

int lk__enter_nowait(lk_client *client, const char *operation, struct lk__thread **thread_out,
		     int *saved_out, lk_error *error)
{
	if (!client)
		return lk__fail(error, LK_EINVAL, "%s: client is NULL", operation);
	int rc = lk__client_check(client, operation, error);
	if (rc < 0)
		return rc;
	*thread_out = lk__client_thread(client);
	if (!*thread_out)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, saved_out);
	return 0;
}

int lk__check_range(const char *operation, const char *what, int64_t number, int64_t least,
		    int64_t most, lk_error *error)
{
	if (number >= least && number <= most)
		return 0;
	return lk__fail(error, LK_EINVAL, "%s: %s is %" PRId64 ", not %" PRId64 " … %" PRId64,
			operation, what, number, least, most);
}

int lk__check_given(const char *operation, const struct lk__given *given, size_t count,
		    lk_error *error)
{
	static const struct {
		const char *name;
		int64_t least, most;
	} arguments[] = {
#define ARGUMENT(id, name, least, most, what) {name, least, most},
#include "api/arguments.def"
#undef ARGUMENT
	};
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		enum lk__argument argument = given[i].argument;
		rc = lk__check_range(operation, arguments[argument].name, given[i].number,
				     arguments[argument].least, arguments[argument].most, error);
	}
	return rc;
}

int lk__check_note(const char *operation, const char *what, const char *note, lk_error *error)
{
	const char *fault = note ? lk__note_fault(note) : NULL;
	return fault ? lk__fail(error, LK_EINVAL, "%s: %s %s", operation, what, fault) : 0;
}

/* ---- names ---- */

int lk__name_check(lk_client *client, const void *name, size_t *name_size, const char *operation,
		   lk_error *error)
{
	if (!client || !name)
		return lk__fail(error, LK_EINVAL, "%s: an argument is NULL", operation);
	size_t size = *name_size == LK_STRLEN ? strnlen(name, LK_NAME_SIZE_MAX + 1) : *name_size;
	if (size == 0)
		return lk__fail(error, LK_EINVAL, "%s: the name is empty", operation);
	int rc = lk__client_check(client, operation, error);
	if (rc < 0)
		return rc;
	size_t most = LK_NAME_SIZE_MAX - strlen(client->config->key_prefix);
	if (size > most)
		return lk__fail(error, LK_EINVAL, "%s: the name has more than %zu bytes", operation,
				most);
	*name_size = size;
	return 0;
}

/* Fails with the key and the one that is derived from it. */
static int name_fail_slots(const char *key, size_t key_size, const char *derives,
			   const char *operation, lk_error *error)
{
	size_t size = 0;
	char *derived = lk__derived_name(derives, key, key_size, &size);
	int rc = lk__fail(error, derived ? LK_EINVAL : LK_ENOMEM,
			  "%s: the braces in the name would put its keys %.*s and %.*s in "
			  "different slots of a cluster: use none, or a {tag}",
			  operation, (int)(key_size < KEY_SHOWN ? key_size : KEY_SHOWN), key,
			  (int)(size < KEY_SHOWN ? size : KEY_SHOWN), derived ? derived : "");
	free(derived);
	return rc;
}

/* A hash tag is what stands between the first "{" and the next "}", if that is anything. */
static bool names_one_slot(const char *name, size_t name_size)
{
	const char *end = name + name_size;
	const char *open = memchr(name, '{', name_size);
	if (!open) /* will be put in braces: the first "}" of its own would end the tag */
		return memchr(name, '}', name_size) == NULL;
	const char *close = memchr(open, '}', (size_t)(end - open));
	return close && close > open + 1;
}

char *lk__key_new(const lk_client *client, const void *name, size_t name_size, size_t *size_out)
{
	const char *prefix = client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	*size_out = prefix_size + name_size;
	char *key = calloc(1, *size_out + 1);
	if (key)
		memcpy(mempcpy(key, prefix, prefix_size), name, name_size);
	return key;
}

int lk__name_check_slot(lk_client *client, const void *name, size_t *name_size, const char *derives,
			const char *operation, lk_error *error)
{
	int rc = lk__name_check(client, name, name_size, operation, error);
	if (rc < 0)
		return rc;
	size_t size;
	char *key = lk__key_new(client, name, *name_size, &size);
	if (!key)
		return lk__fail(error, LK_ENOMEM, "%s: out of memory", operation);
	if (!names_one_slot(key, size))
		rc = name_fail_slots(key, size, derives, operation, error);
	free(key);
	return rc;
}

/* ---- options ---- */

int lk__copy_options(void *options_out, size_t own_size, const void *options, const char *operation,
		     lk_error *error)
{
	memset(options_out, 0, own_size);
	if (!options)
		return 0;
	size_t size;
	memcpy(&size, options, sizeof(size));
	if (size < sizeof(size) || size > OPTIONS_SIZE_MAX)
		return lk__fail(error, LK_EINVAL, "%s: struct_size of the options is %zu",
				operation, size);
	const char *bytes = options;
	for (size_t i = own_size; i < size; i++)
		if (bytes[i])
			return lk__fail(
				error, LK_EINVAL,
				"%s: the options have a member that this library does not know",
				operation);
	memcpy(options_out, options, size < own_size ? size : own_size);
	return 0;
}
