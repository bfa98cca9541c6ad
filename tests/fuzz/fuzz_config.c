/*
 * Options and URLs, whatever they are: taken or refused whole, and a secret is never shown.
 *
 * The input is "name value"; a "$" in the value becomes a secret that must not come out again
 * but as a password.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "conf/config.h"

#define SECRET "hunter2secret"
#define INPUT_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fuzz_config: %s\n", what);
	abort();
}

/* All that a user can see of the configuration, in one text. */
static char *show(const lk_config *config)
{
	size_t size = lk_option_count() * 8192;
	size_t used = 0;
	char *text = calloc(1, size);
	for (size_t i = 0; i < lk_option_count(); i++) {
		int length = lk_config_get(config, lk_option_at(i)->name, text + used, size - used);
		require(length >= 0, "an option that cannot be shown");
		used += (size_t)length;
		require(used + 1 < size, "a value beyond all limits");
		text[used++] = '\n';
	}
	return text;
}

static void check_taken(const lk_config *config, const char *shown)
{
	require(config->scheme == LK__SCHEME_NONE || config->host[0], "a URL without a host");
	require(config->scheme != LK__SCHEME_TCP || (config->port > 0 && config->port < 65536),
		"a port out of range");
	/* Whatever holds the password is a secret; a user may put the text elsewhere himself. */
	if (strstr(config->password, SECRET) && strstr(shown, SECRET))
		require(strstr(config->username, SECRET) || strstr(config->host, SECRET) ||
				strstr(config->client_name, SECRET) ||
				strstr(strchr(config->url, '@'), SECRET),
			"the password is shown");
}

static void set_and_check(const char *name, const char *value)
{
	lk_config *config = NULL;
	lk_error error = {0};
	require(lk_config_new(&config, &error) == 0, "out of memory");
	char *before = show(config);
	int code = lk_config_set(config, name, value, &error);
	char *after = show(config);
	require(code == 0 || code == LK_EINVAL, "an unexpected code");
	require(error.code == code, "the error tells another code");
	require(strpbrk(error.message, "\n\r\t\x7f") == NULL, "a message of several lines");
	if (code != 0)
		require(strcmp(before, after) == 0, "a refusal that changed something");
	else
		check_taken(config, after);
	lk_config_free(lk__config_copy(config));
	lk_config_free(config);
	free(before);
	free(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char name[INPUT_MAX + 1] = "";
	char value[INPUT_MAX * sizeof(SECRET) + 1] = "";
	const uint8_t *blank = memchr(bytes, ' ', size);
	size_t used = 0;
	if (!blank || size > INPUT_MAX)
		return 0;
	memcpy(name, bytes, (size_t)(blank - bytes));
	/* A file is not for a fuzzer to choose. */
	if (strcmp(name, "password_file") == 0)
		return 0;
	for (const uint8_t *at = blank + 1; at < bytes + size; at++) {
		if (*at == '$') {
			memcpy(value + used, SECRET, sizeof(SECRET) - 1);
			used += sizeof(SECRET) - 1;
		} else {
			value[used++] = (char)*at;
		}
	}
	set_and_check(name, value);
	return 0;
}
