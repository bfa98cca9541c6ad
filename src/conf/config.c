/* SPDX-License-Identifier: MIT */
/*
 * The configuration of a client, driven by the table in options.def.
 *
 * What takes several steps (a URL, the environment) is done on a copy that takes the place of the
 * configuration at the end: a failure changes nothing. The last one to set an option wins, whether
 * by its name or as part of a URL; a URL leaves alone what it does not name.
 */
#include "conf/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "conf/url.h"

/* ---- paths that do not begin at the root ---- */

/*
 * Each is meant from the folder in which the program is when it sets the option. The program may
 * leave that folder afterwards, as whoever goes into the background does, and a client reads its
 * files and finds its socket again with each connection. A path stays as it is where the whole one
 * does not fit, or where that folder has no path (it is removed, say).
 */

/* Writes the path from the root, which `size` bytes hold with its NUL. False: the path stays as it
 * is. */
static bool path_rooted(const char *path, char *rooted_out, size_t size)
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

/* The URL unix://… with that path in it, to be freed; NULL: no memory. */
static char *url_rooted(const char *url, const char *rooted)
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

#define TEXT_MAX 4096          /* bytes in the value of an option */
#define CERTIFICATES_MAX 65536 /* in that of tls_ca_data */
#define QUOTED_MAX 64

/* ---- texts ---- */

/*
 * Writes the text for a message: at most `size` - 1 bytes, control bytes as '?', "..." at the end
 * when it was cut.
 */
static void text_quote(char *quoted, int size, const char *text)
{
	int length = snprintf(quoted, (size_t)size, "%s", text);
	if (length >= size)
		memcpy(quoted + size - 4, "...", 4);
	for (char *at = quoted; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
}

/* ---- the table ---- */

enum kind { KIND_MS, KIND_INT, KIND_TEXT, KIND_FILE, KIND_SECRET, KIND_URL };

#define TYPE_MS "milliseconds"
#define TYPE_INT "integer"
#define TYPE_TEXT "text"
#define TYPE_FILE "file"
#define TYPE_SECRET "secret"
#define TYPE_URL "URL"
#define RANGE_MS(least, most) #least " … " #most
#define RANGE_INT(least, most) #least " … " #most
#define RANGE_TEXT(least, most) ""
#define RANGE_FILE(least, most) ""
#define RANGE_SECRET(least, most) ""
#define RANGE_URL(least, most) ""

struct option {
	lk_option_info info;
	enum kind kind;
	size_t offset; /* of the member in struct lk_config */
	int64_t least;
	int64_t most;
};

/* clang-format off */
#define LK__OPTION(name, NAME, kind, value, least, most, description)                            \
	{{#name, "LOCKKEEPER_" #NAME, TYPE_##kind, value, RANGE_##kind(least, most),             \
	  description},                                                                          \
	 KIND_##kind, offsetof(struct lk_config, name), least, most},
/* clang-format on */
static const struct option options[] = {
#include "conf/options.def"
};
#undef LK__OPTION

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static bool is_number(const struct option *option)
{
	return option->kind == KIND_MS || option->kind == KIND_INT;
}

static int64_t *number_of(const lk_config *config, const struct option *option)
{
	return (int64_t *)((char *)config + option->offset);
}

static char **member_at(const lk_config *config, size_t offset)
{
	return (char **)((char *)config + offset);
}

static char **text_of(const lk_config *config, const struct option *option)
{
	return member_at(config, option->offset);
}

static const struct option *option_find(const char *name)
{
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		if (strcmp(options[i].info.name, name) == 0)
			return &options[i];
	}
	return NULL;
}

/* The texts of options, and the places that a URL names beside them. */
#define TEXTS (OPTION_COUNT + 4)

/* Returns NULL if the option is not a text. */
static char **text_at(const lk_config *config, size_t index)
{
	lk_config *writable = (lk_config *)config;
	char **const places[] = {&writable->host, &writable->places, &writable->seeds,
				 &writable->master};
	if (index >= OPTION_COUNT)
		return places[index - OPTION_COUNT];
	return is_number(&options[index]) ? NULL : text_of(config, &options[index]);
}

/* Frees what the configuration points to. */
static void config_clear(lk_config *config)
{
	for (size_t i = 0; i < TEXTS; i++)
		if (text_at(config, i))
			lk__text_wipe(*text_at(config, i));
	explicit_bzero(config, sizeof(*config));
}

/* Makes `copy` a deep copy. 0, or LK_ENOMEM with nothing to free. */
static int config_copy_to(lk_config *copy, const lk_config *config)
{
	int status = 0;
	*copy = *config;
	for (size_t i = 0; i < TEXTS; i++)
		if (text_at(copy, i))
			*text_at(copy, i) = NULL;
	for (size_t i = 0; i < TEXTS && status == 0; i++)
		if (text_at(copy, i))
			status = lk__text_replace(text_at(copy, i), *text_at(config, i));
	if (status != 0)
		config_clear(copy);
	return status;
}

static int no_memory(lk_error *error)
{
	return lk__fail(error, LK_ENOMEM, "configuration: out of memory");
}

static int refuse(const struct option *option, const char *value, const char *reason,
		  lk_error *error)
{
	char quoted[QUOTED_MAX];
	const char *edge = lk__text_edge(value);
	if (option->kind == KIND_SECRET || option->kind == KIND_URL)
		return lk__fail(error, LK_EINVAL, "%s: the value %s", option->info.name, reason);
	text_quote(quoted, sizeof(quoted), value);
	if (!edge || edge == reason)
		return lk__fail(error, LK_EINVAL, "%s: \"%s\" %s", option->info.name, quoted,
				reason);
	return lk__fail(error, LK_EINVAL, "%s: \"%s\" %s (it %s)", option->info.name, quoted,
			reason, edge);
}

static int set_number(lk_config *config, const struct option *option, const char *value,
		      lk_error *error)
{
	int64_t number = 0;
	const char *reason = lk__text_number(value, &number);
	if (reason)
		return refuse(option, value, reason, error);
	if (number < option->least || number > option->most) {
		char range[80];
		snprintf(range, sizeof(range), "is not in the range %s", option->info.range);
		return refuse(option, value, range, error);
	}
	*number_of(config, option) = number;
	return 0;
}

/* CLIENT SETNAME takes only bytes from '!' to '~'. */
static bool client_name_valid(const char *name)
{
	while (*name > ' ' && *name < 0x7f)
		name++;
	return !*name;
}

/* The texts that are one of a few words, which stand in the order of their enum. */
enum {
	CHOICE_RECORD,
	CHOICE_FSYNC,
	CHOICE_MESSAGES,
	CHOICE_TRACKING,
	CHOICE_SENTINEL_TLS,
	CHOICE_PRIVATE,
	CHOICE_VERIFY
};

static const struct choice {
	size_t offset; /* of the member in struct lk_config */
	const char *words[5];
	const char *fault;
} choices[] = {
	[CHOICE_RECORD] = {offsetof(struct lk_config, client_record),
			   {[LK__RECORDS_OFF] = "off",
			    [LK__RECORDS_SHORT] = "short",
			    [LK__RECORDS_FULL] = "full",
			    [LK__RECORDS_ARGUMENTS] = "arguments"},
			   "is not off, short, full or arguments"},
	[CHOICE_FSYNC] = {offsetof(struct lk_config, fsync_acks),
			  {[LK__FSYNC_OFF] = "off",
			   [LK__FSYNC_LOCAL] = "local",
			   [LK__FSYNC_REPLICAS] = "replicas"},
			  "is not off, local or replicas"},
	[CHOICE_MESSAGES] = {offsetof(struct lk_config, messages),
			     {[LK__MESSAGES_PLAIN] = "plain",
			      [LK__MESSAGES_SHARDED] = "sharded",
			      [LK__MESSAGES_BOTH] = "both"},
			     "is not plain, sharded or both"},
	[CHOICE_TRACKING] = {offsetof(struct lk_config, tracking),
			     {"off", "on"},
			     "is not on or off"},
	[CHOICE_SENTINEL_TLS] = {offsetof(struct lk_config, sentinel_tls),
				 {"", "on", "off"},
				 "is not on, off or empty"},
	[CHOICE_PRIVATE] = {offsetof(struct lk_config, private),
			    {"", "on", "off"},
			    "is not on, off or empty"},
	[CHOICE_VERIFY] = {offsetof(struct lk_config, tls_verify),
			   {[LK__VERIFY_ON] = "on",
			    [LK__VERIFY_AUTHORITY] = "authority",
			    [LK__VERIFY_OFF] = "off"},
			   "is not on, authority or off"},
};

/* Which of its words it is; -1: none. */
static int choice_at(const struct choice *choice, const char *value)
{
	for (int at = 0; choice->words[at]; at++)
		if (strcmp(value, choice->words[at]) == 0)
			return at;
	return -1;
}

static void config_choose(lk_config *config)
{
	config->chosen = (struct lk__chosen){
		.records = (enum lk__records)choice_at(&choices[CHOICE_RECORD],
						       config->client_record),
		.fsync = (enum lk__fsync)choice_at(&choices[CHOICE_FSYNC], config->fsync_acks),
		.messages = (enum lk__messages)choice_at(&choices[CHOICE_MESSAGES],
							 config->messages),
		.tracks = choice_at(&choices[CHOICE_TRACKING], config->tracking) == 1,
		.verify = (enum lk__verify)choice_at(&choices[CHOICE_VERIFY], config->tls_verify),
	};
}

/* The copy, changed without a failure, takes the configuration's place; or it goes. */
static int config_end(lk_config *config, lk_config *copy, int status)
{
	if (status == 0)
		config_choose(copy);
	config_clear(status == 0 ? config : copy);
	if (status == 0)
		*config = *copy;
	explicit_bzero(copy, sizeof(*copy));
	return status;
}

static bool replica_acks_valid(const char *value)
{
	int64_t number = 0;
	return strcmp(value, "all") == 0 ||
	       (lk__text_number(value, &number) == NULL && number >= 0 && number <= LK__ACKS_MAX);
}

void lk__config_place(const struct lk_config *config, char *place_out)
{
	if (config->scheme == LK__SCHEME_UNIX)
		snprintf(place_out, LK__PLACE_SIZE, "%s", config->host);
	else
		lk__place_name(place_out, config->host, config->port);
}

int lk__config_point(struct lk_config *config, const char *place)
{
	char host[LK__PLACE_SIZE];
	lk__place_next(place, host, &config->port);
	return lk__text_replace(&config->host, host);
}

int lk__config_acks(const struct lk_config *config)
{
	bool all = strcmp(config->replica_acks, "all") == 0;
	return all ? LK__ACKS_ALL : (int)strtol(config->replica_acks, NULL, 10);
}

/* With appendfsync everysec a disk is synced once a second, and then a replica tells of it within
 * another second. A third of the limit (acks.c) leaves a second more. */
void lk__config_fit_limits(struct lk_config *config)
{
	static const int64_t least_ms[] = {
		[LK__FSYNC_LOCAL] = 6000,
		[LK__FSYNC_REPLICAS] = 9000,
	};
	enum lk__fsync fsync = config->chosen.fsync;
	if (config->command_timeout_ms < least_ms[fsync])
		config->command_timeout_ms = least_ms[fsync];
}

/* The fault that keeps it from being the name or address in a certificate; NULL: none. */
static const char *server_name_fault(const char *name)
{
	struct in6_addr address;
	return *name && inet_pton(AF_INET6, name, &address) != 1 ? lk__host_fault(name) : NULL;
}

const char *lk__note_fault(const char *note)
{
	size_t left = strnlen(note, LK__NOTE_MAX + 1);
	if (left > LK__NOTE_MAX)
		return "is longer than 256 bytes";
	for (size_t size; left > 0; note += size, left -= size) {
		size = lk__utf8_size(note, left);
		if (size == 0)
			return "is not UTF-8";
		/* C0, DEL, and C1, which are 0xc2 and a second byte below 0xa0. */
		if ((unsigned char)*note < ' ' || *note == 0x7f ||
		    ((unsigned char)*note == 0xc2 && (unsigned char)note[1] < 0xa0))
			return "has a control character";
	}
	return NULL;
}

/* The fault that keeps it from being the value of an option that is a text; NULL: none. */
static const char *text_fault(const struct option *option, const char *value)
{
	bool certificates = option->offset == offsetof(struct lk_config, tls_ca_data);
	if (strlen(value) > (certificates ? CERTIFICATES_MAX : TEXT_MAX))
		return certificates ? "is longer than 65536 bytes" : "is longer than 4096 bytes";
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		if (choices[i].offset == option->offset && choice_at(&choices[i], value) < 0)
			return choices[i].fault;
	if (option->kind == KIND_FILE && lk__text_edge(value))
		return lk__text_edge(value);
	switch (option->offset) {
	/* With a line break, say, it would be another name, and a lock of its own. */
	case offsetof(struct lk_config, key_prefix):
	case offsetof(struct lk_config, username):
	case offsetof(struct lk_config, sentinel_username):
		return lk__text_edge(value);
	case offsetof(struct lk_config, client_name):
		return client_name_valid(value) ? NULL : "has a blank or a byte that is not ASCII";
	case offsetof(struct lk_config, replica_acks):
		return replica_acks_valid(value) ? NULL : "is not all or a number from 0 to 64";
	case offsetof(struct lk_config, tls_server_name):
		return server_name_fault(value);
	case offsetof(struct lk_config, note):
		return lk__note_fault(value);
	case offsetof(struct lk_config, address_map):
		return lk__address_map_fault(value);
	default:
		return NULL;
	}
}

static int set_text(lk_config *config, const struct option *option, const char *value,
		    lk_error *error)
{
	const char *fault = text_fault(option, value);
	char rooted[PATH_MAX];
	if (fault)
		return refuse(option, value, fault, error);
	if (option->kind == KIND_FILE && path_rooted(value, rooted, sizeof(rooted)))
		value = rooted;
	return lk__text_replace(text_of(config, option), value) == 0 ? 0 : no_memory(error);
}

/* Passwords, and the files whose first lines they may be: members of struct lk_config. */
static const struct {
	size_t secret, file;
} secrets[] = {
	{offsetof(struct lk_config, password), offsetof(struct lk_config, password_file)},
	{offsetof(struct lk_config, sentinel_password),
	 offsetof(struct lk_config, sentinel_password_file)},
	{offsetof(struct lk_config, tls_key_password),
	 offsetof(struct lk_config, tls_key_password_file)},
};

/* The option that a file's first line is for; NULL: the file is of another kind. */
static char **secret_of_file(lk_config *config, const struct option *option)
{
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (secrets[i].file == option->offset)
			return member_at(config, secrets[i].secret);
	return NULL;
}

/* An empty path names no file, and leaves the password as it is. */
static int set_password_file(lk_config *config, const struct option *option, const char *path,
			     lk_error *error)
{
	char line[LK__PASSWORD_MAX + 2];
	const char *reason = NULL;
	if (!*path || lk__text_edge(path))
		return set_text(config, option, path, error);
	int failed = lk__password_read(path, false, line, &reason);
	if (failed) {
		char quoted[QUOTED_MAX];
		text_quote(quoted, sizeof(quoted), path);
		return lk__fail_errno(error, LK_EINVAL, -failed, "%s: \"%s\" cannot be read",
				      option->info.name, quoted);
	}
	int status = reason ? refuse(option, path, reason, error)
			    : set_text(config, option, path, error);
	if (status == 0 && lk__text_replace(secret_of_file(config, option), line) != 0)
		status = no_memory(error);
	explicit_bzero(line, sizeof(line));
	return status;
}

/* It takes the place of a file's, which is not read again. */
static int set_secret(lk_config *config, const struct option *option, const char *value,
		      lk_error *error)
{
	int status = set_text(config, option, value, error);
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]) && status == 0; i++)
		if (secrets[i].secret == option->offset)
			**member_at(config, secrets[i].file) = '\0';
	return status;
}

static int set_option(lk_config *config, const char *name, const char *value, lk_error *error);

/* The query may set what has no place of its own in a URL, and reads no files for secrets. */
static int set_query_option(lk_config *config, const struct lk__url_option *given, lk_error *error)
{
	static const char *const refused[] = {"url",
					      "username",
					      "password",
					      "password_file",
					      "sentinel_username",
					      "sentinel_password",
					      "sentinel_password_file",
					      "tls_key_password",
					      "tls_key_password_file"};
	const struct option *option = option_find(given->name);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (option && strcmp(given->name, refused[i]) == 0)
			return lk__fail(error, LK_EINVAL, "url: the query cannot set %s",
					refused[i]);
	}
	return set_option(config, given->name, given->value, error);
}

static int apply_url(lk_config *config, const struct lk__url *url, lk_error *error)
{
	int status = 0;
	config->scheme = url->scheme;
	config->deployment = url->deployment;
	config->port = url->port;
	const char *places = url->places ? url->places : "";
	if (lk__text_replace(&config->host, url->host) != 0 ||
	    lk__text_replace(&config->places, places) != 0 ||
	    lk__text_replace(&config->seeds, url->deployment == LK__CLUSTER ? places : "") != 0 ||
	    lk__text_replace(&config->master, url->master ? url->master : "") != 0 ||
	    lk__text_replace(&config->url, url->shown) != 0)
		status = no_memory(error);
	if (status == 0 && url->user)
		status = set_option(config, "username", url->user, error);
	if (status == 0 && url->password)
		status = set_option(config, "password", url->password, error);
	if (status == 0 && url->database)
		status = set_option(config, "database", url->database, error);
	for (int i = 0; i < url->option_count && status == 0; i++)
		status = set_query_option(config, &url->options[i], error);
	return status;
}

/* A socket's path is meant from here. */
static int url_root(struct lk__url *url, lk_error *error)
{
	struct sockaddr_un address;
	char rooted[sizeof(address.sun_path)];
	if (url->scheme != LK__SCHEME_UNIX || !path_rooted(url->host, rooted, sizeof(rooted)))
		return 0;
	char *shown = url_rooted(url->shown, rooted);
	if (!shown || lk__text_replace(&url->host, rooted) != 0) {
		free(shown);
		return no_memory(error);
	}
	free(url->shown);
	url->shown = shown;
	return 0;
}

/* An empty URL names no node. */
static int set_url(lk_config *config, const char *value, lk_error *error)
{
	struct lk__url url;
	if (!*value) {
		config->scheme = LK__SCHEME_NONE;
		config->deployment = LK__SINGLE;
		*config->url = *config->host = *config->places = *config->master = '\0';
		*config->seeds = '\0';
		return 0;
	}
	int status = lk__url_parse(&url, value, error);
	if (status == 0)
		status = url_root(&url, error);
	if (status == 0)
		status = apply_url(config, &url, error);
	lk__url_free(&url);
	return status;
}

/* Sets an option in a configuration that is thrown away after a failure. */
static int set_option(lk_config *config, const char *name, const char *value, lk_error *error)
{
	const struct option *option = option_find(name);
	if (!option) {
		char quoted[QUOTED_MAX];
		text_quote(quoted, sizeof(quoted), name);
		return lk__fail(error, LK_EINVAL, "\"%s\" is not an option", quoted);
	}
	if (is_number(option))
		return set_number(config, option, value, error);
	if (option->kind == KIND_URL)
		return set_url(config, value, error);
	if (secret_of_file(config, option))
		return set_password_file(config, option, value, error);
	if (option->kind == KIND_SECRET)
		return set_secret(config, option, value, error);
	return set_text(config, option, value, error);
}

int lk_config_new(lk_config **config_out, lk_error *error)
{
	if (!config_out)
		return lk__fail(error, LK_EINVAL, "lk_config_new: config_out is NULL");
	lk_config *config = calloc(1, sizeof(*config));
	int status = config ? 0 : LK_ENOMEM;
	for (size_t i = 0; i < TEXTS && status == 0; i++) {
		const char *value = i < OPTION_COUNT ? options[i].info.default_value : "";
		status = text_at(config, i) ? lk__text_replace(text_at(config, i), value)
					    : set_number(config, &options[i], value, error);
	}
	if (status != 0) {
		lk_config_free(config);
		return no_memory(error);
	}
	config_choose(config);
	*config_out = config;
	return 0;
}

lk_config *lk_config_free(lk_config *config)
{
	if (config) {
		config_clear(config);
		free(config);
	}
	return NULL;
}

struct lk_config *lk__config_copy(const struct lk_config *config)
{
	struct lk_config *copy = calloc(1, sizeof(*copy));
	if (copy && config_copy_to(copy, config) != 0) {
		free(copy);
		return NULL;
	}
	return copy;
}

int lk_config_set(lk_config *config, const char *name, const char *value, lk_error *error)
{
	if (!config || !name || !value)
		return lk__fail(error, LK_EINVAL, "lk_config_set: config, name or value is NULL");
	lk_config copy;
	if (config_copy_to(&copy, config) != 0)
		return no_memory(error);
	return config_end(config, &copy, set_option(&copy, name, value, error));
}

int lk_config_load_environment(lk_config *config, lk_error *error)
{
	lk_config copy;
	int status = 0;
	if (!config)
		return lk__fail(error, LK_EINVAL, "lk_config_load_environment: config is NULL");
	if (config_copy_to(&copy, config) != 0)
		return no_memory(error);
	/* In the order of the table, so that an option of its own wins over one in the URL. */
	for (size_t i = 0; i < OPTION_COUNT && status == 0; i++) {
		const char *value = secure_getenv(options[i].info.environment);
		if (value)
			status = set_option(&copy, options[i].info.name, value, error);
	}
	return config_end(config, &copy, status);
}

int lk_config_get(const lk_config *config, const char *name, char *text_out, size_t size)
{
	char number[24];
	const struct option *option = config && name ? option_find(name) : NULL;
	if (!option || (!text_out && size > 0))
		return LK_EINVAL;
	const char *text = number;
	if (is_number(option))
		snprintf(number, sizeof(number), "%" PRId64, *number_of(config, option));
	else
		text = *text_of(config, option);
	if (option->kind == KIND_SECRET && *text)
		text = "***";
	return snprintf(text_out, size, "%s", text);
}

void lk_config_set_log(lk_config *config, int level, lk_log_callback callback, void *context)
{
	config->log = (struct lk__log){callback ? level : 0, callback, context, NULL};
}

void lk_config_set_log_fd(lk_config *config, int level, int fd)
{
	lk_config_set_log(config, level, fd < 0 ? NULL : lk__log_to_fd, (void *)(intptr_t)fd);
}

void lk_config_set_threadless(lk_config *config, lk_resolve_callback resolve, void *context)
{
	config->threadless = true;
	config->resolve = resolve;
	config->resolve_context = context;
}

void lk_config_set_credentials(lk_config *config, lk_credentials_callback callback, void *context)
{
	config->credentials = callback;
	config->credentials_context = context;
}

size_t lk_option_count(void)
{
	return OPTION_COUNT;
}

const lk_option_info *lk_option_at(size_t index)
{
	return index < OPTION_COUNT ? &options[index].info : NULL;
}

/* Tells whether the host to connect to there is a name: which. */
static bool config_needs_name(const struct lk_config *config, const char *host, int port,
			      char *host_out)
{
	return !lk__address_map(config->address_map, host, port, host_out, &port) &&
	       !lk__host_is_address(host);
}

/* A threadless client looks no name up by itself, of none of its servers. */
static int config_check_names(const struct lk_config *config, lk_error *error)
{
	char host[LK__PLACE_SIZE], listed[LK__PLACE_SIZE];
	int port;
	const char *places = config->places;
	bool is_name = config->scheme != LK__SCHEME_UNIX &&
		       config_needs_name(config, config->host, config->port, host);
	while (!is_name && (places = lk__place_next(places, listed, &port)))
		is_name = config_needs_name(config, listed, port, host);
	if (!is_name && !lk__address_map_name(config->address_map, host))
		return 0;
	return lk__fail(error, LK_EINVAL,
			"%s: \"%.200s\" is a name, and a client without threads looks none up: "
			"set an address, or a callback that resolves it",
			is_name ? "url" : "address_map", host);
}

static bool config_has_tls(const struct lk_config *config)
{
	return *config->tls_ca_file || *config->tls_ca_dir || *config->tls_ca_data ||
	       *config->tls_cert_file || *config->tls_server_name ||
	       config->chosen.verify != LK__VERIFY_ON;
}

int lk__config_check(const struct lk_config *config, lk_error *error)
{
	if (config->scheme == LK__SCHEME_NONE)
		return lk__fail(error, LK_EINVAL,
				"url: no node is named (set url or LOCKKEEPER_URL)");
	if (*config->username && !*config->password && !config->credentials)
		return lk__fail(error, LK_EINVAL, "username: set without a password");
	if (*config->sentinel_username && !*config->sentinel_password)
		return lk__fail(error, LK_EINVAL, "sentinel_username: set without a password");
	if (config->chosen.messages != LK__MESSAGES_PLAIN && config->deployment != LK__CLUSTER)
		return lk__fail(error, LK_EINVAL,
				"messages: only those of a cluster are sharded (redis-cluster://)");
	if (!*config->tls_cert_file != !*config->tls_key_file)
		return lk__fail(error, LK_EINVAL,
				"tls_cert_file, tls_key_file: one is set without the other");
	if (*config->tls_key_password && !*config->tls_key_file)
		return lk__fail(error, LK_EINVAL, "tls_key_password: set without tls_key_file");
	bool plain = config->scheme == LK__SCHEME_TCP && strcmp(config->sentinel_tls, "on") != 0;
	if (plain && config_has_tls(config))
		return lk__fail(error, LK_EINVAL,
				"url: it is redis://, but TLS options are set (use rediss://)");
	if (config->threadless && !config->resolve && config_check_names(config, error) != 0)
		return LK_EINVAL;
	if (config->backoff_min_ms > config->backoff_max_ms)
		return lk__fail(error, LK_EINVAL, "backoff_min_ms: larger than backoff_max_ms");
	return 0;
}
