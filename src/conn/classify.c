#include "conn/classify.h"

#include <stddef.h>
#include <string.h>

#include <lockkeeper/error.h>

/* Refusals that the server gives before the first write of a command or script. */
static const struct {
	const char *prefix;
	int code;
} refusals[] = {
	{"LOADING", LK_EUNAVAILABLE},
	{"BUSY ", LK_EUNAVAILABLE},
	{"MASTERDOWN", LK_EUNAVAILABLE},
	{"READONLY", LK_EUNAVAILABLE},
	{"TRYAGAIN", LK_EUNAVAILABLE},
	{"CLUSTERDOWN", LK_EUNAVAILABLE},
	{"MOVED", LK_EUNAVAILABLE},
	{"ASK ", LK_EUNAVAILABLE},
	{"NOSCRIPT", LK_EUNAVAILABLE},
	{"ERR max number of clients", LK_EUNAVAILABLE},
	{"OOM", LK_EREFUSED},
	{"MISCONF", LK_EREFUSED},
	{"NOREPLICAS", LK_EREFUSED},
	{"NOAUTH", LK_EAUTH},
	{"WRONGPASS", LK_EAUTH},
	{"ERR AUTH", LK_EAUTH},
	{"ERR Client sent AUTH", LK_EAUTH},
	{"ERR invalid password", LK_EAUTH},
	{"NOPERM", LK_EDENIED},
	{"DENIED", LK_EDENIED},
	{"ERR The user executing the script", LK_EDENIED},
	{"ERR ACL failure in script", LK_EDENIED},
	{"ERR unknown command", LK_EDENIED},
	{"ERR DB index", LK_EINVAL},
	{"ERR invalid DB index", LK_EINVAL},
	{"WRONGTYPE", LK_EWRONGTYPE},
	{"LOCKKEEPER", LK_EINTERNAL},
};

static int refusal_code(const char *text)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (strncmp(text, refusals[i].prefix, strlen(refusals[i].prefix)) == 0)
			return refusals[i].code;
	return 0;
}

int lk__classify(const char *text)
{
	int code = refusal_code(text);
	if (code)
		return code;
	/* Servers up to 6 wrap an error from inside a script: "… @user_script: 3: -OOM …". */
	const char *inner = strncmp(text, "ERR Error running script", 24) ? NULL
									  : strstr(text, ": -");
	if (inner)
		code = refusal_code(inner + 3);
	return code ? code : LK_EMAYBEHELD;
}
