/* SPDX-License-Identifier: MIT */
/*
 * One attempt to get a grant from the server, from the first try to the grant. No I/O, no clock, no
 * randomness: lk__attempt_step() takes an event and the time, and returns effects as data. Nothing
 * else changes an attempt.
 *
 *   ADOPTED ─▶ CONNECT ─▶ SEND ─▶ granted ────────────────────────▶ GRANT
 *                ▲          ├───▶ refused, unknown ─▶ PAUSE (backed off) ─▶ CONNECT
 *                └─────┐    ▼
 *                      └─ BUSY(ttl) ─▶ LISTEN ─▶ CONNECT … BUSY ─▶ WAIT (message, ttl) ─▶ CONNECT
 *
 * A driver carries out the effects and feeds what came of them: the calling thread (head.c), the
 * thread that reads an answer nobody waits for, or a test with scripted answers.
 *
 * A wait queue has one attempt. When its head leaves, the next head adopts the attempt, with the
 * try in flight. Without a next head the attempt is detached: a grant that still comes goes back.
 * What a number may have on the server when the attempt gives it up is compensated. A number with a
 * place in a queue is kept when a try has no answer, or is on too few replicas: the next one tells.
 * So is a number that the head has named, which it asks for itself what became of it.
 */
#ifndef LK__SYNC_ATTEMPT_H
#define LK__SYNC_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk__attempt_state {
	LK__ATTEMPT_IDLE,
	LK__ATTEMPT_CONNECTING, /* a try is to be sent as soon as there is a connection */
	LK__ATTEMPT_TRYING,
	LK__ATTEMPT_SUBSCRIBING,
	LK__ATTEMPT_WAITING,
	LK__ATTEMPT_PAUSED,
	LK__ATTEMPT_DETACHED, /* nobody waits; a try is in flight */
};

enum lk__attempt_event_type {
	LK__ATTEMPT_ADOPTED,   /* by the head of the wait queue, which wants `want` */
	LK__ATTEMPT_CONNECTED, /* the try can be sent, and now is when it is */
	LK__ATTEMPT_GRANTED,   /* the try was answered: ours, with a lease that is not over */
	LK__ATTEMPT_BUSY,      /* the try was answered: another's, for `ttl_ms` */
	LK__ATTEMPT_LATE,      /* the try reached the server after its deadline: not done */
	LK__ATTEMPT_FAILED,    /* not done, for the reason `code` */
	LK__ATTEMPT_UNKNOWN,   /* the try may have been granted */
	LK__ATTEMPT_LISTENING, /* the subscription is confirmed */
	LK__ATTEMPT_WOKEN,     /* a message, or a new subscription */
	LK__ATTEMPT_TIMER,     /* the time that the effect named has come */
	LK__ATTEMPT_LEFT,      /* the head leaves for the reason `code` */
};

/* The wishes of a head. */
struct lk__attempt_want {
	bool once;                 /* asks once, and does not wait */
	bool unlimited;            /* waits without a limit: failures alone end it */
	bool undone;               /* an earlier grant of it came later than its lease */
	int64_t lease_ms;          /* told to the server */
	int64_t count;             /* permits */
	uint64_t downgrade_number; /* the number of its first try; 0: a new one */
	uint64_t number;           /* of all its tries, whatever becomes of them; 0: not said */
	int64_t poll_ns;           /* of a kind that polls: the slowest pace; 0 */
	int64_t look_ns;           /* of the others: the same; 0: until the ttl */
	int64_t spin_min_ns, spin_max_ns;
	int spin_factor; /* each pause is that many times the one before; 1: all alike */
};

struct lk__attempt_event {
	enum lk__attempt_event_type type;

	/* ADOPTED */
	struct lk__attempt_want want;
	bool listens;              /* the subscription of its channel is confirmed */
	int64_t hold_off_until_ns; /* no try before, unless others release */
	bool stale;                /* "busy" is from before it came, and says nothing to it */

	bool turns; /* ADOPTED, LISTENING: it is told when it is its turn */

	bool moved; /* CONNECTED: to another node than before */

	/* Answers. */
	int64_t sent_ns;   /* before the try was written */
	int64_t server_us; /* LATE, BUSY where a kind tells it: the server's time; else 0 */
	int64_t ttl_ms;    /* BUSY: -1 for none */
	uint64_t holder;   /* BUSY, of a kind that polls: which; 0: not known */
	bool copied;       /* more than one copy of the try was sent */
	bool unsent;       /* FAILED: the connection was lost before the try was written;
			      LEFT: before it was sent at all */
	bool retryable;    /* FAILED: it may go away by itself */
	bool passing;      /* FAILED: the same, but only a wait with a limit waits for that */
	bool lasting;      /* UNKNOWN: the next try would end in the same way */
	bool untold;       /* UNKNOWN: the lock's script has not answered */
	bool ran;          /* UNKNOWN: the try has run, and no copy of it can come */
	int code;          /* FAILED, LEFT; UNKNOWN: 0 stands for LK_EMAYBEHELD */

	int64_t handed_us; /* WOKEN: the message brings the lock, since then in server time; 0 */
	bool soon;         /* WOKEN: the lock is free for another, who may be silent: try soon */
	bool last;         /* LEFT: nobody follows */

	/* Every event. */
	bool subscribed;   /* the driver has a channel: confirmed, asked for, or refused */
	bool compensating; /* a number that may be held is not yet known to be gone */
	bool closing;      /* the client is being closed: a grant would have no owner */
};

enum lk__attempt_action {
	LK__ATTEMPT_DO_NOTHING,
	LK__ATTEMPT_DO_CONNECT,  /* CONNECTED, or FAILED; without a limit until `until_ns` */
	LK__ATTEMPT_DO_SEND,     /* send a try, then feed its answer */
	LK__ATTEMPT_DO_AWAIT,    /* a try is in flight: feed its answer */
	LK__ATTEMPT_DO_LISTEN,   /* subscribe, then LISTENING or FAILED */
	LK__ATTEMPT_DO_WAIT,     /* WOKEN by a message, or TIMER at `until_ns` */
	LK__ATTEMPT_DO_HOLD_OFF, /* the same, but the messages of our own releases do not count */
	LK__ATTEMPT_DO_PAUSE,    /* TIMER at `until_ns`, or earlier by a jitter */
	LK__ATTEMPT_DO_GRANT,    /* the head has it */
	LK__ATTEMPT_DO_FAIL,     /* the head leaves with `code` */
};

enum lk__compensate {
	LK__COMPENSATE_NOT,
	LK__COMPENSATE_RELEASE, /* released behind what is in flight */
	LK__COMPENSATE_COPIES,  /* released now, and again when no copy can run any more */
};

/* In this order: compensation, the channel, the action. */
struct lk__effects {
	enum lk__compensate compensate;
	uint64_t gives_up;       /* the number that is compensated */
	int64_t copies_until_ns; /* of that number */
	bool new_number;         /* the tries from now on have a number never used before */
	bool unsubscribes;       /* the channel is closed: not permitted, or the old number's own */
	enum lk__attempt_action action;
	int64_t until_ns;
	bool patient; /* WAIT: may be longer, while the driver would be told what ends the lock */
	int code;
	bool handed;               /* GRANT by a message */
	int64_t sent_ns;           /* GRANT: its lease counts from here */
	int64_t repeated_until_ns; /* GRANT: a second copy of its acquire may run until then; 0 */
};

/* The rules that all attempts at one lock have in common. */
struct lk__attempt_rules {
	_Atomic uint64_t *numbers; /* the last one used in this client */
	int64_t command_ns;        /* a try reaches the server within this time, or never */
	int64_t retry_ns;          /* how long a wait without limit may go on failing */
	int64_t backoff_min_ns, backoff_max_ns;
	bool spins;       /* nobody publishes: BUSY is followed by a pause */
	bool takes;       /* a grant takes something: a try in flight may hold */
	bool queues;      /* a try leaves a place in a queue on the server */
	bool own_channel; /* each number has a channel of its own */
	bool fans_out;    /* a try goes to several nodes, has a number of its own, and compensates
	                     itself */
};

/*
 * How often a waiter looks again where other programs release without a word.
 *
 * It looks soon at first, then half as often each time, down to once in `poll`. A waiter that asks
 * more often than others gets a lock that is free only for a moment: so each time the lock has
 * passed from one of the others to the next, and the waiter has come too late, it looks twice as
 * often from then on, up to once in a sixteenth of `poll`, or 5 ms if that is longer. Where an
 * answer does not say who holds it, it looks once in `poll`.
 */
struct lk__pace {
	uint64_t holder; /* the last one seen; 0: not known */
	unsigned looks;  /* at that one, in a row */
	unsigned missed; /* how often the lock has passed to another */
};

/* Which holder it is, by its token; never 0. */
uint64_t lk__pace_holder(const char *token, size_t size);

struct lk__attempt {
	struct lk__attempt_rules rules;
	struct lk__attempt_want want; /* of the present head */
	enum lk__attempt_state state;
	uint64_t number;      /* of the tries */
	bool fresh;           /* the next try needs a new number */
	bool queued;          /* the number may have a place in a queue on the server */
	bool listening;       /* subscribed: a release cannot be missed */
	bool adopted;         /* the try in flight was sent by an earlier head */
	bool held_off;        /* waiting to let others have their chance */
	bool asks_place_only; /* the last try was for a place among those who wait, and no more */
	bool was_late;        /* the last try */
	bool unknown;         /* a try since the beginning may have been granted */
	bool doubtful;        /* the same of this number; the script has not said otherwise since */
	bool busy;            /* the last answer of the server was: another's */
	int code;             /* what went wrong since the last answer; 0 */
	unsigned firsts;      /* first answers of nodes, which only teach, since the head came */
	unsigned unsent;      /* in a row: tries not written */
	unsigned failures;    /* in a row */
	unsigned spun;        /* pauses of a spinner, in a row */
	int64_t failing_since_ns;
	int64_t down_since_ns; /* no connection since; 0: there was one */
	int64_t hold_off_until_ns;
	int64_t asked_lease_ms;  /* by the last try, */
	int64_t asked_count;     /* and how many permits; */
	int64_t try_until_ns;    /* no copy of it can run any more then */
	int64_t copies_until_ns; /* the number was sent twice: the same for that; 0 */
	int64_t busy_sent_ns;    /* the last try that was answered busy: when it was sent, */
	int64_t busy_server_us;  /* and the server's time in the answer */

	/* Of a kind that polls. */
	struct lk__pace pace;
};

struct lk__effects lk__attempt_step(struct lk__attempt *attempt,
				    const struct lk__attempt_event *event, int64_t now_ns);

/* Nobody waits any more: a later waiter is patient anew, and asks anew. */
void lk__attempt_rest(struct lk__attempt *attempt);

/* The end of a lease that counts from `sent_ns`: less 1 % and 2 ms for the clocks. */
int64_t lk__lease_end_ns(int64_t sent_ns, int64_t lease_ms);

#endif
