/* SPDX-License-Identifier: MIT */
/*
 * The file of options for everybody who uses the command on this machine: /etc/lockkeeper.conf, or
 * what LOCKKEEPER_CONFIG names. A line is an option as -o takes it, NAME=VALUE; empty lines and
 * those that begin with # say nothing.
 *
 * The environment prevails over it, and the command line over both. Secrets are refused: everybody
 * may read the file.
 */
#ifndef CLI_CONF_H
#define CLI_CONF_H

#include <lockkeeper/config.h>

#define CONF_PATH "/etc/lockkeeper.conf"

/* Reads the file, and puts what it says in place of variables that are not set. What is wrong with
 * it is kept for conf_settle(), so that it does not keep --help away. */
void conf_read(void);

/* Sets what the environment must prevail over; before the environment is loaded. 0, or EXIT_TROUBLE
 * (said). */
int conf_settle(lk_config *config);

/* The file, if it names a server that LOCKKEEPER_URL keeps from being used; else NULL. */
const char *conf_naming_server(void);

#endif
