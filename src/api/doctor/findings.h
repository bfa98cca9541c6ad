/* SPDX-License-Identifier: MIT */
/* The table of findings, the list of those that were made, and who makes them. */
#ifndef LK__API_DOCTOR_FINDINGS_H
#define LK__API_DOCTOR_FINDINGS_H

#include <lockkeeper/doctor.h>

#include "api/doctor/facts.h"

#define LK__FINDING(name, id, severity, meaning, remedy) LK__FOUND_##name,
enum lk__found {
#include "api/doctor/findings.def"
	LK__FOUND_COUNT
};
#undef LK__FINDING

/* A proxy, or a program for tests, that answers in place of a server. */
struct lk__stand_in {
	const char *hello; /* its "server" in HELLO */
	enum lk__found what;
	const char *title, *follows;
};

struct lk__found_at {
	enum lk__found what;
	size_t node; /* index; or LK__TOGETHER */
	char detail[LK__REFUSED_SIZE + 20];
	lk_finding told; /* to the program, when all are found */
};

#define LK__TOGETHER ((size_t)-1)

struct lk__findings {
	size_t count;
	struct lk__found_at *list;
	bool incomplete; /* out of memory */
};

/* One node that is judged, or all of them together. */
struct lk__case {
	struct lk__findings *findings; /* where it is told */
	const struct lk__examined *examined;
	const struct lk__facts *node; /* NULL: all */
	size_t index;                 /* of the node; LK__TOGETHER */
};

/* Adds a finding. */
__attribute__((format(printf, 3, 4))) void lk__find(const struct lk__case *it, enum lk__found what,
						    const char *format, ...);

/* Tells whether there is such a finding. */
bool lk__found(const struct lk__findings *findings, enum lk__found what);

/* All findings about these nodes, the worst first. */
void lk__judge(struct lk__findings *findings, const struct lk__examined *examined);

/* How long a node of a quorum has no vote yet, because it may have forgotten locks. 0: it has. */
int64_t lk__facts_voteless_s(const struct lk__facts *node);

/* Tells whether locks can be taken there, as far as is known. */
bool lk__facts_serve(const struct lk__facts *node);

/* Writes what the nodes promise together, as one sentence. */
void lk__promise(const struct lk__findings *findings, const struct lk__examined *examined,
		 char *text_out, size_t size);

#endif
