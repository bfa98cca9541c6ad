/* SPDX-License-Identifier: MIT */
#include "conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "connect.h"
#include "message.h"
#include "nodes.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* which Windows' editors write */
#define CONF_SIZE_MAX 65536            /* bytes of the file */
#define NOTE "LOCKKEEPER_CONFIG_SET"
#define CONF_LINES_MAX 256 /* that set something */

static struct {
	const char *path;
	char text[CONF_SIZE_MAX + 1]; /* the names and values are in it */
	char fault[600];              /* "": none */
	size_t count;                 /* of what conf_settle() sets */
	struct {
		const lk_option_info *option;
		const char *value;
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

/* /dev/null stands for an empty file. */
static int is_file(const struct stat *status)
{
	return S_ISREG(status->st_mode) ||
	       (S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3));
}

/* At most CONF_SIZE_MAX + 1 bytes, or -1 with errno. Nobody has to write to a pipe: it is none. */
static ssize_t file_read(const char *path, char *text_out)
{
	struct stat status;
	size_t filled = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = fd < 0 || fstat(fd, &status) ? -1 : 1;
	if (got == 1 && !is_file(&status)) {
		errno = S_ISDIR(status.st_mode) ? EISDIR : ESPIPE;
		got = -1;
	}
	while (got > 0 && filled <= CONF_SIZE_MAX) {
		got = read(fd, text_out + filled, CONF_SIZE_MAX + 1 - filled);
		filled += got > 0 ? (size_t)got : 0;
	}
	int failed = errno;
	if (fd >= 0)
		close(fd);
	errno = failed;
	return got < 0 ? -1 : (ssize_t)filled;
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
	ssize_t size = file_read(conf.path, conf.text);
	if (size < 0 && !named && errno == ENOENT)
		return 0;
	if (size < 0)
		return conf_fault(0, "cannot be read%s: %s", named ? " (LOCKKEEPER_CONFIG)" : "",
				  errno == ESPIPE ? "not a regular file" : strerror(errno));
	if (size > CONF_SIZE_MAX)
		return conf_fault(0, "has more than %d bytes", CONF_SIZE_MAX);
	conf.text[size] = '\0';
	return strlen(conf.text) == (size_t)size ? 0 : conf_fault(0, "has a NUL byte");
}

static const lk_option_info *option_find(const char *name)
{
	for (size_t i = 0; i < lk_option_count(); i++)
		if (strcmp(lk_option_at(i)->name, name) == 0)
			return lk_option_at(i);
	return NULL;
}

static int is_url(const lk_option_info *option)
{
	return strcmp(option->name, "url") == 0;
}

/* True if one URL, or one of several with commas between them, has a secret. */
static int urls_have_secret(const char *list)
{
	for (const char *url = list; url; url = strstr(url + 1, "://"))
		if (url_has_secret(url))
			return 1;
	return 0;
}

/* Finds out whether the option can have the value, on a configuration that is thrown away. */
static int assignment_check(lk_config *scratch, int line, const lk_option_info *option,
			    const char *value)
{
	lk_error error = {0};
	if (is_url(option) && *value == '\0')
		return conf_fault(line, "url: the URL is empty");
	if (strcmp(option->type, "secret") == 0 || (is_url(option) && urls_have_secret(value)))
		return conf_fault(line, "%s: no password may stand here: set password_file",
				  option->name);
	if (is_url(option) && nodes_are_several(value))
		return 0; /* each is looked at where they are used */
	return lk_config_set(scratch, option->name, value, &error)
		       ? conf_fault(line, "%s", error.message)
		       : 0;
}

static int line_take(lk_config *scratch, int line, char *text)
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
		return conf_fault(line, "'%s' is not an option%s", text,
				  strchr(" \t", value[-2]) ? " (no blank may stand before the =)"
							   : "");
	int code = assignment_check(scratch, line, option, value);
	if (code)
		return code;
	if (conf.count == CONF_LINES_MAX)
		return conf_fault(line, "more than %d options", CONF_LINES_MAX);
	conf.set[conf.count].option = option;
	conf.set[conf.count++].value = value;
	return 0;
}

/* Sets the variables. Of an option that is set twice the last value counts, and stands there first:
 * a variable that is set prevails. What the file has set is noted, for the next command inside of
 * this one. */
static void environment_fill(void)
{
	static char note[CONF_SIZE_MAX + 1];
	size_t used = 0;
	for (size_t i = conf.count; i-- > 0;) {
		const lk_option_info *option = conf.set[i].option;
		if (getenv(option->environment))
			continue;
		if (setenv(option->environment, conf.set[i].value, 1))
			conf_fault(0, "out of memory");
		used += (size_t)snprintf(note + used, sizeof(note) - used, "%s=%s\n",
					 option->environment, conf.set[i].value);
		if (used >= sizeof(note))
			conf_fault(0, "has too much in it");
		if (conf.fault[0])
			return;
	}
	conf.count = 0;
	if (used && setenv(NOTE, note, 1))
		conf_fault(0, "out of memory");
}

/* Takes back what a file has set for a command around this one: the file may say something else by
 * now, and a service that a job has started would go on with the old server. What has been changed
 * since is somebody's own wish. */
static void environment_take_back(void)
{
	const char *given = getenv(NOTE);
	char *note = given ? strdup(given) : NULL, *next = note, *line;
	while ((line = strsep(&next, "\n"))) {
		char *value = strchr(line, '=');
		if (!value || strncmp(line, "LOCKKEEPER_", 11) != 0)
			continue;
		*value++ = '\0';
		const char *now = getenv(line);
		if (now && strcmp(now, value) == 0)
			unsetenv(line);
	}
	free(note);
	unsetenv(NOTE);
}

void conf_read(void)
{
	lk_config *scratch = NULL;
	environment_take_back();
	/* A URL sets options too. That of the environment prevails over the file in these as well,
	 * so the file's are set before it. */
	int into_environment = getenv("LOCKKEEPER_URL") == NULL, line = 0;
	if (text_read() || conf.text[0] == '\0')
		return;
	if (lk_config_new(&scratch, NULL)) {
		conf_fault(0, "out of memory");
		return;
	}
	char *next = conf.text + (strncmp(conf.text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0);
	while (next && !conf.fault[0]) {
		char *text = strsep(&next, "\n");
		line_take(scratch, ++line, text);
	}
	lk_config_free(scratch);
	if (into_environment && !conf.fault[0])
		environment_fill();
}

const char *conf_naming_server(void)
{
	for (size_t i = 0; i < conf.count; i++)
		if (is_url(conf.set[i].option))
			return conf.path;
	return NULL;
}

int conf_settle(lk_config *config)
{
	lk_error error = {0};
	if (conf.fault[0])
		return trouble("%s", conf.fault);
	for (size_t i = 0; i < conf.count; i++)
		if (!is_url(conf.set[i].option) && /* another server is named */
		    lk_config_set(config, conf.set[i].option->name, conf.set[i].value, &error))
			return trouble_library(&error);
	return 0;
}
