/* SPDX-License-Identifier: MIT */
/* From options and environment to a client. */
#ifndef CLI_CONNECT_H
#define CLI_CONNECT_H

#include <lockkeeper.h>

#define SERVER_TEXT_SIZE 512

/* Sets what `-o name=value` says; secrets are refused, for everybody can read argument lists.
 * 0, or EXIT_TROUBLE (said). */
int config_assign(lk_config *config, const char *assignment);

/* Sets the URL; one with a password in it is refused. 0, or EXIT_TROUBLE (said). */
int config_assign_url(lk_config *config, const char *url);

/* Where no server is named, starts the private one if need be, and names it; and says so unless
 * that was asked for. 0, or EXIT_TROUBLE (said): also where the private one is refused. */
int config_settle(lk_config *config);

/* Finds out whether the private server may be started by itself. 0, or EXIT_TROUBLE (said). */
int private_check_start(const lk_config *config);

/* Writes the name that -v has for the server of a client. */
void server_text(lk_client *client, char *text_out, size_t size);

/* Says which servers these are, for -v. */
void servers_say(lk_client *const *clients, size_t count);

/* Makes a client, after config_settle(). 0, or EXIT_TROUBLE (said). */
int client_open(const lk_config *config, lk_client **client_out);

/* 1 when a wait with a limit goes on after this error: it may pass by itself, or be mended in a
 * file that each connection reads again. */
int trouble_passes(const lk_config *config, int code);

/* 1 when the URL has a password, or sets a secret option. */
int url_has_secret(const char *url);

/* Takes the secrets out of the environment, for the child: variables of secret options, and the
 * password in LOCKKEEPER_URL. 0, or EXIT_TROUBLE (said). */
int environment_drop_secrets(void);

#endif
