/* SPDX-License-Identifier: MIT */
#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "message.h"
#include "server.h"

#define DEAD_STACK_SIZE 32768
#define OPTION_NAME_SIZE 64 /* longer than any option's name */
#define PRIVATE_REFUSED "the private server is refused by --no-private, or private=off"

static int private_used;    /* no server was named */
static char tls_verify[16]; /* what is verified less than it should; "": nothing */

static const lk_option_info *option_find(const char *name, size_t size)
{
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		if (strlen(row->name) == size && memcmp(row->name, name, size) == 0)
			return row;
	}
	return NULL;
}

static int option_is_secret(const char *name, size_t size)
{
	const lk_option_info *row = option_find(name, size);
	return row && strcmp(row->type, "secret") == 0;
}

/* The length of the part of `url` before a password ("unix://user") in `*head_out`, and of the
 * password with its colon in `*secret_out`: 0 when there is none. */
static void url_find_password(const char *url, size_t *head_out, size_t *secret_out)
{
	*secret_out = 0;
	const char *authority = strstr(url, "://");
	authority = authority ? authority + 3 : url;
	/* A path of a unix socket begins with a slash; so no "@" after one is of the authority. */
	const char *end = authority + strcspn(authority, "/?#");
	const char *at = memrchr(authority, '@', (size_t)(end - authority));
	const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
	*head_out = strlen(url);
	if (!colon)
		return;
	*head_out = (size_t)(colon - url);
	*secret_out = (size_t)(at - colon);
}

/* 1 when the query of the URL sets a secret option. */
static int url_query_has_secret(const char *url)
{
	const char *next = strchr(url, '?');
	while (next) {
		const char *name = next + 1;
		if (option_is_secret(name, strcspn(name, "=&")))
			return 1;
		next = strchr(name, '&');
	}
	return 0;
}

static int secret_refuse(const char *what)
{
	return trouble("%s: every user of this machine can read an argument list; set "
		       "LOCKKEEPER_PASSWORD, or -o password_file=FILE",
		       what);
}

int url_has_secret(const char *url)
{
	size_t head, secret;
	url_find_password(url, &head, &secret);
	/* A colon with nothing behind it is no secret. */
	return secret > 1 || url_query_has_secret(url);
}

int config_assign_url(lk_config *config, const char *url)
{
	lk_error error = {0};
	if (*url == '\0')
		return trouble("option --url: the URL is empty");
	if (url_has_secret(url))
		return secret_refuse("a password in the URL");
	return lk_config_set(config, "url", url, &error) ? trouble_library(&error) : 0;
}

int config_assign(lk_config *config, const char *assignment)
{
	lk_error error = {0};
	char name[OPTION_NAME_SIZE];
	size_t size = strcspn(assignment, "=");
	if (assignment[size] != '=' || size == 0 || size >= sizeof(name))
		return trouble("option -o: the value must be NAME=VALUE");
	memcpy(name, assignment, size);
	name[size] = '\0';
	if (option_is_secret(name, size))
		return secret_refuse(name);
	if (strcmp(name, "url") == 0)
		return config_assign_url(config, assignment + size + 1);
	return lk_config_set(config, name, assignment + size + 1, &error) ? trouble_library(&error)
									  : 0;
}

static int url_empty_refuse(int is_refused)
{
	const char *file = conf_naming_server();
	if (file)
		return trouble("LOCKKEEPER_URL is empty: name a server there, or unset it to use "
			       "the one in %s",
			       file);
	return trouble("LOCKKEEPER_URL is empty: name a server there%s",
		       is_refused ? "" : ", or unset it to use the private server");
}

/* Finds out whether the private server may be used. 0, or EXIT_TROUBLE (said). */
static int private_check(const char *wish)
{
	int is_refused = strcmp(wish, "off") == 0;
	if (getenv("LOCKKEEPER_URL")) /* one that names a server has become the URL */
		return url_empty_refuse(is_refused);
	if (is_refused)
		return trouble("no server is named: set LOCKKEEPER_URL or --url (" PRIVATE_REFUSED
			       ")");
	return 0;
}

int private_check_start(const lk_config *config)
{
	char wish[8];
	if (lk_config_get(config, "private", wish, sizeof(wish)) < 0)
		return trouble("the library has no option private");
	return strcmp(wish, "off") == 0 ? trouble("server start: " PRIVATE_REFUSED) : 0;
}

int config_settle(lk_config *config)
{
	char url[8], wish[8]; /* only whether there is one */
	lk_error error = {0};
	if (lk_config_get(config, "url", url, sizeof(url)) > 0)
		return 0;
	if (lk_config_get(config, "private", wish, sizeof(wish)) < 0)
		return trouble("the library has no option private");
	struct server_place place;
	int code = private_check(wish);
	if (code == 0)
		code = server_locate(&place);
	if (code == 0)
		code = server_ensure(&place);
	if (code)
		return code;
	/* It has no users and no passwords; those of the environment are for another server. */
	if (lk_config_set(config, "username", "", &error) ||
	    lk_config_set(config, "password", "", &error) ||
	    lk_config_set(config, "url", place.published.url, &error))
		return trouble_library(&error);
	private_used = 1;
	if (*wish == '\0' && !isatty(STDERR_FILENO))
		message("no server is named: the private server of this user and host is used, "
			"and other machines are not excluded (LOCKKEEPER_URL names one; --private "
			"if this is meant)");
	return 0;
}

void server_text(lk_client *client, char *text_out, size_t size)
{
	snprintf(text_out, size, "%s%s", lk_client_node(client),
		 private_used ? " (the private server of this user and host)" : "");
}

void servers_say(lk_client *const *clients, size_t count)
{
	char text[SERVER_TEXT_SIZE];
	for (size_t i = 0; i < count; i++) {
		server_text(clients[i], text, sizeof(text));
		message("server: %s", text);
	}
	if (*tls_verify)
		message("tls_verify=%s: the %s is not verified, so that others may take its place",
			tls_verify,
			strcmp(tls_verify, "off") == 0 ? "server's certificate" : "server's name");
}

int client_open(const lk_config *config, lk_client **client_out)
{
	lk_error error = {0};
	char verify[sizeof(tls_verify)];
	lk_config_get(config, "tls_verify", verify, sizeof(verify));
	if (strcmp(verify, "on") != 0 && strcmp(tls_verify, "off") != 0)
		memcpy(tls_verify, verify, sizeof(verify));
	return lk_client_new(client_out, config, &error) ? trouble_library(&error) : 0;
}

static int option_is_set(const lk_config *config, const char *name)
{
	char value[8]; /* only whether there is one */
	return lk_config_get(config, name, value, sizeof(value)) > 0;
}

int trouble_passes(const lk_config *config, int code)
{
	if (code == LK_EAUTH)
		return option_is_set(config, "password_file");
	if (code == LK_ETLS)
		return option_is_set(config, "tls_ca_file") ||
		       option_is_set(config, "tls_ca_dir") ||
		       option_is_set(config, "tls_cert_file");
	return lk_error_is_retryable(code);
}

/* Also from the memory that this process was started with: /proc/PID/environ shows that. */
static void variable_wipe(const char *name)
{
	char *value = getenv(name);
	if (value)
		explicit_bzero(value, strlen(value));
	unsetenv(name);
}

static int url_replace(const char *clean)
{
	variable_wipe("LOCKKEEPER_URL");
	return setenv("LOCKKEEPER_URL", clean, 1)
		       ? trouble_errno(errno, "cannot change the environment")
		       : 0;
}

/* Wipes what calls that have returned left below us on the stack: registers that held a URL,
 * say. */
__attribute__((noinline)) static void stack_wipe(void)
{
	char dead[DEAD_STACK_SIZE];
	explicit_bzero(dead, sizeof(dead));
}

static int environment_clean(void)
{
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		if (row->environment && strcmp(row->type, "secret") == 0)
			variable_wipe(row->environment);
	}
	const char *url = getenv("LOCKKEEPER_URL");
	size_t head, secret;
	if (!url)
		return 0;
	/* Not unset: the child's own lockkeeper would go to another server and find no lock. */
	if (url_query_has_secret(url))
		return url_replace("removed:password-in-query");
	url_find_password(url, &head, &secret);
	if (secret == 0)
		return 0;
	char *clean;
	if (asprintf(&clean, "%.*s%s", (int)head, url, url + head + secret) < 0)
		return trouble_errno(ENOMEM, "cannot change the environment");
	int code = url_replace(clean);
	free(clean);
	return code;
}

int environment_drop_secrets(void)
{
	int code = environment_clean();
	stack_wipe();
	return code;
}
