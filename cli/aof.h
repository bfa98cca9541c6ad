/* SPDX-License-Identifier: MIT */
/*
 * An append-only file of Redis or Valkey: an image of all data (RDB, with a checksum behind it),
 * then commands in RESP; either part may be missing. A crash of the machine may leave it cut, or
 * with zeros or rubbish where the last writes were.
 */
#ifndef CLI_AOF_H
#define CLI_AOF_H

#include <stdio.h>
#include <sys/types.h>

/* How much of `file`, from its start on, a server takes: up to the end of the last command that is
 * whole, and of a transaction only with its EXEC. Nothing of an image that is not whole. Reads the
 * file once, in little memory. 0, or -1 with errno when it cannot be read. */
int aof_measure(FILE *file, off_t *whole_out);

#endif
