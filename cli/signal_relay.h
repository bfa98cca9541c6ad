/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach lockkeeper itself: while it waits for the lock they cancel the wait, while the
 * command runs they are handed to it. They do not cut the release short: those of its first second
 * belong to what ended the command (Ctrl-C reaches the command and lockkeeper, timeout(1) signals
 * twice); one that comes later leaves the server one more second.
 */
#ifndef CLI_SIGNAL_RELAY_H
#define CLI_SIGNAL_RELAY_H

#include <signal.h>
#include <sys/types.h>

#include <lockkeeper/cancel.h>

/* How long an answer to the release is waited for. */
#define RELEASE_LIMIT_S 10

enum relay_phase { RELAY_WAITING, RELAY_RUNNING, RELAY_RELEASING, RELAY_RELEASED, RELAY_LINGERING };

struct relay_signal {
	unsigned char number;
	unsigned char shared; /* 1: the command's group has got it as well, from the terminal */
};

/* Blocks the signals that will be relayed, and says which; first of all, before any fork. */
void relay_block(sigset_t *relayed_out, sigset_t *mask_out);

/* Takes the signals from now on. `front` is the process on the terminal, or 0; `cancel` ends the
 * wait. 0, or EXIT_TROUBLE (said). */
int relay_begin(const sigset_t *relayed, pid_t front, lk_cancel *cancel);

/* The command is about to run: signals are for it. */
void relay_run(void);

/* The lock is being released, or kept from others from here on (`keeps`): after `limit_s` seconds,
 * or one second after a signal that came late, lockkeeper ends with exit code `code` and a warning,
 * which says what may be so. */
void relay_release(int code, unsigned limit_s, int keeps);

/* There is something else to wait for: signals end that wait, and the limit is none. */
void relay_wait(void);

/* The outcome of the release is known, and told: signals do nothing, the limit ends lockkeeper
 * without a warning. */
void relay_released(void);

/* Keeps the words that lockkeeper prints behind that warning, if it ends so; NULL: none. */
void relay_words(const char *words);

/* All is done but to wait for hooks, which has a limit of its own: a signal that ends a wait can be
 * read again, if it arrives a second after relay_release() or later. */
void relay_linger(void);

/* Becomes readable when there is a signal. */
int relay_fd(void);

/* Takes the next signal: 1, or 0 when there is none. */
int relay_read(struct relay_signal *signal_out);

/* The signal that ended the wait, or 0. */
int relay_cause(void);

/* Forgets SIGTSTP as the cause; any other one stays. */
void relay_resume(void);

#endif
