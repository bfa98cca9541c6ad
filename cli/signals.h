/* SPDX-License-Identifier: MIT */
/* Names of signals, and which of them `run` passes on. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

/* The number of a signal given by name (TERM, SIGTERM, RTMIN+1) or by number, or -1. */
int signal_parse(const char *text);

/* Its name without SIG ("TERM"), or "?" for an unknown one. Static memory. */
const char *signal_name(int number);

/* Every signal that `run` passes on to the command, except those that were ignored when
 * lockkeeper was started (nohup, background jobs): they stay ignored. */
void signals_relayed(sigset_t *set_out);

/* Ends the process by the signal, as if it had not been caught. A shell's loop ends by Ctrl-C only
 * if the command has died of it: an exit code of 130 tells the shell nothing. */
__attribute__((noreturn)) void signal_die(int number);

/* 1 when the signal ends a wait for the lock, 0 for those whose default does not end a process. */
int signal_ends_wait(int number);

#endif
