/* SPDX-License-Identifier: MIT */
/* The lines of -v about the hold of one lock: waited, owner, held for, released. A loss is told
 * without -v too, by those who notice it. Without -v these do nothing. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdint.h>

#include <lockkeeper.h>

struct report {
	int verbose;
	const char *name;
	int64_t began_ns; /* the wait */
	int64_t held_ns;  /* the hold; 0: there is none */
};

/* The wait begins. */
void report_begin(struct report *report, const char *name, int verbose);

/* It is held. */
void report_acquired(struct report *report);

/* By this owner field, or permit; "": by several, of which each has one of this client's. */
void report_owner(const struct report *report, const char *owner, const lk_client *client);

/* Others kept the lock for the whole wait. */
void report_missed(const struct report *report);

/* Reports that what ran under it has ended; then, that the server has released it, or keeps it from
 * others for so long. */
void report_held(const struct report *report);
void report_released(const struct report *report, int64_t kept_ms);

#endif
