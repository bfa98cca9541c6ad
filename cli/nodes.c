/* SPDX-License-Identifier: MIT */
#include "nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connect.h"
#include "exit_code.h"
#include "message.h"

/* The length of the first URL, which ends where a comma and the next URL follow. Commas inside of
 * it list the addresses of its deployment: host:port. */
static size_t url_length(const char *list)
{
	const char *comma = strchr(list, ',');
	for (; comma; comma = strchr(comma + 1, ',')) {
		const char *end = comma + 1 + strspn(comma + 1, "abcdefghijklmnopqrstuvwxyz-");
		if (strncmp(end, "://", 3) == 0)
			return (size_t)(comma - list);
	}
	return strlen(list);
}

static int nodes_append(struct nodes *nodes, const char *url)
{
	if (nodes->count == LK_RED_NODES_MAX)
		return trouble("more than %d servers", LK_RED_NODES_MAX);
	nodes->after[nodes->count] = nodes->assigned_count;
	nodes->url[nodes->count++] = url;
	return 0;
}

/* Appends the URLs of a list, whose text it cuts into pieces. */
static int nodes_split(struct nodes *nodes, char *list)
{
	int code = 0, more = 1;
	for (char *url = list; code == 0 && more;) {
		char *end = url + url_length(url);
		more = *end == ',';
		*end = '\0';
		code = nodes_append(nodes, url);
		url = end + 1;
	}
	return code;
}

int nodes_are_several(const char *list)
{
	return list && list[url_length(list)] != '\0';
}

int nodes_from_environment(struct nodes *nodes)
{
	const char *list = getenv("LOCKKEEPER_URL");
	*nodes = (struct nodes){.count = 0};
	if (!nodes_are_several(list))
		return 0;
	nodes->listed = strdup(list);
	nodes->text = strdup(list);
	if (!nodes->listed || !nodes->text)
		return trouble_errno(ENOMEM, "LOCKKEEPER_URL");
	int code = nodes_split(nodes, nodes->text);
	unsetenv("LOCKKEEPER_URL");
	return code;
}

/* Drops the servers of the environment, which do not count any more. */
static void nodes_drop_listed(struct nodes *nodes)
{
	if (!nodes->text)
		return;
	free(nodes->text);
	nodes->text = NULL;
	nodes->count = 0;
}

/* Nor do those of the command line. */
static void nodes_drop(struct nodes *nodes)
{
	nodes_drop_listed(nodes);
	while (nodes->named_count > 0)
		free(nodes->named[--nodes->named_count]);
	nodes->count = 0;
	nodes->is_assigned = 0;
}

int nodes_add(struct nodes *nodes, const char *url)
{
	if (nodes->is_assigned)
		nodes_drop(nodes);
	if (nodes->named_count == LK_RED_NODES_MAX)
		return trouble("more than %d servers", LK_RED_NODES_MAX);
	nodes_drop_listed(nodes);
	char *text = strdup(url);
	if (!text)
		return trouble_errno(ENOMEM, "option --url");
	nodes->named[nodes->named_count++] = text;
	return nodes_split(nodes, text);
}

/* -o url=… stands instead of all before it, and --url of it. */
static int nodes_assign(struct nodes *nodes, const char *url)
{
	nodes_drop(nodes);
	int code = nodes_add(nodes, url);
	nodes->is_assigned = 1;
	return code;
}

const char *nodes_assigned_url(const char *assignment)
{
	return strncmp(assignment, "url=", 4) == 0 ? assignment + 4 : NULL;
}

int nodes_note(struct nodes *nodes, const char *assignment)
{
	const char *url = nodes_assigned_url(assignment);
	if (url)
		return nodes_assign(nodes, url);
	size_t size = (nodes->assigned_count + 1) * sizeof(*nodes->assigned);
	const char **more = realloc(nodes->assigned, size);
	if (!more)
		return trouble_errno(ENOMEM, "option -o");
	nodes->assigned = more;
	nodes->assigned[nodes->assigned_count++] = assignment;
	return 0;
}

int nodes_check_quorum(const struct nodes *nodes)
{
	if (nodes->count > 1 && nodes->count < LK_RED_NODES_MIN)
		return trouble("%zu servers: a quorum needs at least %d", nodes->count,
			       LK_RED_NODES_MIN);
	return 0;
}

/* ---- options ---- */

/* To be freed; NULL: no memory. */
static char *value_of(const lk_config *config, const char *name)
{
	char short_one[2];
	int length = lk_config_get(config, name, short_one, sizeof(short_one));
	char *value = length < 0 ? NULL : malloc((size_t)length + 1);
	if (value)
		lk_config_get(config, name, value, (size_t)length + 1);
	return value;
}

static int value_set(lk_config *config, const char *name, const char *value)
{
	lk_error error = {0};
	return lk_config_set(config, name, value, &error) ? trouble_library(&error) : 0;
}

/* No URL on a command line or in a list has a password, and a file of one is read once: it may be a
 * pipe. */
static int is_password(const char *name)
{
	return strstr(name, "password") != NULL;
}

/* The lease of all, and what the record of each client tells of the command. */
static int is_common(const char *name)
{
	return strcmp(name, "watchdog_ms") == 0 || strcmp(name, "client_program") == 0 ||
	       strcmp(name, "note") == 0;
}

static int base_take(struct nodes *nodes, const lk_config *config)
{
	nodes->base = calloc(lk_option_count(), sizeof(*nodes->base));
	for (size_t i = 0; nodes->base && i < lk_option_count(); i++) {
		nodes->base[i] = value_of(config, lk_option_at(i)->name);
		if (!nodes->base[i])
			return trouble_errno(ENOMEM, "option --url");
	}
	return nodes->base ? 0 : trouble_errno(ENOMEM, "option --url");
}

/* Takes back what the URL of another server has set. */
static int base_restore(const struct nodes *nodes, lk_config *config)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < lk_option_count(); i++) {
		const char *name = lk_option_at(i)->name;
		if (strcmp(name, "url") != 0 && !is_password(name) && !is_common(name))
			code = value_set(config, name, nodes->base[i]);
	}
	return code;
}

static int variables_prevail(lk_config *config)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		const char *value = row->environment ? getenv(row->environment) : NULL;
		if (value && strcmp(row->name, "url") != 0 && !is_password(row->name))
			code = value_set(config, row->name, value);
	}
	return code;
}

/* An -o that stands behind the URL. */
static int assigned_prevail(const struct nodes *nodes, lk_config *config, size_t index)
{
	int code = 0;
	for (size_t i = nodes->after[index]; code == 0 && i < nodes->assigned_count; i++) {
		const char *assignment = nodes->assigned[i];
		size_t size = strcspn(assignment, "=");
		if (!memmem(assignment, size, "password", 8))
			code = config_assign(config, assignment);
	}
	return code;
}

/* Makes it the configuration of one of the servers, but for the lease. */
static int node_apply(const struct nodes *nodes, lk_config *config, size_t index)
{
	int code = base_restore(nodes, config);
	if (code == 0)
		code = config_assign_url(config, nodes->url[index]);
	if (code == 0 && nodes->text)
		code = variables_prevail(config);
	return code ? code : assigned_prevail(nodes, config, index);
}

/* Applies it with the lease that the configuration has. */
static int node_apply_leased(const struct nodes *nodes, lk_config *config, size_t index)
{
	char *lease = value_of(config, "watchdog_ms");
	int code = lease ? node_apply(nodes, config, index) : trouble_errno(ENOMEM, "watchdog_ms");
	if (code == 0)
		code = value_set(config, "watchdog_ms", lease);
	free(lease);
	return code;
}

int nodes_settle(struct nodes *nodes, lk_config *config)
{
	if (nodes->listed && setenv("LOCKKEEPER_URL", nodes->listed, 1))
		return trouble_errno(errno, "cannot change the environment");
	int code = nodes->count ? base_take(nodes, config) : 0;
	/* All are checked, and the first stays. */
	for (size_t i = 0; code == 0 && i < nodes->count; i++) {
		if (nodes->text && url_has_secret(nodes->url[i]))
			return trouble("LOCKKEEPER_URL: the command would see a password in a list "
				       "of servers; set LOCKKEEPER_PASSWORD");
		code = node_apply(nodes, config, i);
	}
	return code == 0 && nodes->count > 1 ? node_apply_leased(nodes, config, 0) : code;
}

int nodes_open(const struct nodes *nodes, lk_config *config, lk_client **others_out,
	       size_t *count_out)
{
	int code = 0;
	*count_out = 0;
	for (size_t i = 1; code == 0 && i < nodes->count; i++) {
		code = node_apply_leased(nodes, config, i);
		if (code == 0)
			code = client_open(config, &others_out[*count_out]);
		*count_out += code == 0;
	}
	return code;
}

void nodes_free(struct nodes *nodes)
{
	nodes_drop(nodes);
	for (size_t i = 0; nodes->base && i < lk_option_count(); i++)
		free(nodes->base[i]);
	free(nodes->base);
	free(nodes->assigned);
	free(nodes->listed);
}
