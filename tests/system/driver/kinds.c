/* The kinds of lock by their words: each a constructor of the library, called as lk_lock_new(). */
#include "driver.h"

#include <stdio.h>
#include <string.h>

static int make_fenced(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		       lk_error *error)
{
	return lk_fenced_lock_new(lock_out, client, name, name_size, NULL, error);
}

static int make_fenced_java(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, lk_error *error)
{
	lk_fenced_lock_options options = LK_FENCED_LOCK_OPTIONS_INIT;
	options.share_java = 1;
	return lk_fenced_lock_new(lock_out, client, name, name_size, &options, error);
}

static int make_spin(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		     lk_error *error)
{
	return lk_spin_lock_new(lock_out, client, name, name_size, NULL, error);
}

static int make_plain(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		      lk_error *error)
{
	return lk_plain_lock_new(lock_out, client, name, name_size, NULL, error);
}

static const lk_read_write_options preferring = {sizeof(preferring), 1};

static int make_read(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		     lk_error *error)
{
	return lk_read_lock_new(lock_out, client, name, name_size, NULL, error);
}

static int make_write(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		      lk_error *error)
{
	return lk_write_lock_new(lock_out, client, name, name_size, NULL, error);
}

static int make_polite_read(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, lk_error *error)
{
	return lk_read_lock_new(lock_out, client, name, name_size, &preferring, error);
}

static int make_preferred_write(lk_lock **lock_out, lk_client *client, const void *name,
				size_t name_size, lk_error *error)
{
	return lk_write_lock_new(lock_out, client, name, name_size, &preferring, error);
}

/* The name is those of its locks, with commas between them. */
static int make_multi(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		      lk_error *error)
{
	lk_lock *locks[LK_MULTI_LOCK_MAX] = {NULL};
	const char *at = name, *end = at + name_size;
	size_t count = 0;
	int result = 0;
	for (; result == 0 && at < end && count < LK_MULTI_LOCK_MAX; count++) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		size_t size = (size_t)((comma ? comma : end) - at);
		result = lk_lock_new(&locks[count], client, at, size, error);
		at += size + 1;
	}
	if (result == 0)
		result = lk_multi_lock_new(lock_out, locks, count, error);
	while (count > 0)
		lk_lock_free(locks[--count]);
	return result;
}

/* nodes=C,C,…: the clients of the nodes; node_limit=MS; quarantine=MS, or servers that have just
 * started may vote. */
static int make_red(lk_lock **lock_out, const struct command *command, int plain, const char *name,
		    size_t name_size, lk_error *error)
{
	lk_client *clients[LK_RED_NODES_MAX];
	lk_red_lock_options options = LK_RED_LOCK_OPTIONS_INIT;
	const char *nodes = command_text(command, "nodes", NULL);
	char names[256], *rest = names;
	size_t count = 0;
	snprintf(names, sizeof(names), "%s", nodes ? nodes : "");
	for (char *word; count < LK_RED_NODES_MAX && (word = strtok_r(rest, ",", &rest));)
		clients[count++] = handle_client_named(word);
	options.plain = plain;
	options.quarantine_ms = command_number(command, "quarantine", -1);
	options.node_limit_ms = command_number(command, "node_limit", 0);
	return lk_red_lock_new(lock_out, clients, count, name, name_size, &options, error);
}

typedef int lock_maker(lk_lock **lock_out, lk_client *client, const void *name, size_t name_size,
		       lk_error *error);

static const struct {
	const char *kind;
	lock_maker *make;
} kinds[] = {
	{"lock", lk_lock_new},
	{"fair", lk_fair_lock_new},
	{"fenced", make_fenced},
	{"fenced-java", make_fenced_java},
	{"spin", make_spin},
	{"plain", make_plain},
	{"read", make_read},
	{"write", make_write},
	{"multi", make_multi},
	{"read-polite", make_polite_read},
	{"write-preferred", make_preferred_write},
};

static const char *const red_kinds[] = {"red", "red-plain"};

const char *kind_at(size_t index)
{
	size_t count = sizeof(kinds) / sizeof(kinds[0]);
	if (index < count)
		return kinds[index].kind;
	return index - count < 2 ? red_kinds[index - count] : NULL;
}

static lock_maker *kind_maker(const struct command *command)
{
	const char *kind = command_text(command, "kind", NULL);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].kind, kind ? kind : "lock") == 0)
			return kinds[i].make;
	}
	return NULL;
}

static int is_red(const struct command *command)
{
	const char *kind = command_text(command, "kind", NULL);
	return kind && (strcmp(kind, "red") == 0 || strcmp(kind, "red-plain") == 0);
}

int kind_known(const struct command *command)
{
	return is_red(command) || kind_maker(command);
}

int kind_make(lk_lock **lock_out, const struct command *command, lk_client *client,
	      const char *name, size_t name_size, lk_error *error)
{
	lock_maker *make = kind_maker(command);
	if (is_red(command)) {
		int plain = strcmp(command_text(command, "kind", NULL), "red-plain") == 0;
		return make_red(lock_out, command, plain, name, name_size, error);
	}
	if (make)
		return make(lock_out, client, name, name_size, error);
	snprintf(error->message, sizeof(error->message), "the driver knows no such kind");
	return LK_EINVAL;
}
