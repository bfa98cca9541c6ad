/* SPDX-License-Identifier: MIT */
#include "conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connect.h"
#include "message.h"
#include "nodes.h"

#define CONF_SIZE_MAX 65536 /* bytes of the file */
#define CONF_LINES_MAX 256  /* that set something */

static struct {
	const char *path;
	char text[CONF_SIZE_MAX + 1]; /* the names and values are in it */
	char fault[600];              /* "": none */
	int names_server;             /* which counts for nothing: the environment has a URL */
	size_t count;                 /* of what conf_settle() sets */
	struct {
		const char *name, *value;
	} set[CONF_LINES_MAX];
} conf;

__attribute__((format(printf, 2, 3))) static int conf_fault(int line, const char *format, ...)
{
	char text[500];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (line)
		snprintf(conf.fault, sizeof(conf.fault), "%.80s:%d: %s", conf.path, line, text);
	else
		snprintf(conf.fault, sizeof(conf.fault), "%.80s: %s", conf.path, text);
	return -1;
}

/* Only the file that is there without being named may be missing. */
static int text_read(void)
{
	const char *named = getenv("LOCKKEEPER_CONFIG");
	conf.path = named ? named : CONF_PATH;
	if (named && !*named) {
		snprintf(conf.fault, sizeof(conf.fault),
			 "LOCKKEEPER_CONFIG is empty: name a file there, or unset it to "
			 "use " CONF_PATH);
		return -1;
	}
	FILE *file = fopen(conf.path, "re");
	if (!file && !named && errno == ENOENT)
		return 0;
	if (!file)
		return conf_fault(0, "cannot be read%s: %s", named ? " (LOCKKEEPER_CONFIG)" : "",
				  strerror(errno));
	size_t size = fread(conf.text, 1, sizeof(conf.text), file);
	int failed = ferror(file) ? errno : 0;
	fclose(file);
	if (failed)
		return conf_fault(0, "cannot be read: %s", strerror(failed));
	if (size > CONF_SIZE_MAX)
		return conf_fault(0, "has more than %d bytes", CONF_SIZE_MAX);
	conf.text[size] = '\0';
	return strlen(conf.text) == size ? 0 : conf_fault(0, "has a NUL byte");
}

static const lk_option_info *option_find(const char *name)
{
	for (size_t i = 0; i < lk_option_count(); i++)
		if (strcmp(lk_option_at(i)->name, name) == 0)
			return lk_option_at(i);
	return NULL;
}

/* Of one URL, or of several with commas between them. */
static int urls_have_secret(const char *list)
{
	for (const char *url = list; url; url = strstr(url + 1, "://"))
		if (url_has_secret(url))
			return 1;
	return 0;
}

/* Whether the option can have the value, on a configuration that is thrown away. */
static int assignment_check(lk_config *scratch, int line, const lk_option_info *option,
			    const char *value)
{
	lk_error error = {0};
	int is_url = strcmp(option->name, "url") == 0;
	if (is_url && *value == '\0')
		return conf_fault(line, "url: the URL is empty");
	if (strcmp(option->type, "secret") == 0 || (is_url && urls_have_secret(value)))
		return conf_fault(line, "%s: no password may stand here: set password_file",
				  option->name);
	if (is_url && nodes_are_several(value))
		return 0; /* each is looked at where they are used */
	return lk_config_set(scratch, option->name, value, &error)
		       ? conf_fault(line, "%s", error.message)
		       : 0;
}

static int line_take(lk_config *scratch, int line, char *text, int into_environment)
{
	text += strspn(text, " \t");
	for (size_t end = strlen(text); end > 0 && strchr(" \t\r", text[end - 1]); end--)
		text[end - 1] = '\0';
	char *value = strchr(text, '=');
	if (*text == '\0' || *text == '#')
		return 0;
	if (!value || value == text)
		return conf_fault(line, "'%s' is not NAME=VALUE", text);
	*value++ = '\0';
	const lk_option_info *option = option_find(text);
	if (!option)
		return conf_fault(line, "'%s' is not an option", text);
	int code = assignment_check(scratch, line, option, value);
	if (code)
		return code;
	if (into_environment)
		return setenv(option->environment, value, 0) ? conf_fault(line, "out of memory")
							     : 0;
	if (strcmp(option->name, "url") == 0) { /* another one is named */
		conf.names_server = 1;
		return 0;
	}
	if (conf.count == CONF_LINES_MAX)
		return conf_fault(line, "more than %d options", CONF_LINES_MAX);
	conf.set[conf.count].name = option->name;
	conf.set[conf.count++].value = value;
	return 0;
}

void conf_read(void)
{
	lk_config *scratch = NULL;
	/* A URL sets options too. That of the environment prevails over the file in these as well,
	 * so the file's are set before it. */
	int into_environment = getenv("LOCKKEEPER_URL") == NULL, line = 0;
	if (text_read() || conf.text[0] == '\0')
		return;
	if (lk_config_new(&scratch, NULL)) {
		conf_fault(0, "out of memory");
		return;
	}
	char *next = conf.text;
	while (next && !conf.fault[0]) {
		char *text = strsep(&next, "\n");
		line_take(scratch, ++line, text, into_environment);
	}
	lk_config_free(scratch);
}

const char *conf_naming_server(void)
{
	return conf.names_server ? conf.path : NULL;
}

int conf_settle(lk_config *config)
{
	lk_error error = {0};
	if (conf.fault[0])
		return trouble("%s", conf.fault);
	for (size_t i = 0; i < conf.count; i++)
		if (lk_config_set(config, conf.set[i].name, conf.set[i].value, &error))
			return trouble_library(&error);
	return 0;
}
