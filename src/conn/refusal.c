/* SPDX-License-Identifier: MIT */
#include "conn/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <lockkeeper/error.h>

#define CLUSTER "the server is a node of a cluster: use redis-cluster://"
#define SCRIPTLESS "it runs no scripts: use Redis or Valkey"
#define SCRIPT_LOST "it had forgotten the script, which could not be loaded again in time"
#define NAMELESS "the server has no users: give the password alone"

/* Refusals that the server gives before the first write of a command or script. */
static const struct {
	const char *prefix;
	int code;
	bool passes; /* told at once, but a wait with a limit waits for its end */
	const char *hint;
} refusals[] = {
	{"LOADING", LK_EUNAVAILABLE, false, NULL},
	{"BUSY ", LK_EUNAVAILABLE, false, NULL},
	{"MASTERDOWN", LK_EUNAVAILABLE, false, NULL},
	{"READONLY", LK_EUNAVAILABLE, false, "the server is a replica: name its master"},
	{"TRYAGAIN", LK_EUNAVAILABLE, false, NULL},
	{"CLUSTERDOWN", LK_EUNAVAILABLE, false, NULL},
	{"MOVED", LK_EREFUSED, false, CLUSTER},
	{"ASK ", LK_EREFUSED, false, CLUSTER},
	{"CROSSSLOT", LK_EREFUSED, false, CLUSTER},
	{"NOSCRIPT", LK_EUNAVAILABLE, false, SCRIPT_LOST},
	/* Servers that are not Redis say this, in tests. */
	{"ERR NOSCRIPT", LK_EUNAVAILABLE, false, SCRIPT_LOST},
	{"ERR max number of clients", LK_EUNAVAILABLE, false, NULL},
	{"OOM", LK_EREFUSED, false, NULL},
	{"MISCONF", LK_EREFUSED, true, NULL},
	{"NOREPLICAS", LK_EREFUSED, true, NULL},
	{"NOAUTH", LK_EAUTH, false, NULL},
	{"WRONGPASS", LK_EAUTH, false, NULL},
	{"ERR AUTH", LK_EAUTH, false, NULL},
	{"ERR Client sent AUTH", LK_EAUTH, false, NULL},
	{"ERR invalid password", LK_EAUTH, false, NULL},
	{"ERR wrong number of arguments for 'auth'", LK_EAUTH, false, NAMELESS}, /* up to 5 */
	{"NOPERM", LK_EDENIED, false, NULL},
	{"DENIED", LK_EDENIED, false, NULL},
	{"ERR The user executing the script", LK_EDENIED, false, NULL},
	{"The user executing the script", LK_EDENIED, false, NULL}, /* up to 6, inside a script */
	{"ERR ACL failure in script", LK_EDENIED, false, NULL},
	{"ERR unknown command", LK_EDENIED, false, NULL},
	{"ERR unknown subcommand", LK_EDENIED, false, NULL},
	{"ERR Unknown subcommand", LK_EDENIED, false, NULL},       /* up to 6 */
	{"ERR Command is not available", LK_EDENIED, false, NULL}, /* Upstash */
	{"interpreter disabled", LK_EDENIED, false, SCRIPTLESS},   /* ClauDB */
	{"ERR DB index", LK_EINVAL, false, NULL},
	{"ERR invalid DB index", LK_EINVAL, false, NULL},
	{"ERR invalid database index", LK_EINVAL, false, NULL}, /* Garnet */
	{"ERR SELECT is not allowed in cluster mode", LK_EINVAL, false, CLUSTER},
	{"WRONGTYPE", LK_EWRONGTYPE, false, NULL},
	{"ERR WRONGTYPE", LK_EWRONGTYPE, false, NULL}, /* as ERR NOSCRIPT */
	{"LOCKKEEPER unfit", LK_EREFUSED, false, "it is no Redis or Valkey: use one of these"},
	{"LOCKKEEPER", LK_EINTERNAL, false, NULL},
};

#define REFUSAL_COUNT (sizeof(refusals) / sizeof(refusals[0]))

static size_t refusal_at(const char *text)
{
	size_t at = 0;
	while (at < REFUSAL_COUNT &&
	       strncmp(text, refusals[at].prefix, strlen(refusals[at].prefix)) != 0)
		at++;
	return at;
}

/*
 * Its row, or REFUSAL_COUNT. Servers up to 6 wrap an error from inside a script: "ERR Error running
 * script (call to f_…): @user_script:3: @user_script: 3: -OOM …", or "…: @user_script:3: WRONGTYPE
 * …". ClauDB: "script:3 …".
 */
static size_t refusal_of(const char *text)
{
	if (strncmp(text, "script:", 7) == 0)
		text += strcspn(text, " ") + (strchr(text, ' ') != NULL);
	size_t found = refusal_at(text);
	if (found < REFUSAL_COUNT || strncmp(text, "ERR Error running script", 24) != 0)
		return found;
	for (const char *at = strstr(text, ": "); found == REFUSAL_COUNT && at;
	     at = strstr(at + 2, ": "))
		found = refusal_at(at + 2 + (at[2] == '-'));
	return found;
}

/*
 * Tells whether the error comes from inside a script. Servers up to 6 say it in front, later ones
 * behind. An error that a script of ours passes on has neither, but words of the server's for a
 * call that it does not know, or does not allow there. A proxy that answers in a server's place
 * says none of these.
 */
static bool has_run(const char *text, int size)
{
	return strstr(text, " from script") || strstr(text, " from Lua script") ||
	       strncmp(text, "ERR Error running script (call to f_", 36) == 0 || text[size] != '\0';
}

static int size_of(const char *text)
{
	const char *place = strstr(text, " script: ");
	size_t hash = place ? strspn(place + 9, "0123456789abcdef") : 0;
	bool ends = hash > 0 && strncmp(place + 9 + hash, ", on ", 5) == 0;
	return (int)(ends ? (size_t)(place - text) : strlen(text));
}

struct lk__refusal lk__refusal(const char *text)
{
	size_t at = refusal_of(text);
	bool known = at < REFUSAL_COUNT;
	const char *prefix = known ? refusals[at].prefix : "";
	int size = size_of(text);
	return (struct lk__refusal){
		.code = known ? refusals[at].code : LK_EMAYBEHELD,
		.size = size,
		.hint = known && refusals[at].hint ? refusals[at].hint : "",
		.lasting = !known && strncmp(text, "ERR ", 4) == 0,
		.passes = known && refusals[at].passes,
		.ran = has_run(text, size),
		.replica = strcmp(prefix, "READONLY") == 0 || strcmp(prefix, "MASTERDOWN") == 0,
		.unscripted = strcmp(prefix, "NOSCRIPT") == 0 ||
			      strcmp(prefix, "ERR NOSCRIPT") == 0,
		.unknown = strcmp(prefix, "ERR unknown command") == 0,
		.redirects = strncmp(text, "MOVED ", 6) == 0 || strncmp(text, "ASK ", 4) == 0,
		.parted = strncmp(text, "TRYAGAIN", 8) == 0,
	};
}
