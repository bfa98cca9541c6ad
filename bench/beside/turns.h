/* SPDX-License-Identifier: MIT */
/*
 * One lock of one system, taken in turns: the main program of each C program in this folder. Those
 * in Go and Java take the same arguments and write the same lines.
 *
 * usage: PROGRAM URL KIND HISTORY [name=N] [threads=1] [ms=1000] [turns=0] [hold_us=0]
 *        [pause_us=0] [same] [twice] [live]
 *        PROGRAM URL KIND keep COUNT
 *
 * Each thread opens its own session, takes its own name (`same`: all take one) and gives it back,
 * for so many ms, or turns if not 0. `twice`: while it has it, it takes it once more and gives that
 * back, and tells so: "entered again", "gave it back once", or why it was refused. HISTORY gets a
 * line at each grant and at each release; `live` writes it at once, which costs time and survives a
 * kill:
 *
 *     G PID THREAD NAME BEGUN GRANTED          ns of CLOCK_MONOTONIC
 *     R PID THREAD NAME BEGUN DONE OUTCOME     "ok"; "lost": it did not hold the lock any more
 *     E PID THREAD NAME AT TEXT                the lock could not be taken: the thread tries again
 *     T PID - - AT TEXT                        the library tells the program so, of its own accord
 *
 * At the end: {"pairs_s": …, "p50_us": …, "p99_us": …, "cpu_us": …} of a pair.
 *
 * `keep` takes COUNT names, prints "kept", and holds them until standard input ends.
 */
#ifndef BESIDE_TURNS_H
#define BESIDE_TURNS_H

#include <stddef.h>

enum turns_outcome { TURNS_OK, TURNS_LOST, TURNS_FAILED };

struct turns_lock {
	/* A thread's session. One that serves many names at once serves `keep`. */
	void *(*open)(const char *url, const char *kind);
	/* Waits as long as it takes. TURNS_FAILED: the text says why. */
	enum turns_outcome (*lock)(void *session, const char *name, const char **text);
	enum turns_outcome (*unlock)(void *session, const char *name, const char **text);
};

/* The one of that name among `count` rows of `size` bytes, each of which begins with its name. Ends
 * the program if there is none. */
const void *turns_kind(const char *name, const void *rows, size_t count, size_t size);

/* For what a library tells while the lock is held. From any thread. */
void turns_tell(const char *text);

int turns_main(int argc, char **argv, const struct turns_lock *lock);

#endif
