/* SPDX-License-Identifier: MIT */
/*
 * The doctor: looks at the servers and says what they promise, and what would lose locks.
 *
 *   lk_doctor *doctor;
 *   if (lk_doctor_new(&doctor, &client, 1, NULL, 0, &error) == 0) {
 *           const lk_finding *finding;
 *           for (size_t i = 0; (finding = lk_doctor_finding(doctor, i)); i++)
 *                   log(finding->severity, finding->id, finding->detail, finding->meaning);
 *           doctor = lk_doctor_free(doctor);
 *   }
 *
 * WHAT IT CANNOT SEE
 *
 * - It sees the settings of this moment. It does not see what somebody changes afterwards, what the
 *   disk does with a write, or who else may delete keys.
 * - It connects to replicas at the addresses that sentinels, masters or the URL name. Whether those
 *   reach one another it knows only from what they say.
 * - Whether two addresses are one machine it knows only from the addresses, and from the server's
 *   run id.
 * - What a server refuses to tell is reported as "not-looked-at", and never guessed.
 *
 * WHAT IT SENDS
 *
 * The doctor sends INFO, ROLE, TIME, CONFIG GET, questions about rights, to a node of a cluster
 * CLUSTER SLOTS, and to sentinels SENTINEL MASTER, REPLICAS, SENTINELS and CKQUORUM: no command
 * that writes. For a moment it subscribes to the channel of the lock `name`, on a second
 * connection.
 * To ask about rights it uses ACL DRYRUN. Where that is refused it loads a script of one line,
 * which changes nothing. On servers before 7.0 it uses ACL GETUSER, or sends the commands that only
 * read, about the lock `name`. The ACL LOG shows afterwards what the user may not do.
 *
 * A FINDING is a row of one table (lk_finding_at(), docs/doctor.md), and what was seen at a node.
 * Its id never changes its meaning; later versions may add rows.
 */
#ifndef LOCKKEEPER_DOCTOR_H
#define LOCKKEEPER_DOCTOR_H

#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>

#define LK_SEVERITY_NOTE 0    /* good to know: no lock is lost by it alone */
#define LK_SEVERITY_WARNING 1 /* a crash, a failover or a change would lose locks or calls */
#define LK_SEVERITY_ERROR 2   /* locks are lost in normal use, or cannot be taken */

typedef struct lk_doctor lk_doctor;

/* A row of the table of findings; static texts. */
typedef struct lk_finding_info {
	const char *id;      /* "eviction" */
	int severity;        /* LK_SEVERITY_… */
	const char *meaning; /* what it does to a lock */
	const char *remedy;  /* what to do about it */
} lk_finding_info;

typedef struct lk_finding {
	const char *id; /* of its row, as are severity, meaning and remedy */
	int severity;
	const char *node;   /* as a URL without secrets; "": the nodes together */
	const char *detail; /* what was seen; never a password */
	const char *meaning;
	const char *remedy;
} lk_finding;

typedef struct lk_doctor_node {
	const char *url;        /* without secrets */
	const char *server;     /* "redis", "valkey", "keydb", …; "" when not known */
	const char *version;    /* "7.0.15"; "" when not known */
	const char *role;       /* "master", "replica", "sentinel"; "" when not known */
	int64_t round_trip_us;  /* the best of several; -1: not measured */
	int64_t clock_ahead_us; /* the server's clock, compared with ours; 0 when not measured */
} lk_doctor_node;

LK_BEGIN_DECLS

/*
 * Looks at the node of each client, one after another, and judges them. One client is a single
 * server, a master with replicas, or a cluster, of which it looks at all masters. Several clients
 * (at most LK_RED_NODES_MAX) are a quorum; of a cluster among them it looks at the first master.
 * Then it looks at the replicas of each client that follows masters, and at its sentinels, at most
 * 64 of each. A node that cannot be asked is a finding, not a failure. `name` is a lock whose
 * rights are looked at, without the configured prefix, for a user who may only use some names; NULL
 * stands for "lockkeeper-doctor". Blocks for up to twelve round trips a node, each at most for the
 * command limit, and twice for the connect limit. Free the report with lk_doctor_free(), before or
 * after the clients. Errors: LK_EINVAL, LK_ENOMEM, LK_ESYSTEM, LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_doctor_new(lk_doctor **doctor_out, lk_client *const *clients, size_t count,
			 const void *name, size_t name_size, lk_error *error);

/*
 * Returns finding `index`, the worst first, or NULL beyond the end. It is valid until
 * lk_doctor_free(). Does not block. Since 0.2.
 */
LK_API const lk_finding *lk_doctor_finding(const lk_doctor *doctor, size_t index);

/* Returns what was learnt about node `index`, in the order of the clients, or NULL beyond the end.
 * Of a cluster they are its masters. Replicas and sentinels come behind all of these. It is valid
 * until lk_doctor_free(). Does not block. Since 0.2. */
LK_API const lk_doctor_node *lk_doctor_node_at(const lk_doctor *doctor, size_t index);

/* Returns the severity of the worst finding (LK_SEVERITY_NOTE if there is none). Since 0.2. */
LK_API int lk_doctor_worst(const lk_doctor *doctor);

/* Returns one sentence on what the servers promise together ("one server: …"). It is valid until
 * lk_doctor_free(). Since 0.2. */
LK_API const char *lk_doctor_promise(const lk_doctor *doctor);

/*
 * Asks how long a failover of the client's deployment may take, and writes it in ms: from the death
 * of a master until its locks can be renewed at another. That is the time in which the servers miss
 * it (down-after-milliseconds, cluster-node-timeout), elect another, and let the other replicas
 * follow. Writes 0 where no server takes another's place by itself (one server, a list), or where
 * the deployment does not tell. Two thirds of a lease may be left when the master dies, since it is
 * renewed at a third; what the holder wants to have at the end comes off. Blocks for one round trip
 * in a cluster, and until it is connected at most for the connect limit; with Sentinel for three
 * round trips, and at most about 3 s where sentinels do not answer. Errors: LK_EINVAL, LK_ENOMEM,
 * LK_ESYSTEM, LK_ECLOSED, LK_EFORKED, LK_EBLOCKING, LK_EUNREACHABLE. Since 0.2.
 */
LK_API int lk_failover_time(lk_client *client, int64_t *failover_ms_out, lk_error *error);

/* Frees what was found. NULL is fine. Returns NULL. Since 0.2. */
LK_API lk_doctor *lk_doctor_free(lk_doctor *doctor);

/* Returns row `index` of the table of findings, or NULL beyond the end. Static memory.
 * Since 0.2. */
LK_API const lk_finding_info *lk_finding_at(size_t index);

LK_END_DECLS

#endif
