/*
 * Locks as articles show them, each with the defect that its file tells. All else in them is
 * sound, so that the checker finds that one: tokens are unique, the lease counts from before the
 * request, and a grant that comes too late is given back.
 *
 * Each is a program that takes commands and answers as tests/system/driver does (open, try, within,
 * release; one connection and one lock at a time), so that what drives that drives these.
 */
#ifndef ALGORITHM_H
#define ALGORITHM_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

struct attempt {
	redisContext *redis;
	const char *name;
	const char *token; /* new for each */
	int64_t lease_ms;
	int64_t expiry_ms; /* for the algorithm's own use */
};

/* What the server said. */
enum outcome { BUSY, DONE, BROKEN };

/* One try to take it; one release of what a try took: BUSY when another has it. */
enum outcome algorithm_try(struct attempt *attempt);
enum outcome algorithm_release(struct attempt *attempt);

/* A command: the integer that it answers, 1 for "OK", 0 for nil; or -1, and the connection is
 * no more. */
int64_t ask(struct attempt *attempt, const char *format, ...);
/* A command that answers a string, into `text`, which is empty for nil; -1 as above. */
int64_t ask_text(struct attempt *attempt, char text[64], const char *format, ...);

#endif
