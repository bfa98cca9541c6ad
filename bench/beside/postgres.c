/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL, a connection for each thread. The URL is a connection string of libpq. Kinds:
 *
 *     advisory        pg_advisory_lock(): the session holds it
 *     advisory-tx     pg_advisory_xact_lock(): the transaction holds it
 *     row             SELECT … FOR UPDATE: the transaction holds it
 *     unique          a row that is there while the lock is held, by a unique name; no lease
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "turns.h"

#define POLL_US 10000 /* for a unique row: nobody tells when it goes */
#define HASH "hashtextextended($1, 0)"

struct kind {
	const char *name, *prepare, *lock, *unlock;
	int transaction; /* that holds the lock */
};

static const struct kind kinds[] = {
	{"advisory", NULL, "SELECT pg_advisory_lock(" HASH ")",
	 "SELECT pg_advisory_unlock(" HASH ")", 0},
	{"advisory-tx", NULL, "SELECT pg_advisory_xact_lock(" HASH ")", "COMMIT", 1},
	{"row", "INSERT INTO rows (name) VALUES ($1) ON CONFLICT DO NOTHING",
	 "SELECT name FROM rows WHERE name = $1 FOR UPDATE", "COMMIT", 1},
	{"unique", NULL, "INSERT INTO held (name, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING",
	 "DELETE FROM held WHERE name = $1 AND owner = $2", 0},
};

struct session {
	const struct kind *kind;
	PGconn *connection;
	char owner[64], text[256], prepared[128];
};

static void keep_text(struct session *session, const char *text)
{
	snprintf(session->text, sizeof(session->text), "%s", text);
	session->text[strcspn(session->text, "\n")] = 0;
}

/* Rows that it found or changed, none if it answers false; -1: failed, and the session has the
 * text. Nothing is prepared: a pool in between may not bear that. */
static int run(struct session *session, const char *statement, const char *name, int arguments)
{
	const char *values[] = {name, session->owner};
	PGresult *result = PQexecParams(session->connection, statement, arguments, NULL, values,
					NULL, NULL, 0);
	ExecStatusType status = PQresultStatus(result);
	int rows = -1;
	if (status == PGRES_TUPLES_OK)
		rows = PQntuples(result) && strcmp(PQgetvalue(result, 0, 0), "f") != 0;
	else if (status == PGRES_COMMAND_OK)
		rows = atoi(PQcmdTuples(result));
	else
		keep_text(session, PQerrorMessage(session->connection));
	PQclear(result);
	return rows;
}

static void *postgres_open(const char *url, const char *kind)
{
	static _Atomic int sessions;
	struct session *session = calloc(1, sizeof(*session));
	if (!session)
		bench_die("out of memory");
	session->kind = turns_kind(kind, kinds, sizeof(kinds) / sizeof(kinds[0]), sizeof(kinds[0]));
	snprintf(session->owner, sizeof(session->owner), "%d-%d", (int)getpid(), sessions++);
	session->connection = PQconnectdb(url);
	if (PQstatus(session->connection) != CONNECTION_OK)
		bench_die("%s", PQerrorMessage(session->connection));
	return session;
}

static enum turns_outcome failed(struct session *session, const char **text)
{
	*text = session->text;
	if (PQstatus(session->connection) == CONNECTION_BAD)
		PQreset(session->connection);
	else if (session->kind->transaction)
		PQclear(PQexec(session->connection, "ROLLBACK"));
	return TURNS_FAILED;
}

static enum turns_outcome postgres_lock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	const struct kind *kind = session->kind;
	if (kind->prepare && strcmp(session->prepared, name) != 0) {
		if (run(session, kind->prepare, name, 1) < 0)
			return failed(session, text);
		snprintf(session->prepared, sizeof(session->prepared), "%s", name);
	}
	if (kind->transaction && PQtransactionStatus(session->connection) == PQTRANS_IDLE &&
	    run(session, "BEGIN", NULL, 0) < 0)
		return failed(session, text);
	int unique = strcmp(kind->name, "unique") == 0, rows;
	while ((rows = run(session, kind->lock, name, unique ? 2 : 1)) == 0 && unique)
		bench_sleep_us(POLL_US);
	return rows < 0 ? failed(session, text) : TURNS_OK;
}

static enum turns_outcome postgres_unlock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	const struct kind *kind = session->kind;
	int unique = strcmp(kind->name, "unique") == 0;
	int rows = run(session, kind->unlock, name, kind->transaction ? 0 : unique ? 2 : 1);
	if (rows < 0) {
		failed(session, text);
		return PQstatus(session->connection) == CONNECTION_OK ? TURNS_LOST : TURNS_FAILED;
	}
	return rows || kind->transaction ? TURNS_OK : TURNS_LOST;
}

int main(int argc, char **argv)
{
	static const struct turns_lock lock = {postgres_open, postgres_lock, postgres_unlock};
	return turns_main(argc, argv, &lock);
}
