/* SPDX-License-Identifier: MIT */
/* What the library does, on stderr, for the report of a defect: with -vv. */
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include <lockkeeper.h>

/* Of clients that are made from the configuration from now on, if -v was given twice. */
void log_begin(lk_config *config, int verbose);

#endif
