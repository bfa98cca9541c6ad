/* SPDX-License-Identifier: MIT */
/* The library's log lines, on stderr, for the report of a defect: with -vv. */
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include <lockkeeper.h>

/* Logs for clients that are made from the configuration from now on, if -v was given twice. */
void log_begin(lk_config *config, int verbose);

#endif
