/* SPDX-License-Identifier: MIT */
#include "working_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VALUE_SIZE PATH_MAX

/* The path of a URL's socket, else NULL. */
static const char *socket_path(const char *url)
{
	if (strncmp(url, "unix://", 7) != 0)
		return NULL;
	const char *path = url + 7;
	const char *at = memchr(path, '@', strcspn(path, "?"));
	return at ? at + 1 : path;
}

int working_folder_needed(const lk_config *config)
{
	char value[VALUE_SIZE];
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		int is_url = strcmp(row->name, "url") == 0;
		if (!is_url && strcmp(row->type, "file") != 0)
			continue;
		if (lk_config_get(config, row->name, value, sizeof(value)) <= 0)
			continue;
		const char *path = is_url ? socket_path(value) : value;
		if (path && *path != '/' && strncasecmp(path, "%2F", 3) != 0)
			return 1;
	}
	return 0;
}

/* A list of paths with colons between. */
static void paths_root(const char *variable, const char *folder)
{
	const char *value = getenv(variable);
	char *list = value ? strdup(value) : NULL, *next = list, *path, *rooted = NULL;
	size_t size;
	FILE *out = list ? open_memstream(&rooted, &size) : NULL;
	while (out && (path = strsep(&next, ":")))
		fprintf(out, "%s%s%s%s", *path && *path != '/' ? folder : "",
			*path && *path != '/' ? "/" : "", path, next ? ":" : "");
	if (out && fclose(out) == 0)
		setenv(variable, rooted, 1);
	free(rooted);
	free(list);
}

void working_folder_leave(void)
{
	char folder[PATH_MAX];
	if (getcwd(folder, sizeof(folder))) {
		paths_root("SSL_CERT_FILE", folder);
		paths_root("SSL_CERT_DIR", folder);
	}
	if (chdir("/"))
		errno = 0; /* then it stays where it is */
}
