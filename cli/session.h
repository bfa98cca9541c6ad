/* SPDX-License-Identifier: MIT */
/* Every command but `run` begins and ends with a session: options, then a client. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <lockkeeper.h>

#include "kind.h"
#include "nodes.h"
#include "options.h"
#include "wait_status.h"

struct session {
	lk_config *config;
	lk_client *client; /* of the first server; NULL until session_open() */
	struct nodes nodes;
	lk_client *clients[LK_RED_NODES_MAX]; /* of all */
	size_t count;
	struct wait_status_wish told; /* -v and -q, of commands that have them */
	int64_t opened_ns;
	struct wait_status waiting;
	int refused; /* LOCKKEEPER_URL names a quorum, on which the command does not work */
	int argc;    /* operands */
	char **argv;
	const struct lock_kind
		*kind; /* of session_open_lock(); the default one after the beginning */
};

/*
 * A command whose table has the row SEVERAL_ROW works on several servers too.
 *
 * Parses options, then checks the number of operands. Returns 0; or -1 - exit code, when the
 * program should end now.
 */
int session_begin(struct session *session_out, const struct command *command, int argc, char **argv,
		  option_taker take, void *state, int least, int most);

/* Makes the clients; 0, or EXIT_TROUBLE (said). With -v it says which servers they are. */
int session_open(struct session *session);

/* Makes the client and the lock that the first operand names; 0, or an exit code (said). */
int session_open_lock(struct session *session, lk_lock **lock_out);

/* With -v: what was done to a name, and how long that took from session_open() on. */
void session_did(const struct session *session, const char *done, const char *name);

/* The name of a server, if it is one of several; else NULL. Valid until session_end(). */
const char *session_node(const struct session *session, size_t index);

/* Closes the clients, leaving what they hold to its lease. Returns `code`. */
int session_end(struct session *session, int code);

/* An option_taker for commands that have no options of their own. */
int take_nothing(void *state, int id, const char *value);

/* An option_taker for commands with one flag, an int. */
int take_flag(void *state, int id, const char *value);

#endif
