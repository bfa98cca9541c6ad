/* SPDX-License-Identifier: MIT */
/* Starting the process of the private server; by whoever holds the lock of starts and stops. */
#ifndef CLI_SERVER_START_H
#define CLI_SERVER_START_H

#include <sys/types.h>

#include "server.h"

/* Starts the server, which will listen on `start.sock` of the folder. It takes its settings from
 * its arguments, and listens on no port. 0, or EXIT_TROUBLE (said). */
int server_start(int folder);

/* 1 while a server lives that was started in this folder, whether it answers or not. */
int server_is_alive(int folder);

/* The process id of the server that lives, as it wrote it down, or 0 when that is not certain. */
pid_t server_recorded(int folder);

/* 1 when there may be data from an earlier server. */
int server_has_data(int folder);

#endif
