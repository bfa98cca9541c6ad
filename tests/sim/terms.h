/*
 * The history of an election, by what happens on its server; and what candidates and observers are
 * told, judged by it.
 *
 * Terms rise, and each is one candidate's. The place goes to nobody while another leads by its
 * deadline, or has not been told to stop. It goes to the first of those that wait and listen. What
 * a candidate is told comes in pairs. An observer is told of terms that there were, in their order,
 * with a value of their leader's, and of each term, or that it may have missed some.
 */
#ifndef SIM_TERMS_H
#define SIM_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper.h>

#define SIM_ELECTION "web"
#define SIM_CANDIDATES 4

struct sim_candidate {
	int number;
	lk_election *election;
	lk_election_options options;
	char value[16];        /* "<number>:<how many came before>" */
	int values, confirmed; /* values that it had, and the newest that was certainly written */
	bool stands_so;        /* as its options say, and nothing else was asked for */
	char place[LK_FIELD_SIZE]; /* under which it then waited; "": it is not known */
	unsigned retired_before;   /* so many retirements there were as it began to change that */
	bool leaves;               /* it is about to end that, or has */
	bool dead;                 /* its process is: nobody reads what it is told */
	bool led;                  /* LEADING is the last that it was told, but for AT_RISK, */
	bool stopped;              /* or STOP */
	int64_t stopped_ns;        /* when */
	bool asked;                /* to hand over, since its client is drained */
	unsigned endings;          /* how many NOT_LEADING it was told */
	uint64_t term;             /* of its newest notice */
	char id[LK_FIELD_SIZE];
	int64_t until_ns; /* it leads until then, at least, by what the library says */
};

/* A leader as an observer was told of it, or that there is none. */
struct sim_observer {
	int number;
	bool has;
	lk_leader last;
};

extern struct sim_candidate sim_candidates[SIM_CANDIDATES];

/* `gives_time`: all threads that could run do, so that a notice is read as it comes. */
void sim_terms_begin(bool gives_time);

/* Whether exclusion and order are promised now. */
bool sim_terms_judged(void);

/* A candidate's handle is new, with nothing told. */
void sim_candidate_begin(struct sim_candidate *candidate);

/* It begins to stand. */
void sim_candidate_stands(struct sim_candidate *candidate);

/* Looks whether it leads, by what the library says. */
bool sim_candidate_leads(struct sim_candidate *candidate);

/* All are about to be told to make way (`more` is 1), or were (-1): `known`, and the server has
 * done it, once. */
void sim_retires(int more, bool known);

/* One changes how it stands, which begins; and ends: `known`, the server has written that. */
void sim_stands_begin(struct sim_candidate *candidate);
void sim_stands_end(struct sim_candidate *candidate, bool known);

void sim_candidate_hears(struct sim_candidate *candidate, const lk_event *event);

/* It is about to transfer: the order does not count meanwhile. Behind it: to whom, or NULL. */
void sim_transfer_begins(void);
void sim_transfer_ends(const struct sim_candidate *to);

/* What the server says of the leader, as one was told that leads from before the question to behind
 * the answer. */
void sim_check_leader(const struct sim_candidate *candidate, const lk_leader *leader);

/* Where nothing is lost: it leads with what it has said last, or soon does, if its last try was
 * under way when it said that. */
void sim_check_value(struct sim_candidate *candidate);

void sim_observed(struct sim_observer *observer, const lk_leader *leader);

/* Whether the last that it was told is what the server has. */
bool sim_observer_knows(const struct sim_observer *observer);

/* How many terms there were, and when the last one began. */
unsigned sim_term_count(void);
int64_t sim_term_since_ns(void);

/* In the end nobody has the place, nor waits. */
void sim_terms_check_left(void);

#endif
