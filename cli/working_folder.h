/* SPDX-License-Identifier: MIT */
/* Leaving the folder in which the command was started, without losing what is named from there. */
#ifndef CLI_WORKING_FOLDER_H
#define CLI_WORKING_FOLDER_H

#include <lockkeeper/config.h>

/* Tells whether an option's path is meant from there: the library has it from the root, unless that
 * path would be too long, or the folder has none. */
int working_folder_needed(const lk_config *config);

/* Goes to the root. OpenSSL's variables, which each connection may use, name the same files. */
void working_folder_leave(void);

#endif
