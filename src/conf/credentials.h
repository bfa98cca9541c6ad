/* SPDX-License-Identifier: MIT */
/*
 * User name and password, which may change while a client lives: each connection asks for them.
 *
 * They come from the program's callback, else from the password file, else from the configuration.
 * A file that cannot be read again leaves the password with which the option was set.
 */
#ifndef LK__CONF_CREDENTIALS_H
#define LK__CONF_CREDENTIALS_H

#include <stdbool.h>

#include <lockkeeper/error.h>

struct lk_config;

#define LK__PASSWORD_MAX 4096 /* bytes of a password file's first line */

/* Whether they may change: a client that is refused with them now may be served later. */
bool lk__credentials_change(const struct lk_config *config);

/*
 * Reads the first line of a file into `line`, which has room for LK__PASSWORD_MAX + 2 bytes.
 * Returns 0 with `reason_out` NULL, or with a text that says why it cannot be a password; or
 * -errno. `regular`: of a pipe or a terminal nothing is read (-ESPIPE).
 */
int lk__password_read(const char *path, bool regular, char *line, const char **reason_out);

/* Asks for both, and puts them into a configuration that nobody else reads now. Before it connects
 * to `place`. LK_EUNREACHABLE: the program has none at present. LK_ENOMEM. */
int lk__credentials_renew(struct lk_config *config, const char *place, lk_error *error);

#endif
