/* SPDX-License-Identifier: MIT */
/*
 * MariaDB, a connection for each thread. The URL is mariadb://HOST:PORT/DATABASE. Kinds:
 *
 *     get-lock        GET_LOCK(): the session holds it
 *     unique          a row that is there while the lock is held, by a unique name; no lease
 */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "turns.h"

#define POLL_US 10000 /* for a unique row: nobody tells when it goes */

struct session {
	int unique;
	MYSQL *connection;
	char owner[64], text[256];
};

static void *mariadb_open(const char *url, const char *kind)
{
	static _Atomic int sessions;
	struct session *session = calloc(1, sizeof(*session));
	char host[128], database[64];
	unsigned port;
	if (!session || sscanf(url, "mariadb://%127[^:]:%u/%63s", host, &port, database) != 3)
		bench_die("not mariadb://HOST:PORT/DATABASE: %s", url);
	session->unique = strcmp(kind, "unique") == 0;
	if (!session->unique && strcmp(kind, "get-lock") != 0)
		bench_die("no kind is called %s", kind);
	snprintf(session->owner, sizeof(session->owner), "%d-%d", (int)getpid(), sessions++);
	session->connection = mysql_init(NULL);
	my_bool again = 1;
	mysql_options(session->connection, MYSQL_OPT_RECONNECT, &again);
	if (!mysql_real_connect(session->connection, host, "bench", "", database, port, NULL, 0))
		bench_die("%s", mysql_error(session->connection));
	return session;
}

/* The number in the answer's only field, or of the rows changed; -1: failed. */
static long run(struct session *session, const char *statement)
{
	if (mysql_query(session->connection, statement)) {
		snprintf(session->text, sizeof(session->text), "%s",
			 mysql_error(session->connection));
		return -1;
	}
	MYSQL_RES *result = mysql_store_result(session->connection);
	if (!result)
		return (long)mysql_affected_rows(session->connection);
	MYSQL_ROW row = mysql_fetch_row(result);
	long number = row && row[0] ? atol(row[0]) : 0;
	mysql_free_result(result);
	return number;
}

/* A name of this program has nothing to quote. */
static enum turns_outcome mariadb_lock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	char statement[256];
	long got;
	*text = session->text;
	if (session->unique)
		snprintf(statement, sizeof(statement),
			 "INSERT IGNORE INTO held (name, owner) VALUES ('%s', '%s')", name,
			 session->owner);
	else
		snprintf(statement, sizeof(statement), "SELECT GET_LOCK('%s', 3600)", name);
	while ((got = run(session, statement)) == 0)
		if (session->unique)
			bench_sleep_us(POLL_US);
	return got < 0 ? TURNS_FAILED : TURNS_OK;
}

static enum turns_outcome mariadb_unlock(void *opened, const char *name, const char **text)
{
	struct session *session = opened;
	char statement[256];
	*text = session->text;
	if (session->unique)
		snprintf(statement, sizeof(statement),
			 "DELETE FROM held WHERE name = '%s' AND owner = '%s'", name,
			 session->owner);
	else
		snprintf(statement, sizeof(statement), "SELECT RELEASE_LOCK('%s')", name);
	long gone = run(session, statement);
	return gone < 0 ? TURNS_FAILED : gone ? TURNS_OK : TURNS_LOST;
}

int main(int argc, char **argv)
{
	static const struct turns_lock lock = {mariadb_open, mariadb_lock, mariadb_unlock};
	return turns_main(argc, argv, &lock);
}
