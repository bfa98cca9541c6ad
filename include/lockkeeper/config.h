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
 * FAILOVER of redis-replicas://, redis-sentinel:// and redis-cluster:// (since 0.2). Redis
 * replicates after it has answered, so a new master may lack the last grants. Therefore the library
 * waits for the replicas (WAIT). A grant, a renewal, an extension and a change of a count succeed
 * only when every live replica has them: every one that the list, the sentinels or the cluster show
 * alive, connected to the master or not. If too few have it within a third of the command limit,
 * the call fails with LK_ENOTDURABLE (error.h): a grant is given back, a deadline stays as it was.
 * Waits try again within their limits. A limit that ends before they have it ends the call with the
 * same error, which names those that were asked, and the master is asked to release it at once.
 *
 * What is given back must not come back with a failover. A release returns when the master has
 * answered; the client keeps it until the same replicas have it too, and repeats it, at whichever
 * server is the master then, as long as its lease lasts. lk_client_close() waits for that, and says
 * LK_EMAYBEHELD if it is not so within the command limit. A process that dies before leaves the
 * lock to its lease; so does a close behind a grant that was given back because too few had it,
 * once the master has released it. For a count, which has no lease, it waits for the replicas. A
 * call that frees what another has, or several permits, or that deletes a count, cannot be
 * repeated: it returns when the replicas have it, else with LK_ENOTDURABLE.
 *
 * A replica that does not answer counts for a while, and no lock is granted in that time. With
 * sentinels it counts until they call it down, or have not heard of it for 2.5 s; if it is listed,
 * for a second; in a cluster, until it is marked as failed (cluster-node-timeout). It counts on
 * while half of the known sentinels or fewer answer: the others may be where it is, and make it the
 * master. A former master counts as soon as the new one has it connected. So does a replica that
 * the master has connected, and that the sentinels or the cluster do not report yet (not with a
 * list): it counts from its first acknowledgement until 5 s after its last one. A silent replica of
 * that kind delays one call, by a third of the command limit. A master that had no replica is asked
 * once a second whether it has one now.
 *
 * List all replicas: one that is not listed may have a grant, and counts for none that is.
 *
 * A new replica that gets its first copy of the data counts as soon as the master has it connected,
 * if the sentinels show another that they would promote before it (by its priority, and by what it
 * has). If they show no other, or if it is listed, it counts at once: no lock is granted until it
 * has its copy.
 *
 * The option replica_acks names a number of replicas instead, which then counts for single servers
 * too. With fewer than there are, a failover can lose the last grants, and two owners are possible:
 * the replica that has a grant may not be the one that is promoted.
 *
 * With all replicas alive no failover loses a lock. A failover can lose one when all replicas that
 * have it are down, and one that was down or cut off becomes the master. The library tells a holder
 * that its lock is lost as soon as it knows the new master and finds that the lock is not there. If
 * you cannot accept that, use fence tokens (fenced_lock.h), or a red lock (red_lock.h) over several
 * such masters, clusters or independent servers.
 *
 * With a list, a client that reaches the old master alone goes on with it. If another server is
 * made the master meanwhile, there can be two owners, so stop the old master first. A number in
 * replica_acks keeps it from going on alone.
 *
 * The client asks the listed servers for their ROLE, or the sentinels for the master's address: at
 * a connect, unless it asked within the last 100 ms; once a second; and when a sentinel announces
 * something. Of the listed servers it believes the one that says it is the master; if two do,
 * neither. Of sentinels it believes more than half of all that it knows or, if not all answer, more
 * than half of those that do; it learns of sentinels that are not listed, and where a sentinel is
 * that has started again at another address. It verifies the master's ROLE before it writes
 * anything, so the user needs the right to that command.
 *
 * When another server becomes the master, the client leaves the old one, whatever that still
 * answers, and verifies all holds at the new one. Waits go on there within their limits. A server
 * that has become a replica refuses (READONLY), and the call goes on at the master. One more thread
 * looks for the master, from the first connect to the end of the client; a threadless client does
 * so in lk_client_process() (loop.h). The URL's user and password are for the servers; sentinels
 * have options of their own.
 *
 * CLUSTER (since 0.2). A name's slot decides which master has its lock. All that belongs to a lock
 * is in one slot; a multi lock may have parts in several. The client asks up to seven nodes for the
 * map of the slots (CLUSTER SLOTS), when it connects and once a second. It believes more than half
 * of all or, if not all answer, more than half of those that do. It follows nodes that start again
 * at other addresses, until none of those in the URL is left; names in the URL are looked up for
 * each connection. When a server says that another has the slot (MOVED, ASK), the client follows at
 * once. Each master has connections of its own: a master that is down delays no lock of another.
 *
 * While a slot is moved key by key, the server refuses a script with several keys (TRYAGAIN) until
 * its keys are together. Acquires then wait and try again; a release tries again until the lease
 * ends, and a change of a count within the command limit; after that it fails with LK_EUNAVAILABLE
 * or LK_EUNREACHABLE, and has changed nothing. A fair lock's release can fail halfway there: it
 * returns LK_EMAYBEHELD, the lock is free, and the next in the queue gets it when the slot has
 * moved. So can the release of one of several readers: it returns LK_EMAYBEHELD, its share is given
 * up, and the lock stays with the others, for as long as the longest lease up to then.
 *
 * Messages are ordinary publications, which every node of the cluster hears. With the option
 * messages=sharded (Redis 7 and later) only the slot's own shard hears them. That is Redisson's
 * default in a cluster (shardedSubscriptionMode). A client that listens to one kind is not woken by
 * a client that publishes the other: its waiter looks again when the lease ends. Locks exclude each
 * other all the same. A client with messages=both publishes both kinds and listens to both: it
 * wakes, and is woken by, clients that use either kind. So a fleet changes over without a stop:
 * first set every client to both, then every client to sharded. While it is both, each release
 * costs the server one more publication, and a waiter hears the releases of such clients twice.
 * Without a cluster, sharded and both are refused (LK_EINVAL).
 *
 * CONNECTIONS (since 0.2). The threads of a client share one connection to each master, and one
 * more for renewals and one for messages while there are any. While most calls find others waiting
 * there (in all 64 more than those that do not), the client opens another in the background, up to
 * the option connections (4) to a master and 16 in all beside the first of each; what has sent
 * nothing for 30 s is closed. When more than 24 callers wait for answers of one master, for as many
 * calls, all share one connection, because full batches cost both sides less; when no more than
 * 16 do, they spread again. A thread that calls alone has one, and a threadless client too. What
 * belongs to a lock of one owner at a time (reentrant, spin, plain, fenced) stays in order: a try
 * comes behind a release that nobody waited for. All other kinds use the first connection.
 *
 * A connection that has said nothing for a third of the time for an answer is doubted: for a
 * renewal that is the time before LK_EVENT_AT_RISK, for a release what is left of the lease, for
 * any call the command limit at most. No silence is doubted before 50 ms. The client makes another.
 * If that one is greeted, and the first is still silent, as where a firewall has forgotten it, the
 * first is given up, its requests are sent again, and so are the subscriptions of one that was idle
 * meanwhile. A handshake is doubted in the same way, within the connect limit; it keeps that limit
 * beside the second attempt.
 *
 * ADDRESSES (since 0.2). Servers behind a NAT, a tunnel or published ports of containers name each
 * other by addresses that the client may not reach. The option address_map says where to connect to
 * instead: host:port=host:port, or host=host for every port, with commas between. It holds for the
 * addresses of the URL, of sentinels and of the map of a cluster. Messages name both. Certificates
 * are verified by the name that the servers use, not by the one on the right.
 *
 * A master must know its replicas by the addresses at which a cluster or the sentinels name them;
 * otherwise nobody knows whether they have a grant, and it fails with LK_ENOTDURABLE, which names
 * both. Where cluster-announce-ip or -port is set, set replica-announce-ip and -port to the same. A
 * cluster may announce host names: it tells the addresses as well.
 *
 * TLS NAMES (since 0.2). The certificate of each server must have the name or the address under
 * which the client got to know it: from the URL, the sentinels, or the map of the cluster. A node
 * of a cluster that is known by its address may also have the host name of any seed, that is of a
 * server that the URL lists. So one certificate for all nodes, with the name that the URL has, is
 * enough.
 *
 * Where neither fits, as with sentinels that tell addresses, set tls_server_name: all servers of
 * the URL, sentinels too, are then verified by that name alone, also behind a redirect or a
 * failover. Or let servers and sentinels announce their host names (cluster-announce-hostname with
 * cluster-preferred-endpoint-type hostname; sentinel announce-hostnames).
 *
 * TLS CERTIFICATES (since 0.2). Those to trust are the system's, or else all that tls_ca_file,
 * tls_ca_dir and tls_ca_data name together. The key of a client's certificate may be locked by a
 * password: tls_key_password, or the first line of tls_key_password_file. With tls_verify=authority
 * the names above do not count; with off no certificate is verified, and whoever is on the way to
 * the server can read and change all that goes there, the password too. The doctor and the
 * command's -v say so.
 *
 * DISKS (since 0.2). A server that crashes with its machine forgets what was not on its disk. With
 * the option fsync_acks=local a grant, a renewal, an extension and a change of a count succeed only
 * when the master's append-only file has them on disk (WAITAOF). With fsync_acks=replicas the files
 * of the replicas that replica_acks means must have them too. This is so on a single server as
 * well. If too few disks have it in time, the call fails with LK_ENOTDURABLE. A server that cannot
 * tell is refused when the client connects, before anything is written: without WAITAOF (Redis
 * before 7.2) or without the right to it, with LK_EDENIED; with appendonly off, with LK_EREFUSED.
 *
 * With appendfsync always such a call takes as long as the disks do. With everysec it takes up to a
 * second, or up to two where replicas must have it. With no, it fails. Other commands of the
 * connection wait meanwhile, so command_timeout_ms counts as at least 6000, with replicas as at
 * least 9000. Valkey 8.1 to 9.1 answer too early, except with appendfsync always.
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
