/* SPDX-License-Identifier: MIT */
/* A public call on an election, while it is under way. */
#ifndef LK__API_ELECTION_CALL_H
#define LK__API_ELECTION_CALL_H

#include "lock/client.h"
#include "lock/election.h"

struct lk__election_call {
	lk_election *election;
	struct lk__thread *thread;
	const char *operation;
	struct lk__owner owner;
	int saved;
};

/* Begins a call: 0, or a code with the error. lk__election_end() returns `rc`. */
int lk__election_begin(struct lk__election_call *call, lk_election *election, const char *operation,
		       lk_error *error);
int lk__election_end(const struct lk__election_call *call, int rc);

/* Until when a question of now may take. */
int64_t lk__election_until_ns(const lk_election *election);

#define LK__NOT_A_CANDIDATE "%s: `id` cannot be the id of a candidate"

bool lk__is_candidate_id(const char *id);

#endif
