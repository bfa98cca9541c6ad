/* SPDX-License-Identifier: MIT */
#include "error_text.h"

#include <string.h>

static void text_remove(char *from, size_t size)
{
	memmove(from, from + size, strlen(from + size) + 1);
}

static void prefix_remove(char *text, const char *prefix)
{
	if (strncmp(text, prefix, strlen(prefix)) == 0)
		text_remove(text, strlen(prefix));
}

/* "lk_event_wait: …" loses its first word, "lk_lock_release "job": …" becomes "release …". */
void error_text_plain(char *text)
{
	if (strncmp(text, "lk_", 3) != 0)
		return;
	size_t size = strcspn(text, " :");
	if (text[size] == ':') {
		text_remove(text, size + 1 + (text[size + 1] == ' '));
		return;
	}
	prefix_remove(text, "lk_");
	prefix_remove(text, "lock_");
	for (char *at = text; *at && *at != ' '; at++)
		if (*at == '_')
			*at = ' ';
}
