/*
 * The acquire machine: from the first try to the grant. No I/O, no clock, no randomness.
 *
 *   START ─▶ TRY ─▶ granted ──────────────────────────────▶ GRANT
 *             │ ▲─▶ refused, unknown ─▶ PAUSE (backed off) ─▶ TRY
 *             ▼ └──────────────────────────────┐
 *           BUSY(ttl) ─▶ LISTEN ─▶ TRY ─▶ BUSY ─▶ WAIT (message, ttl) ─┘
 *
 * A driver feeds it what happened and does what it answers; the calling thread is one, the loop
 * (for a try that its caller has left behind) another, a test with a scripted server a third.
 *
 * One machine serves one line: when the caller who drives it leaves, the next drives it on, the
 * try in flight included. When nobody is left it is ABANDONED: a grant that still comes is taken
 * back.
 */
#ifndef LK__SYNC_ACQUIRE_H
#define LK__SYNC_ACQUIRE_H

#include <stdbool.h>
#include <stdint.h>

enum lk__acquire_state {
	LK__ACQUIRE_IDLE,
	LK__ACQUIRE_TRYING,
	LK__ACQUIRE_SUBSCRIBING,
	LK__ACQUIRE_WAITING,
	LK__ACQUIRE_PAUSED,
	LK__ACQUIRE_ABANDONED, /* nobody waits; a try is in flight */
};

enum lk__acquire_event_type {
	LK__ACQUIRE_START,     /* somebody is at the head of the line */
	LK__ACQUIRE_GRANTED,   /* the try was answered: ours; or a message says so */
	LK__ACQUIRE_BUSY,      /* the try was answered: another's, for `ttl_ms` */
	LK__ACQUIRE_LATE,      /* the try reached the server after its deadline: not done */
	LK__ACQUIRE_FAILED,    /* not done, for the reason `code` */
	LK__ACQUIRE_UNKNOWN,   /* the try may have been granted */
	LK__ACQUIRE_LISTENING, /* the subscription is confirmed */
	LK__ACQUIRE_WOKEN,     /* a message, or a new subscription */
	LK__ACQUIRE_TIMER,     /* the time that the action named has come */
	LK__ACQUIRE_LEFT,      /* the head goes away, and nobody follows */
};

struct lk__acquire_event {
	enum lk__acquire_event_type type;
	int64_t ttl_ms; /* BUSY: -1 for none */
	int code;       /* FAILED */
	bool retryable; /* FAILED: it may go away by itself */
};

enum lk__acquire_action_type {
	LK__ACQUIRE_DO_TRY,       /* send a try, then tell how it was answered */
	LK__ACQUIRE_DO_AWAIT,     /* a try is in flight: tell how it was answered */
	LK__ACQUIRE_DO_LISTEN,    /* subscribe, then LISTENING or FAILED */
	LK__ACQUIRE_DO_WAIT,      /* WOKEN by a message, or TIMER at `until_ns` */
	LK__ACQUIRE_DO_HOLD_OFF,  /* the same, but our own releases are no news */
	LK__ACQUIRE_DO_PAUSE,     /* TIMER after `until_ns`, with jitter */
	LK__ACQUIRE_DO_GRANT,     /* the head has it */
	LK__ACQUIRE_DO_FAIL,      /* tell the head `code`; the machine is idle again */
	LK__ACQUIRE_DO_TAKE_BACK, /* release what nobody wants, or may be held */
	LK__ACQUIRE_DO_NOTHING,
};

struct lk__acquire_action {
	enum lk__acquire_action_type type;
	int64_t until_ns;
	int code;
	bool new_number; /* DO_TRY: under a number never used before */
	bool take_back;  /* the number used so far may be held: it is to be taken back */
};

struct lk__acquire {
	enum lk__acquire_state state;
	bool once;      /* the head asks once */
	bool listening; /* subscribed: a release cannot be missed */
	bool fresh;     /* the next try needs a new number */
	bool was_late;
	bool held_off;     /* waiting to let others have their chance */
	bool unknown;      /* a try since the beginning may have been granted */
	bool busy;         /* the last answer of the server was: another's */
	int code;          /* why there was no answer, since the last one; 0 */
	unsigned failures; /* in a row */
	int64_t failing_since_ns;
	int64_t hold_off_until_ns;
	int64_t backoff_min_ns, backoff_max_ns;
	bool spins;      /* nobody publishes: BUSY is followed by a pause */
	unsigned spun;   /* such pauses in a row */
	int64_t poll_ns; /* the longest wait for a message; 0: until the ttl */
	int64_t spin_min_ns, spin_max_ns;
	int spin_factor; /* each pause is so many times the one before; 1: all alike */
};

/* Begins a wait for a wire grant. `hold_off_until_ns`: not to try before, unless others release. */
void lk__acquire_begin(struct lk__acquire *acquire, bool once, bool listening,
		       int64_t hold_off_until_ns);

struct lk__acquire_action lk__acquire_step(struct lk__acquire *acquire,
					   const struct lk__acquire_event *event, int64_t now_ns);

/*
 * What a head that leaves now, its time being up, is told. `taking_back`: a try of this lock that
 * may have been granted is not yet known to be gone.
 */
int lk__acquire_verdict(const struct lk__acquire *acquire, bool taking_back);

#endif
