/* SPDX-License-Identifier: MIT */
/*
 * The examination: which servers there are, and what was learnt about each, before anybody judges
 * it. What is not known is -1, or "".
 *
 * Of a client's deployment, the servers that have locks are asked through the client. Their
 * replicas, of which one may have them next, are asked through clients of their own, and sentinels
 * over a connection of their own. doctor.c knows whom to ask; facts.c and rights.c ask, and
 * judge.c turns facts into findings.
 */
#ifndef LK__API_DOCTOR_FACTS_H
#define LK__API_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/doctor.h>

#include "api/asking.h"
#include "conf/config.h"
#include "conf/url.h"

#define LK__REFUSED_SIZE 600 /* of a list of rights; a longer one ends in "…" */

/* The part that a node plays for the locks. */
enum lk__part {
	LK__PART_OWN,      /* it has them: one server, a master, a node of a quorum */
	LK__PART_REPLICA,  /* it may take the place of one of those */
	LK__PART_SENTINEL, /* it watches one of those */
};

struct lk__facts {
	enum lk__part part;
	enum lk__deployment deployment; /* in which it is */
	size_t of;                      /* the index of that one */
	char *url;
	char machine[LK__PLACE_SIZE]; /* its host; the same text for all that are this machine */
	char reason[400];             /* why it could not be asked, */
	int code;                     /* which is 0 if it was */

	/* 0 or 1; -1: not known */
	int active; /* replication */
	int snapshots, append;
	int in_step, read_only; /* of a replica */
	int compatible;         /* with Redis 6.2.14: 60214 */
	bool has_info;          /* INFO was answered; */
	bool has_config;        /* so was CONFIG GET; */
	bool has_rights;        /* and all rights could be looked at; a sentinel refused nothing */
	bool sentinel, loading, disk_errors;
	bool cluster;     /* a node of one, and the URL does not say so */
	bool slotless;    /* and that cluster has no slots */
	bool any_setting; /* CONFIG GET answers whatever is asked: what it says proves nothing */

	char server[24];  /* "redis", … */
	char hello[24];   /* the same as HELLO names it, also where INFO is not answered */
	char version[32]; /* its own */
	char run_id[64];  /* the same: the same process */
	char data_id[64]; /* the same: one copies the other's data */
	char role[16];    /* "master", "replica" */
	char master[300]; /* of a replica; that a sentinel names, or "" */
	char policy[32];  /* of eviction */
	char fsync[16];
	char refused[LK__REFUSED_SIZE]; /* of the rights that each lock needs, */
	char refused_tracking
		[LK__REFUSED_SIZE]; /* that it needs to hear at once that a lock is gone, */
	char refused_messages[LK__REFUSED_SIZE]; /* that it needs to tell and hear of releases, */
	char refused_partial[LK__REFUSED_SIZE];  /* of the others */
	char deaf[300]; /* why nobody can wait there; "": one could, or it was not tried */

	const char *unverified; /* what of its certificate; NULL: all is verified */
	int64_t lease_ms;       /* of the client's watchdog */
	int64_t memory_limit;   /* 0: none */
	int64_t memory_used;
	int64_t replicas, min_replicas, lag_s, timeout_s;
	int64_t uptime_s;                 /* its process has run for so long */
	int64_t acks;                     /* replicas that must have a grant */
	int64_t priority;                 /* of a replica; 0: it is never promoted */
	int64_t buffer_hard, buffer_soft; /* of pubsub, bytes; 0: no limit */
	int64_t trip_best_us, trip_worst_us;
	int64_t clock_ahead_us, clock_error_us;

	/* of a node of a cluster */
	int64_t node_timeout_ms;
	int64_t slots_missing; /* which no master of its cluster has; told with the first master */
	int64_t slot_missing;  /* the first of them */

	/* of a sentinel */
	int64_t down_after_ms;
	char no_failover[160]; /* why there would be none now; "": there would be one */

	lk_doctor_node told; /* to the program, when all are known */
};

/* Nodes in this order: those that have locks, then replicas and sentinels. */
struct lk__examined {
	struct lk__facts *nodes;
	size_t count, own;
	bool quorum; /* else one server, or the masters of a cluster */
};

/* Tells whether each replica has a lock before it is granted. */
static inline bool lk__facts_acked(const struct lk__facts *facts)
{
	return facts->replicas > 0 && facts->acks >= facts->replicas;
}

/* Nothing is known yet. */
void lk__facts_clear(struct lk__facts *facts);

/* Waits for the connection to the node. LK__WAIT_READY, or a code with `error` filled. */
int lk__facts_connect(const struct lk__asked *asked, lk_error *error);

/* Asks the node, of which nothing is known. 0, also when it cannot be asked (`code`); or the code
 * of a failure of our own, with `error` filled. */
int lk__facts_ask(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error);

/* Asks what the user may do there. LK__WAIT_READY, or a code with `error` filled. */
int lk__facts_ask_rights(struct lk__facts *facts, const struct lk__asked *asked, lk_error *error);

/* Reads the text of INFO; the answer to ROLE; and the answer to CONFIG GET about one setting. */
void lk__facts_read_info(struct lk__facts *facts, const redisReply *reply);
void lk__facts_read_role(struct lk__facts *facts, const redisReply *reply);
void lk__facts_read_setting(struct lk__facts *facts, const redisReply *reply);

/* The settings that are asked for; NULL beyond the last. */
const char *lk__facts_setting(size_t index);

/* ---- the examination ---- */

#define LK__PLACES_MORE_MAX 64 /* replicas, and sentinels, of one deployment */

struct lk__places {
	size_t count;
	char name[LK__PLACES_MORE_MAX][LK__PLACE_SIZE]; /* host:port */
};

/* Adds what is not there yet, as long as there is room. */
void lk__places_add(struct lk__places *places, const char *name);

/* Asks the sentinel at `place` about the master of the client, and adds the replicas and the
 * sentinels that it knows. Its facts but for part and `of`. LK_ENOMEM, LK_ESYSTEM. */
int lk__sentinel_examine(struct lk__facts *facts, const struct lk_config *config, const char *place,
			 struct lk__places *replicas, struct lk__places *sentinels,
			 lk_error *error);

/* Asks the sentinel at `place` only how long it waits until it calls the master down; 0: it does
 * not say. Each step takes `limit_ms` at most. Returns 0, or the code of the failure. */
int lk__sentinel_pace(const struct lk_config *config, const char *place, int64_t limit_ms,
		      int64_t *down_after_ms_out);

/* ---- how long a failover takes ---- */

/* At most; 0: not known. `acks`: how many replicas must have a renewal. */
int64_t lk__pace_of_sentinels_ms(int64_t down_after_ms, int64_t acks);
int64_t lk__pace_of_cluster_ms(int64_t node_timeout_ms);

/* The time that a lease leaves for a failover. */
int64_t lk__pace_left_ms(int64_t lease_ms);

/* The shortest lease, in whole seconds, that leaves so much. */
int64_t lk__pace_least_ms(int64_t failover_ms);

#endif
