/* SPDX-License-Identifier: MIT */
/*
 * The configuration as the rest of the library reads it: one member an option, plus where the URL
 * points. Texts are never NULL.
 */
#ifndef LK__CONF_CONFIG_H
#define LK__CONF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/config.h>

#include "base/fail.h"
#include "base/log.h"
#include "conf/text.h"

enum lk__scheme { LK__SCHEME_NONE, LK__SCHEME_TCP, LK__SCHEME_TLS, LK__SCHEME_UNIX };

/* One server, or one that takes its place: among those listed, or named by sentinels. */
enum lk__deployment { LK__SINGLE, LK__REPLICAS, LK__SENTINEL, LK__CLUSTER };

#define LK__PLACES_MAX 16 /* in a URL that lists several */
#define LK__ACKS_MAX 64
#define LK__NOTE_MAX 256 /* bytes: LK_NOTE_SIZE_MAX */
#define LK__ACKS_ALL (-1)

/*
 * The options that are one of a few words. The words stand in the order of these: what a client
 * records about itself; disks that must have a grant; by which messages waiters are told of
 * releases (PUBLISH, SPUBLISH, or one of each); whether servers are asked to tell what happens to
 * keys (CLIENT TRACKING); what of a server's certificate is verified.
 */
enum lk__records { LK__RECORDS_OFF, LK__RECORDS_SHORT, LK__RECORDS_FULL, LK__RECORDS_ARGUMENTS };
enum lk__fsync { LK__FSYNC_OFF, LK__FSYNC_LOCAL, LK__FSYNC_REPLICAS };
enum lk__messages {
	LK__MESSAGES_PLAIN,
	LK__MESSAGES_SHARDED,
	LK__MESSAGES_BOTH,
	LK__MESSAGES_COUNT
};
enum lk__verify { LK__VERIFY_ON, LK__VERIFY_AUTHORITY, LK__VERIFY_OFF };

struct lk__chosen {
	enum lk__records records;
	enum lk__fsync fsync;
	enum lk__messages messages;
	bool tracks;
	enum lk__verify verify;
};

#define LK__MEMBER_MS(name) int64_t name;
#define LK__MEMBER_INT(name) int64_t name;
#define LK__MEMBER_TEXT(name) char *name;
#define LK__MEMBER_FILE(name) char *name;
#define LK__MEMBER_SECRET(name) char *name;
#define LK__MEMBER_URL(name) char *name; /* as shown: without secrets */
#define LK__OPTION(name, environment, kind, default_value, least, most, description)               \
	LK__MEMBER_##kind(name)

struct lk_config {
#include "conf/options.def"
	struct lk__chosen chosen; /* what their texts say */
	enum lk__scheme scheme;
	enum lk__deployment deployment;
	char *host; /* name or address without brackets, or the path of the unix socket; the first
		       of several */
	int port;
	char *places; /* of several: host:port,host:port with IPv6 in brackets; else "" */
	char *seeds;  /* of a cluster: `places`, also where one of its nodes is asked alone */
	char *master; /* of sentinels: the name by which they know it; else "" */
	struct lk__log log;
	bool threadless;             /* the program drives its clients, see <lockkeeper/loop.h> */
	lk_resolve_callback resolve; /* then, or NULL */
	void *resolve_context;
	lk_credentials_callback credentials; /* or NULL */
	void *credentials_context;
};

#undef LK__OPTION

/* The fault that keeps a text from being a note; NULL: none. */
const char *lk__note_fault(const char *note);

/* A deep copy, or NULL when out of memory. */
struct lk_config *lk__config_copy(const struct lk_config *config);

/* Points it at a place, host:port. 0, or LK_ENOMEM. */
int lk__config_point(struct lk_config *config, const char *place);

/* Where its server is, in LK__PLACE_SIZE bytes: host:port, or the path of its socket. */
void lk__config_place(const struct lk_config *config, char *place_out);

/* How many replicas must have a grant: a number, or LK__ACKS_ALL. */
int lk__config_acks(const struct lk_config *config);

/* Where disks are waited for, answers take longer: raises the command limit to what that needs. */
void lk__config_fit_limits(struct lk_config *config);

/* Finds out whether a client can be made from it: LK_EINVAL without a URL or when options
 * contradict. */
int lk__config_check(const struct lk_config *config, lk_error *error);

/*
 * ---- credentials ----
 *
 * User name and password, which may change while a client lives: each connection asks for them
 * (net/stream.c).
 *
 * They come from the program's callback, else from the password file, else from the configuration.
 * A file that cannot be read again leaves the password with which the option was set.
 */

#define LK__PASSWORD_MAX 4096 /* bytes of a password file's first line */

/* Tells whether they may change: a client that is refused with them now may be served later. */
static inline bool lk__credentials_change(const struct lk_config *config)
{
	return config->credentials || *config->password_file || *config->sentinel_password_file;
}

/* Tells whether files say whom a client trusts, or who it is. Each connection reads them again, so
 * one that fails now may succeed when they have been exchanged. */
static inline bool lk__certificates_change(const struct lk_config *config)
{
	return *config->tls_ca_file || *config->tls_ca_dir || *config->tls_cert_file;
}

/*
 * Reads the first line of a file into `line`, which has room for LK__PASSWORD_MAX + 2 bytes.
 * Returns 0 with `reason_out` NULL, or with a text that says why it cannot be a password; or
 * -errno. `regular`: of a pipe or a terminal nothing is read (-ESPIPE).
 */
int lk__password_read(const char *path, bool regular, char *line, const char **reason_out);

#endif
