/* SPDX-License-Identifier: MIT */
/*
 * The state folder, opened only if nobody else can have a hand in it: it belongs to us with mode
 * 700, and no directory on the way to it lets another user replace what is below.
 */
#ifndef CLI_SERVER_FOLDER_H
#define CLI_SERVER_FOLDER_H

#define FOLDER_NONE (-1)    /* there is no such folder */
#define FOLDER_REFUSED (-2) /* said */

/* A descriptor to close, FOLDER_NONE or FOLDER_REFUSED. */
int folder_open(const char *path);

/* Opens it; makes the folder and its parents first. Never FOLDER_NONE. */
int folder_make(const char *path);

/* Opens a file of the folder, made with mode 600 if it is missing. -1 with errno. */
int folder_file(int folder, const char *leaf, int flags);

#endif
