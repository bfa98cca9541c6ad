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

struct lk__found_at {
	enum lk__found what;
	size_t node; /* index; or LK__TOGETHER */
	char detail[LK__REFUSED_SIZE + 20];
};

#define LK__TOGETHER ((size_t)-1)

struct lk__findings {
	size_t count;
	struct lk__found_at *list;
	bool incomplete; /* out of memory */
};

/* Names a proxy or a test server. True: what else seems wrong there follows from that. */
bool lk__judge_stand_in(struct lk__findings *findings, const struct lk__facts *node, size_t index);

/* Adds a finding. */
__attribute__((format(printf, 4, 5))) void lk__find(struct lk__findings *findings,
						    enum lk__found what, size_t node,
						    const char *format, ...);

/* All findings about these nodes, the worst first. */
void lk__judge(struct lk__findings *findings, const struct lk__examined *examined);

/* Those about one server that has locks. */
void lk__judge_own(struct lk__findings *findings, const struct lk__facts *node, size_t index,
		   bool quorum);

/* The subjects. */
void lk__judge_server(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_memory(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_disk(struct lk__findings *findings, const struct lk__facts *node, size_t index,
		    bool quorum);
void lk__judge_replicas(struct lk__findings *findings, const struct lk__facts *node, size_t index,
			bool quorum);
void lk__judge_links(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_rights(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_pace(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_slots(struct lk__findings *findings, const struct lk__facts *node, size_t index);
void lk__judge_quorum(struct lk__findings *findings, const struct lk__facts *nodes, size_t count);
void lk__judge_replica(struct lk__findings *findings, const struct lk__examined *examined,
		       size_t index);
void lk__judge_sentinel(struct lk__findings *findings, const struct lk__examined *examined,
			size_t index);

/* The replicas and sentinels of one that has locks, together. */
void lk__judge_failover(struct lk__findings *findings, const struct lk__examined *examined,
			size_t own);

/* Finds `what` where a failover, which takes so long because a setting has that value, may outlast
 * a lease; true then. */
bool lk__find_slow(struct lk__findings *findings, enum lk__found what, size_t index,
		   const char *setting, int64_t value_ms, int64_t failover_ms, int64_t lease_ms);

/* Whether it could not be asked because it does not answer. */
bool lk__facts_silent(const struct lk__facts *node);

/* How long a node of a quorum has no vote yet, because it may have forgotten locks. 0: it has. */
int64_t lk__facts_voteless_s(const struct lk__facts *node);

/* Whether locks can be taken there, as far as is known. */
bool lk__facts_serve(const struct lk__facts *node);

/* What the nodes promise together, as one sentence. */
void lk__promise(const struct lk__findings *findings, const struct lk__examined *examined,
		 char *text_out, size_t size);

#endif
