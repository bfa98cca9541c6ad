/* SPDX-License-Identifier: MIT */
/*
 * The data of the private server after a crash of the machine, which may leave files cut, empty,
 * full of zeros or rubbish, or gone. With such files no server starts, or it starts without a word
 * and overwrites others that are in order.
 *
 *   appendonlydir/appendonly.aof.manifest         the list: which files, in which order
 *                 appendonly.aof.2.base.rdb       what the server had when it last rewrote its data
 *                 appendonly.aof.2.incr.aof       the commands since; there may be several
 *   appendonly.aof                                all in one, of Redis before 7
 *   damaged-TIME-FILE                             what we cut off
 *
 * What is in order stays as it is. Of a damaged file the part that cannot be read is copied, and
 * then cut off. A new list, of the files that are there, replaces a bad one. Each step leaves
 * a folder in which the next command can begin again.
 */
#ifndef CLI_SERVER_DATA_H
#define CLI_SERVER_DATA_H

/* Mends what is damaged in the state folder, which is at `path`, while no server lives there, and
 * says what may be forgotten. 0, or EXIT_TROUBLE (said) when files cannot be read or written. */
int server_data_mend(int folder, const char *path);

#endif
