/* SPDX-License-Identifier: MIT */
/*
 * The client: connections to a deployment, the identity under which this process owns locks,
 * and the watchdog that renews them. A process usually has one client.
 */
#ifndef LOCKKEEPER_CLIENT_H
#define LOCKKEEPER_CLIENT_H

#include <stddef.h>

#include <lockkeeper/config.h>
#include <lockkeeper/error.h>

typedef struct lk_client lk_client;

/* In place of the size of a name or a key: it is a C string, and ends at its NUL. */
#define LK_STRLEN ((size_t)-1)

/* How lk_client_close() treats locks that are still held. */
#define LK_CLOSE_IF_IDLE 0 /* keeps them: it fails with LK_EHELD, and the client stays open */
#define LK_CLOSE_RELEASE 1 /* releases them */
#define LK_CLOSE_ABANDON 2 /* stops renewing them: they stay until their leases end */

LK_BEGIN_DECLS

/*
 * Makes a client from a configuration. The configuration is copied and may be freed. Does no I/O:
 * the first call that needs the server connects. It fails at once if it cannot, unless it has a
 * wait limit, within which it goes on trying (lk_lock_acquire()). The next call tries again,
 * after a pause of 0.1 s at most, or of backoff_max_ms where a password was refused. Later, the
 * library restores a lost connection in the background. Free the client with lk_client_free().
 * Errors: LK_EINVAL (no URL, options that contradict each other), LK_ENOMEM, LK_ESYSTEM. Since 0.2.
 */
LK_API int lk_client_new(lk_client **client_out, const lk_config *config, lk_error *error);

/*
 * Makes one from the environment (lk_config_load_environment()), then from `url`, which may be NULL
 * when LOCKKEEPER_URL is set. Reads the file that LOCKKEEPER_PASSWORD_FILE names, if it is set.
 * Errors as lk_config_set() and lk_client_new(). Since 0.2.
 */
LK_API int lk_client_open(lk_client **client_out, const char *url, lk_error *error);

/*
 * Asks the server for its time (TIME). Connects first if necessary; the handshake asks the same, so
 * nothing more is sent then. Blocks up to the connect and command limits. Errors, which every call
 * that asks the server can give: LK_EUNREACHABLE (no connection, or no answer within a limit),
 * LK_EAUTH, LK_EDENIED, LK_ETLS, LK_EPROTOCOL, LK_EUNAVAILABLE (loading, read-only, …), LK_EREFUSED
 * (out of memory, …), LK_EINVAL (no such database, …), LK_ECLOSED, LK_EFORKED, LK_ENOMEM,
 * LK_ESYSTEM (no descriptor, no thread). Since 0.2.
 */
LK_API int lk_client_ping(lk_client *client, lk_error *error);

/*
 * Returns the random UUID with which every owner field of this client begins. It is valid until
 * lk_client_free(); `client` must not be NULL. Does not block. Since 0.2.
 */
LK_API const char *lk_client_id(const lk_client *client);

/*
 * Returns the node that the client talks to, as a URL without secrets. It is valid until
 * lk_client_free(); `client` must not be NULL. Does not block. Since 0.2.
 */
LK_API const char *lk_client_node(const lk_client *client);

/*
 * Closes a client: wakes its waiters, whose calls fail with LK_ECLOSED, or with LK_EMAYBEHELD if
 * they have a try that is unanswered, or is just being given back; waits until the server has
 * answered every release, and until everything that may be held without a holder is released, also
 * where replicas must have that (docs/deployments.md); then closes the connections.
 * `how`: LK_CLOSE_…, above. Later calls fail with LK_ECLOSED. Blocks for little more than the
 * command limit at most. A silence is waited for once: a server that calls of this client, or other
 * closes, have waited for has the rest of that limit alone, and 200 ms. A further call of this
 * function after one that failed has the whole limit again.
 *
 * A red lock of which this is the first client is released when a majority of its nodes has
 * answered; their own clients go on with the others. A node that grants it behind the majority is
 * released as soon as it has answered, unless its request was sent twice: a copy may still run
 * then, and close waits for that. The parts that other clients have of a multi lock are released
 * by those.
 *
 * Asynchronous releases, extensions and other requests that are in flight end in this time, too:
 * without an answer as LK_EMAYBEHELD, and the client goes on with the release. So do those of a
 * multi lock of which the client has only parts.
 *
 * If several threads call it at once, one closes; the others wait until it has ended, and then say
 * what it says.
 *
 * LK_EMAYBEHELD: something of ours may still be held, because the server did not answer in time, or
 * may be held again after a failover, because replicas lack the release.
 * The client continues the release until a further call of this function finds it complete, or
 * until lk_client_free(). A call after one that returned 0 returns 0. Errors otherwise: LK_EHELD,
 * LK_ENOMEM (not done: still open), LK_EINVAL, LK_EFORKED. Since 0.2.
 */
LK_API int lk_client_close(lk_client *client, int how, lk_error *error);

/*
 * Frees a client. A client that is still open is closed with LK_CLOSE_ABANDON first: what is on its
 * way for nobody is given back, and a release that was started is sent. Of a threadless client this
 * call takes the turns meanwhile, as lk_client_process(), and goes on with a close that was
 * started. What no server has answered within the command limit stays until its lease ends. NULL is
 * fine. Handles may be freed before or after. No other call on the client may be in progress.
 * Threads that used the client may live on and end later. If such a thread is just ending, this
 * call waits for it; but the library learns of a thread's end a moment late, so join a thread that
 * is about to end. Blocks as lk_client_close(); but behind one that has failed, a server that is
 * still silent has 200 ms. Returns NULL. Since 0.2.
 *
 * In a forked child it only closes the child's copies of the descriptors of all clients and queues
 * that the parent had. The parent's connections stand, and the memory ends with the child. A number
 * that the child has closed and uses for something else stays open.
 */
LK_API lk_client *lk_client_free(lk_client *client);

LK_END_DECLS

#endif
