/* SPDX-License-Identifier: MIT */
#include "conf/rooted.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool lk__path_rooted(const char *path, char *rooted_out, size_t size)
{
	char folder[PATH_MAX];
	if (*path == '/' || !*path || !getcwd(folder, sizeof(folder)) || *folder != '/')
		return false;
	size_t length = strlen(folder);
	const char *between = folder[length - 1] == '/' ? "" : "/";
	int written = snprintf(rooted_out, size, "%s%s%s", folder, between, path);
	return written > 0 && (size_t)written < size;
}

/* Where its path begins: behind the user. */
static const char *path_find(const char *url)
{
	const char *path = strstr(url, "://") + 3;
	const char *at = memchr(path, '@', strcspn(path, "?"));
	return at ? at + 1 : path;
}

char *lk__url_rooted(const char *url, const char *rooted)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";
	const char *path = path_find(url);
	const char *rest = path + strcspn(path, "?");
	size_t head = (size_t)(path - url), used = head;
	size_t size = head + 3 * strlen(rooted) + strlen(rest) + 1;
	char *made = malloc(size);
	if (!made)
		return NULL;
	memcpy(made, url, head);
	for (; *rooted; rooted++) {
		if (strchr(plain, *rooted))
			made[used++] = *rooted;
		else
			used += (size_t)snprintf(made + used, size - used, "%%%02X",
						 (unsigned char)*rooted);
	}
	memcpy(made + used, rest, strlen(rest) + 1);
	return made;
}
