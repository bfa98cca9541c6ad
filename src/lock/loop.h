/* SPDX-License-Identifier: MIT */
/*
 * The loop of a client: what has no caller.
 *
 * Renewals and compensation on their own connection, timers of leases (a timerfd of
 * CLOCK_BOOTTIME), connections that end while nobody reads them, and answers or messages that
 * nobody waits for. It is one set of descriptors and one turn, which does what is due and never
 * waits. A background
 * thread takes the turns, and waits for the set between them; it starts with the first need. For a
 * threadless client the program takes them (lk_client_process()). The thread ticks every few ms
 * only while such answers are expected. What the system refuses it is an error, never the end of
 * the process.
 */
#ifndef LK__LOCK_LOOP_H
#define LK__LOCK_LOOP_H

#include <stdint.h>

#include "lock/client.h"

/* Starts it, unless it runs. LK_ESYSTEM or LK_ENOMEM. */
int lk__loop_start(lk_client *client, lk_error *error);

/* Takes the turns that are due of a threadless client, whose loop starts with the client: 0, or
 * LK_EPROCESSING. */
int lk__loop_process(lk_client *client);
int lk__loop_fd(lk_client *client);
int64_t lk__loop_due_ns(lk_client *client);

/*
 * Stops and joins it. Calls that are still on their way out may wake it as before, to no effect:
 * it is freed with the client.
 */
void lk__loop_stop(lk_client *client);
void lk__loop_free(lk_client *client);

/* Answers are expected that nobody reads. Any thread; cheap when it knows already. */
void lk__loop_attend(lk_client *client);

/* There is work that does not wait for its timer: renewals, compensation, a nearer deadline. */
void lk__loop_wake(lk_client *client);

/* Every grant is to be verified: a connection was lost. */
void lk__loop_verify(lk_client *client);

#endif
