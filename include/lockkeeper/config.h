/* SPDX-License-Identifier: MIT */
/*
 * Configuration of a client: a URL and named options.
 *
 * The options come from one table, which also feeds the environment (LOCKKEEPER_<NAME>), the
 * command's `-o name=value`, and docs/options.md, which is installed below share/doc/lockkeeper.
 * URLs:
 *
 *   redis://[user[:password]@]host[:port][/db]
 *   rediss://[user[:password]@]host[:port][/db]     TLS; peer and host name are verified
 *   valkey://…  valkeys://…                         the same two under other names
 *   unix://path            unix://[user[:password]@]path[?db=N]
 *   redis-replicas://[user[:password]@]host[:port],host[:port],…[/db]
 *                                                   a master and its replicas, all listed
 *   redis-sentinel://[user[:password]@]host[:port],host[:port],…/master[/db]
 *                                                   the sentinels, and the master's name there
 *   redis-cluster://[user[:password]@]host[:port],host[:port],…
 *                                                   some nodes of a cluster
 *   rediss-replicas://…  rediss-sentinel://…  rediss-cluster://…
 *                                                   the same with TLS; valkey and valkeys for redis
 *                                                   and rediss mean the same here too
 *
 * Write reserved characters in user, password and path as %XX, and IPv6 addresses in brackets. A
 * query sets options: redis://host?client_name=worker&spin_us=0 (db is short for database; url,
 * names, passwords and their files are not allowed there). The last setting of an option wins.
 * A URL does not change options that it does not name.
 *
 * FAILOVERS. With redis-replicas://, redis-sentinel:// and redis-cluster:// the client follows a
 * master through failovers. A new master may lack the last grants, since Redis replicates after it
 * has answered. So a grant, a renewal, an extension and a change of a count succeed only when every
 * live replica has them, or as many as the option replica_acks says; else the call fails with
 * LK_ENOTDURABLE within a third of the command limit: a grant is given back, a deadline stays as it
 * was. A failover loses a lock only if all replicas that have it are down: the library tells the
 * holder that its lock is lost when it knows the new master.
 *
 * docs/deployments.md, for operators, says which replicas count and how the master is found, what a
 * cluster does while a slot moves, how many connections a client has and what a silent one means,
 * and what the options address_map, messages, connections, tls_… and fsync_acks are for.
 *
 * Only one thread at a time may use a configuration. Its calls do no I/O, except to read the file
 * that password_file, sentinel_password_file or tls_key_password_file names.
 */
#ifndef LOCKKEEPER_CONFIG_H
#define LOCKKEEPER_CONFIG_H

#include <stddef.h>

#include <lockkeeper/error.h>

typedef struct lk_config lk_config;

/* Levels of the log callback. */
#define LK_LOG_ERROR 1
#define LK_LOG_WARNING 2
#define LK_LOG_INFO 3
#define LK_LOG_DEBUG 4

/*
 * Receives one log line, without a newline; it never contains a password. lk_config_set_log() says
 * on which thread. It must not call the library.
 *
 * The library writes one line, at LK_LOG_WARNING, for each connection lost, each attempt to connect
 * that fails (these are backoff_min_ms to backoff_max_ms apart), each lock lost, each thread that
 * ends while it holds a lock, and each release not waited for that fails. It writes none for calls
 * that succeed. A server that fails under 10,000 locks costs 10,000 lines.
 */
typedef void (*lk_log_callback)(void *context, int level, const char *line);

/* One row of the option table; all texts are static. */
typedef struct lk_option_info {
	const char *name;        /* "command_timeout_ms" */
	const char *environment; /* "LOCKKEEPER_COMMAND_TIMEOUT_MS", or NULL: not read from there */
	const char *type;        /* "milliseconds", "integer", "text", "file", "secret", … */
	const char *default_value; /* as text; "" for none */
	const char *range;         /* "1 … 3600000", or "" */
	const char *description;   /* one sentence */
} lk_option_info;

#define LK_CREDENTIAL_SIZE 4097 /* bytes of a user name or a password, with its NUL */

typedef struct lk_credentials {
	char username[LK_CREDENTIAL_SIZE]; /* "": AUTH takes the password alone */
	char password[LK_CREDENTIAL_SIZE]; /* "": no AUTH */
} lk_credentials;

/*
 * Writes the credentials for a server, `place` (host:port, or the path of a unix socket), into
 * `credentials_out`, which is zeroed, and returns 0. Another value means that there are none at
 * present. See lk_config_set_credentials().
 */
typedef int (*lk_credentials_callback)(void *context, const char *place,
				       lk_credentials *credentials_out);

#define LK_ADDRESS_SIZE 64 /* bytes of an address as text, with its NUL */

/*
 * Writes the address of `host`, IPv4 or IPv6, as text with a NUL, and returns 0; or returns -1 when
 * there is none, which fails the attempt to connect. Called by lk_client_process() before each
 * attempt. It must return at once (look into a cache that the program fills) and must not call the
 * library.
 */
typedef int (*lk_resolve_callback)(void *context, const char *host, char *address_out, size_t size);

LK_BEGIN_DECLS

/*
 * Makes a configuration with every option at its default. Free it with lk_config_free().
 * Errors: LK_EINVAL, LK_ENOMEM. Since 0.2.
 */
LK_API int lk_config_new(lk_config **config_out, lk_error *error);

/*
 * Frees a configuration and wipes its secrets; clients made from it have copies. NULL is fine.
 * Returns NULL. Since 0.2.
 */
LK_API lk_config *lk_config_free(lk_config *config);

/*
 * Sets one option from text, and copies the text. If the text is invalid or out of range, the call
 * fails with LK_EINVAL and a message that names option, value and reason, and changes nothing. The
 * option "url" parses the URL and sets what it names; "password_file" reads the file at once,
 * and waits up to 3 s for one who writes to a pipe, and up to 60 s for the line of a pipe or a
 * terminal. Names of users and files, and "key_prefix", are refused in quotes, and with a blank or
 * a line break before or behind them. The path of a file or a socket that does not begin at the
 * root is meant from the folder in which the process is now: later ones change nothing, and
 * lk_config_get() shows it from the root. Only where that is too long (107 bytes for a socket) or
 * the folder is removed, it stays as it is. Errors: LK_EINVAL, LK_ENOMEM. Since 0.2.
 */
LK_API int lk_config_set(lk_config *config, const char *name, const char *value, lk_error *error);

/*
 * Sets every option whose environment variable is set (LOCKKEEPER_URL, LOCKKEEPER_PASSWORD, …), all
 * or none. An option's own variable prevails over what LOCKKEEPER_URL says of it:
 * LOCKKEEPER_PASSWORD over the password in that URL. Ignores variables that begin with LOCKKEEPER_
 * but name no option; in a set-user-ID program, all variables (secure_getenv). No other thread may
 * change the environment meanwhile. Errors as lk_config_set(). Since 0.2.
 */
LK_API int lk_config_load_environment(lk_config *config, lk_error *error);

/*
 * Writes the value of an option as text with a NUL, but secrets as "***". Returns the length
 * without the NUL, or LK_EINVAL for an unknown name. It writes at most `size` bytes. Since 0.2.
 */
LK_API int lk_config_get(const lk_config *config, const char *name, char *text_out, size_t size);

/*
 * Sends log lines up to `level` (LK_LOG_…) to `callback`, for clients made from this configuration
 * later. NULL, the default, means no log. The callback receives `context` unchanged; it must stay
 * valid until lk_client_free() has returned for the last of these clients.
 *
 * The callback runs on a thread that the client has for its log alone, with all signals blocked, or
 * in lk_client_process() of a client without threads: one line at a time, in their order, a moment
 * after what they tell. No mutex of the library is held, so it may wait: for a mutex of the
 * program, or for a full pipe. That holds up no call and no renewal, except where
 * lk_client_process() calls it. Up to 1,024 lines wait for it; what comes beyond is dropped, and a
 * line tells how many were. lk_client_free() waits until it has had the last line, for as long as
 * the command limit; if it has not returned by then, it is left behind with its line.
 *
 * LK_LOG_DEBUG is for the report of a defect: one line for each request, answer, message and
 * connection, and for each decision of a wait, with the owner number (in requests the end of the
 * owner field, in decisions behind "number"). These lines show the names of locks and servers, and
 * owner fields; no line shows a password. What they say may change in any version. Below that level
 * each costs one comparison. Since 0.2.
 */
LK_API void lk_config_set_log(lk_config *config, int level, lk_log_callback callback,
			      void *context);

/*
 * As lk_config_set_log(), with a descriptor instead of a callback; the later of the two calls
 * counts. Each line is one write: "<4>text", with syslog's number of the level (3 error, 4 warning,
 * 6 information, 7 debug), as systemd's journal reads it from stderr, and a newline. The descriptor
 * stays the program's, and open until lk_client_free() has returned for the last of these clients;
 * -1 means no log. A full pipe holds up the log alone, as a callback would, and lines are dropped.
 * What cannot be written is dropped, and raises no SIGPIPE. A program that reads the lines in its
 * own loop gives the end of a pipe. Since 0.2.
 */
LK_API void lk_config_set_log_fd(lk_config *config, int level, int fd);

/*
 * Clients made from this configuration later ask `callback` for user name and password before each
 * connection to a server, instead of taking those of the options: for tokens that expire. Sentinels
 * are asked with their own options. NULL, the default, means the options. If the callback has none,
 * the attempt to connect fails (LK_EUNREACHABLE), and waits try again within their limits; so do
 * waits with a limit where the server refuses what it gave (LK_EAUTH).
 *
 * It is called on threads of the library, perhaps on several at once; for a threadless client by
 * lk_client_process(). It must not call the library, and should return soon: its time counts for
 * connect_timeout_ms, and lk_client_close() waits for it. `context` must stay valid until
 * lk_client_free() has returned for the last of these clients. Since 0.2.
 */
LK_API void lk_config_set_credentials(lk_config *config, lk_credentials_callback callback,
				      void *context);

/*
 * Clients made from this configuration from now on are threadless: the program's own loop
 * does their work, see <lockkeeper/loop.h>. `resolve` may be NULL: then the
 * URL must have an address or a path, and lk_client_new() refuses a name with LK_EINVAL. `context`
 * must stay valid until lk_client_free() has returned for the last of these clients. Since 0.2.
 */
LK_API void lk_config_set_threadless(lk_config *config, lk_resolve_callback resolve, void *context);

/* Returns the number of options. Since 0.2. */
LK_API size_t lk_option_count(void);

/* Returns row `index` of the option table, or NULL beyond the end. Static memory. Since 0.2. */
LK_API const lk_option_info *lk_option_at(size_t index);

LK_END_DECLS

#endif
