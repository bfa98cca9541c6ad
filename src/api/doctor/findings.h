/* SPDX-License-Identifier: MIT */
/* The list of findings that were made, and who makes them. */
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

/* All findings about these nodes, the worst first. */
void lk__judge(struct lk__findings *findings, const struct lk__examined *examined);

/* Writes what the nodes promise together, as one sentence. */
void lk__promise(const struct lk__findings *findings, const struct lk__examined *examined,
		 char *text_out, size_t size);

#endif
