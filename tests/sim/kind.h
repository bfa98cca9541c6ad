/*
 * A kind of lock or of count: a row of the table in kinds.c. Its functions say how a worker gets
 * its handles, what it does with them in a round, what must be granted to all at once when nothing
 * is in the way, and what must be on the server in the end.
 */
#ifndef SIM_KIND_H
#define SIM_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockkeeper.h>

#include "calls.h"
#include "clients.h"

#define SIM_KEY "shared"
#define SIM_PERMITS 5
#define SIM_CLIENTS 2
#define SIM_WORKERS 4 /* of all clients; the last is the only one of its client */
#define SIM_ROUNDS 6
#define SIM_GRANT_MS 2000 /* that what is free takes once the troubles are over, for all together */

enum sim_side { SIM_NOTHING, SIM_READS, SIM_WRITES };

struct sim_worker {
	int number;
	struct sim_client *client;
	struct sim_task *task;
	struct sim_caller caller;
	lk_lock *writing, *reading; /* a lock without sides is one that writes */
	/* A lock: */
	enum sim_side side;        /* which it believes to hold … */
	int64_t held_until_ns;     /* … until when, at least */
	char field[LK_FIELD_SIZE]; /* on the server */
	int64_t granted_ns;        /* since then at the latest */
	bool broken;               /* somebody has freed it, or may have */
	int64_t broken_ns;         /* by then; SIM_NEVER: if it was */
	uint64_t tag;              /* of its last try, and of its notices */
	uint64_t lost_tag;         /* of the last hold that a notice calls lost */
	/* A count: */
	lk_semaphore *semaphore;
	lk_permit_semaphore *permit_semaphore;
	lk_latch *latches[SIM_ROUNDS];
	lk_barrier *barrier;
	int64_t permits;            /* that it believes to have */
	lk_permit ids[SIM_PERMITS]; /* of those, where they have ids */
	int round;
};

#define SIM_SIDES 1u  /* beside readers others may read */
#define SIM_TOKENS 2u /* each grant has a higher token */
#define SIM_ORDER 4u  /* grants in the order of the queue on the server */
#define SIM_TURNS 8u  /* each waiter gets in */

struct sim_kind {
	const char *name;
	unsigned traits; /* SIM_SIDES … */
	int (*open)(struct sim_worker *worker, lk_error *error);
	void (*round)(struct sim_worker *worker);
	int (*last)(struct sim_worker *worker, lk_error *error);
	void (*check_left)(void); /* all is over */
	int (*make)(lk_lock **lock_out, lk_client *client,
		    lk_error *error); /* a lock without sides */
};

/* One run. */
struct sim_stage {
	const struct sim_kind *kind;
	struct sim_client clients[SIM_CLIENTS];
	struct sim_worker workers[SIM_WORKERS];
	bool calm, closes;
	bool drains;                /* the clients, before they are closed */
	bool breaks;                /* holds are freed by others */
	bool hands;                 /* holds are handed over: */
	char handed[LK_FIELD_SIZE]; /* the last one's field */
	int64_t handed_until_ns;    /* it is held for so long, unless somebody adopts it */
	int adopting, adoptions;    /* calls that run now; all so far */
	int breaking;               /* such calls run now */
	int64_t broken_ns;          /* when the last has ended */
	bool unjudged;              /* one may still run, at any time */
	int64_t kept_until_ns;
	int64_t left_until_ns; /* what a release keeps is there, whoever has been closed since */
	int counting;          /* workers that look at the handles of all */
	uint64_t newest;       /* token that a holder was told */
	int64_t unsure; /* permits of which nobody knows, that a close took along, or a release */
	bool set;       /* the latches; of another kind: what its judges note is empty at first */
	int begun[SIM_ROUNDS], done[SIM_ROUNDS]; /* count-downs of each latch */
};
extern struct sim_stage sim_stage;

bool sim_has_trait(unsigned trait);

/* lock_kinds.c */
int sim_lock_open(struct sim_worker *worker, lk_error *error);
int sim_sides_open(struct sim_worker *worker, lk_error *error);
void sim_lock_round(struct sim_worker *worker);
int sim_lock_last(struct sim_worker *worker, lk_error *error);
void sim_lock_check_left(void);
void sim_lock_close(struct sim_worker *worker); /* its client's close begins */

/* count_kinds.c */
int sim_semaphore_open(struct sim_worker *worker, lk_error *error);
void sim_semaphore_round(struct sim_worker *worker);
int sim_semaphore_last(struct sim_worker *worker, lk_error *error);
void sim_semaphore_check_left(void);
int sim_permits_open(struct sim_worker *worker, lk_error *error);
void sim_permits_round(struct sim_worker *worker);
int sim_permits_last(struct sim_worker *worker, lk_error *error);
void sim_permits_check_left(void);
int sim_latch_open(struct sim_worker *worker, lk_error *error);
void sim_latch_round(struct sim_worker *worker);
int sim_latch_last(struct sim_worker *worker, lk_error *error);
void sim_latch_check_left(void);

/* barriers.c */
int sim_barrier_open(struct sim_worker *worker, lk_error *error);
void sim_barrier_round(struct sim_worker *worker);
int sim_barrier_last(struct sim_worker *worker, lk_error *error);
void sim_barrier_check_left(void);

#endif
