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
	if (code == 0 && setenv("LOCKKEEPER_URL", nodes->url[0], 1))
		code = trouble_errno(errno, "cannot change the environment");
	return code;
}

int nodes_add(struct nodes *nodes, const char *url)
{
	if (nodes->named_count == LK_RED_NODES_MAX)
		return trouble("more than %d servers", LK_RED_NODES_MAX);
	if (nodes->text) { /* the environment's, which do not count now */
		free(nodes->text);
		nodes->text = NULL;
		nodes->count = 0;
	}
	char *text = strdup(url);
	if (!text)
		return trouble_errno(ENOMEM, "option --url");
	nodes->named[nodes->named_count++] = text;
	return nodes_split(nodes, text);
}

int nodes_check_quorum(const struct nodes *nodes)
{
	if (nodes->count > 1 && nodes->count < LK_RED_NODES_MIN)
		return trouble("%zu servers: a quorum needs at least %d", nodes->count,
			       LK_RED_NODES_MIN);
	return 0;
}

int nodes_settle(struct nodes *nodes, lk_config *config)
{
	if (nodes->listed && setenv("LOCKKEEPER_URL", nodes->listed, 1))
		return trouble_errno(errno, "cannot change the environment");
	int code = 0;
	/* All are checked, the first stays. */
	for (size_t i = nodes->count; code == 0 && i > 0; i--) {
		if (nodes->text && url_has_secret(nodes->url[i - 1]))
			return trouble("LOCKKEEPER_URL: the command would see a password in a list "
				       "of servers; set LOCKKEEPER_PASSWORD");
		code = config_assign_url(config, nodes->url[i - 1]);
	}
	return code;
}

int nodes_open(const struct nodes *nodes, lk_config *config, lk_client **others_out,
	       size_t *count_out)
{
	int code = 0;
	*count_out = 0;
	for (size_t i = 1; code == 0 && i < nodes->count; i++) {
		code = config_assign_url(config, nodes->url[i]);
		if (code == 0)
			code = client_open(config, &others_out[*count_out]);
		*count_out += code == 0;
	}
	return code;
}

void nodes_free(struct nodes *nodes)
{
	for (size_t i = 0; i < nodes->named_count; i++)
		free(nodes->named[i]);
	free(nodes->listed);
	free(nodes->text);
}
