/* SPDX-License-Identifier: MIT */
/*
 * Clients without threads: the program's own loop does their work.
 *
 * A client normally has a thread for what nobody waits for: renewals, compensation, connecting,
 * asynchronous calls. A threadless client (lk_config_set_threadless()) starts none, not even to
 * look a name up, or to follow masters that move. The program calls lk_client_process() instead,
 * whenever the client's descriptor is readable.
 *
 *     for (;;) {
 *             poll(...);                            // the client's descriptor among others
 *             lk_client_process(client, &error);
 *             while (lk_queue_take(queue, &completion, 1, 0, NULL) == 1)
 *                     handle(&completion);
 *     }
 *
 * CAVEATS. Nothing happens between calls: a program that does not call lk_client_process() for a
 * third of a lease delays renewals, and one that does not for a whole lease loses its locks. A
 * lock's deadline (lk_lock_deadline_ns()) holds in any case: it is checked by the clock.
 *
 * CALLS. Everything that a queue can start (<lockkeeper/queue.h>) works, and so does everything
 * that only reads memory. A call that would wait for a server fails with LK_EBLOCKING and does
 * nothing. Several threads may start requests and take completions; one at a time processes.
 *
 * THE CLOSE of such a client is started by LK_OP_CLOSE, and does not block; lk_client_close() says
 * what `how` means. Its requests in flight complete with LK_ECLOSED or what became of them,
 * before the completion of the close; what has no answer within the command limit, with
 * LK_EMAYBEHELD. Go on processing until that. Then lk_client_free() does not wait. Errors of the
 * start: LK_EINVAL (the client has a thread), LK_EHELD, LK_EPENDING (it is being closed already).
 * In the completion: LK_EMAYBEHELD, as lk_client_close(); then it can be started again.
 *
 * Such a client is used from one process.
 */
#ifndef LOCKKEEPER_LOOP_H
#define LOCKKEEPER_LOOP_H

#include <stdint.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/queue.h>

LK_BEGIN_DECLS

/*
 * Returns a descriptor that is readable when lk_client_process() has something to do, for poll(2),
 * epoll(7) or an event loop. There is no time limit to ask for: timers make it readable too. The
 * client owns it until lk_client_free(): do not read or close it. Does not block. Errors: LK_EINVAL
 * (the client has a thread), LK_EFORKED. Since 0.2.
 */
LK_API int lk_client_fd(lk_client *client, lk_error *error);

/*
 * Does what is due: reads and writes, renews, connects, asks where the masters are, and completes
 * requests. Never waits for anything, and calls no code of the program but the callbacks for log,
 * addresses and credentials, and those of lk_queue_on_ready(). It reads the clock itself. To call
 * it without need costs a few system calls.
 *
 * The work of one call is bounded. It begins or goes on with at most 1,024 requests that are ready,
 * in the order in which they became so, and at most 1,024 whose time has come; it renews at most
 * 2,000 locks, gives back at most 1,024 that nobody wants, and reads at most 128 KiB from each
 * connection. While something is left, the descriptor is readable and lk_client_due_ns() is now.
 * Only what happens to all at once is noted for each in one call: a connection is lost or made, or
 * the client is closed.
 *
 * Errors: LK_EPROCESSING (another thread is in it, or a callback called it), LK_ECLOSED, LK_EINVAL
 * (the client has a thread), LK_EFORKED. Since 0.2.
 */
LK_API int lk_client_process(lk_client *client, lk_error *error);

/*
 * Returns when lk_client_process() is due at the latest (CLOCK_BOOTTIME), INT64_MAX without such a
 * time; the present time while it has something to do, also right after a request was started. For
 * loops that cannot watch the descriptor. They must call lk_client_process() often besides, because
 * answers do not come by the clock. Does not block. Errors as lk_client_fd(). Since 0.2.
 */
LK_API int64_t lk_client_due_ns(lk_client *client, lk_error *error);

LK_END_DECLS

#endif
