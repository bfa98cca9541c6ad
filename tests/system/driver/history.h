/*
 * A history: records of 64 bytes in a mapped file, so that what was written survives kill -9.
 *
 * Any thread appends. The phase is stored last; a record of phase 0 was never finished. Read by
 * tests/history/checker.py, which knows the layout.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum history_phase {
	HISTORY_UNFINISHED = 0,
	HISTORY_INVOKE = 1,   /* an acquire begins */
	HISTORY_GRANTED = 2,  /* it returned 0; deadline_ns is the grant's */
	HISTORY_FAILED = 3,   /* it returned an error: code */
	HISTORY_RELEASE = 4,  /* a release begins; deadline_ns is the last one known */
	HISTORY_RELEASED = 5, /* it returned: code */
};

/* What an attempt is about. */
enum history_mode {
	HISTORY_EXCLUSIVE = 0,
	HISTORY_SHARED = 1,     /* a reader's share */
	HISTORY_PERMITS = 2,    /* so many of a semaphore's */
	HISTORY_COUNT_DOWN = 3, /* of a latch; granted: it was counted */
	HISTORY_LATCH_WAIT = 4, /* granted: it was open */
};

struct history_record {
	int64_t time_ns;     /* CLOCK_BOOTTIME */
	int64_t deadline_ns; /* likewise; 0: none known */
	uint32_t process;
	uint32_t thread;
	uint32_t attempt; /* of this thread, from 0 */
	uint32_t lock;    /* number of the lock's name */
	int32_t code;
	uint32_t run;     /* which stress command */
	int64_t fence;    /* of a grant; 0: it has none */
	uint32_t permits; /* with HISTORY_PERMITS */
	uint32_t mode;    /* enum history_mode */
	char spare[4];
	_Atomic uint32_t phase;
};

_Static_assert(sizeof(struct history_record) == 64, "the checker knows this size");

struct history {
	struct history_record *records; /* NULL: nothing is recorded */
	size_t capacity;
	_Atomic size_t count;
};

/* Makes the file with room for `capacity` records. 0 or -1. */
int history_open(struct history *history, const char *path, size_t capacity);
void history_close(struct history *history);
/* Appends; beyond the capacity it drops the record, which history_overflowed tells. */
void history_add(struct history *history, const struct history_record *record,
		 enum history_phase phase);
int history_overflowed(const struct history *history);

#endif
