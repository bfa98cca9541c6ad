/*
 * The client: connections to a deployment, the identity under which this process owns locks,
 * and the watchdog that renews them. One a process is the usual number.
 */
#ifndef LOCKKEEPER_CLIENT_H
#define LOCKKEEPER_CLIENT_H

#include <lockkeeper/config.h>
#include <lockkeeper/error.h>

typedef struct lk_client lk_client;

/* What lk_client_close() does with locks that are still held. */
#define LK_CLOSE_IF_IDLE 0 /* nothing: it fails with LK_EHELD and the client stays open */
#define LK_CLOSE_RELEASE 1 /* releases them */
#define LK_CLOSE_ABANDON 2 /* leaves them to their leases: they are no longer renewed */

LK_BEGIN_DECLS

/*
 * Makes a client from a configuration, which is copied and may be freed. No I/O: the first call
 * that needs the server connects, and fails at once if that fails; later losses of the connection
 * are mended in the background. To be freed with lk_client_free(). Errors: LK_EINVAL (no URL,
 * options that contradict each other), LK_ENOMEM, LK_ESYSTEM. Since 0.1.
 */
LK_API int lk_client_new(lk_client **client_out, const lk_config *config, lk_error *error);

/*
 * The same from the environment (lk_config_load_environment()), then a URL, which may be NULL when
 * LOCKKEEPER_URL is set. Reads the file of LOCKKEEPER_PASSWORD_FILE, if that is set. Errors as
 * lk_config_set() and lk_client_new(). Since 0.1.
 */
LK_API int lk_client_open(lk_client **client_out, const char *url, lk_error *error);

/*
 * Asks the server for an answer (TIME; connects if need be). Blocks up to the connect and
 * command limits. Errors, which every call can give that asks the server: LK_EUNREACHABLE (no
 * connection, or no answer within a limit), LK_EAUTH, LK_EDENIED, LK_ETLS, LK_EPROTOCOL,
 * LK_EUNAVAILABLE (loading, read-only, …), LK_EREFUSED (out of memory, …), LK_EINVAL (no such
 * database, …), LK_ECLOSED, LK_EFORKED, LK_ENOMEM, LK_ESYSTEM (no descriptor, no thread).
 * Since 0.1.
 */
LK_API int lk_client_ping(lk_client *client, lk_error *error);

/*
 * The random UUID with which every owner field of this client begins. The text lives until
 * lk_client_free(); `client` must not be NULL. Does not block. Since 0.1.
 */
LK_API const char *lk_client_id(const lk_client *client);

/*
 * The node that the client talks to, as a URL without secrets. The text lives until
 * lk_client_free(); `client` must not be NULL. Does not block. Since 0.1.
 */
LK_API const char *lk_client_node(const lk_client *client);

/*
 * Ends the work of a client: wakes its waiters, whose calls fail with LK_ECLOSED, waits for the
 * releases that are under way (at most the command limit), and closes its connections. `how`:
 * LK_CLOSE_…, above. Calls made later fail with LK_ECLOSED; closing twice is fine. Blocks for
 * little more than the command limit at most. Errors: LK_EHELD, LK_EMAYBEHELD (a release got no
 * answer), LK_ENOMEM (not done: still open), LK_EINVAL, LK_EFORKED. Since 0.1.
 */
LK_API int lk_client_close(lk_client *client, int how, lk_error *error);

/*
 * Frees a client; one that is still open is closed with LK_CLOSE_ABANDON first. NULL is fine.
 * Handles may be freed before or after; no other call on the client may be under way. Blocks as
 * lk_client_close(). In a forked child it does nothing: the memory and the descriptors there are
 * copies that end with it. Returns NULL. Since 0.1.
 */
LK_API lk_client *lk_client_free(lk_client *client);

LK_END_DECLS

#endif
