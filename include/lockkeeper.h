/* SPDX-License-Identifier: MIT */
/*
 * Lockkeeper: distributed locks for C on Redis and Valkey.
 *
 * READ THIS FIRST: A LEASE IS NOT A MUTEX
 *
 * - A lock here is a key with a time to live, a lease. While you hold it, and until its deadline,
 *   the server grants it to no other well-behaved client. After the deadline another client may
 *   hold it, whatever your program believes. No lock can prevent a pause (SIGSTOP, swap, a
 *   suspended machine) between your last check and your write.
 * - lk_lock_remaining_ms() tells how long the grant is still certain. It is a memory read.
 *   Take LK_EVENT_AT_RISK seriously: it comes before the lease ends.
 * - The promise rests on the server. Its clock must not jump forward or run over 1 % fast. It must
 *   not lose acknowledged writes (a crash without `appendfsync always`, a failover, an eviction,
 *   FLUSHALL). Nobody may delete the key. When the library notices such a loss, it reports the lock
 *   as lost.
 * - LK_EMAYBEHELD means just that: the server may have granted the lock, and the answer never
 *   arrived. The library releases such a grant in the background. Until then nobody owns the lock,
 *   and perhaps nobody can acquire it.
 * - A name belongs to one kind of lock. A key of another kind is refused, as far as the data shows
 *   the difference (see inspect.h).
 *
 * WHAT THE LIBRARY DOES TO YOUR PROCESS
 *
 * - Each client has one background thread, started at the first grant or wait. It renews leases,
 *   makes notices and carries out asynchronous calls. A second thread exists while a connection is
 *   made, and a third while it looks a host name up. A client that follows masters (replicas,
 *   Sentinel, Cluster) has one more, which looks for them. All block all signals. Your code never
 *   runs on them, except the callbacks for log lines, for credentials, and to wake up a queue's
 *   reader. A threadless client has none of them (loop.h).
 * - A client takes one thread-specific key, of which a process has 1,024 (PTHREAD_KEYS_MAX), and
 *   four descriptors; up to ten once it is used, and two for each connection more that it opens for
 *   several threads (docs/deployments.md). When keys or descriptors run out, the call fails
 *   with LK_ESYSTEM.
 * - A call takes at most 32 kB of the calling thread's stack; a call on a multi lock, 64 kB.
 * - Blocking calls do their I/O in the calling thread. Thread cancellation is disabled inside
 *   them; EINTR restarts them; lk_cancel_now() ends them, from a signal handler too.
 * - Descriptors are close-on-exec, and no SIGPIPE is raised.
 * - After fork() every call in the child fails with LK_EFORKED and does not touch the parent's
 *   connections. The child has to make a client of its own. With TLS it may fail to connect, if
 *   other threads of the parent were connecting: OpenSSL's locks are copied as they are. Fork
 *   before the first such client, or call exec in the child.
 * - The library registers no atexit handler. The locks of a program that ends without releasing
 *   them stay until their leases end.
 * - When memory, descriptors or threads run out, a call fails (LK_ENOMEM, LK_ESYSTEM); the process
 *   is never ended.
 * - The shared library stays mapped after dlclose() (it is linked with -z nodelete), because a
 *   thread that connects or looks up a name may end after its client. If you link the static
 *   library into a plugin, link that plugin with -z nodelete.
 *
 * CONVENTIONS
 *
 * - `int` results are 0 (or a documented positive answer), or a negative LK_E… code.
 * - The last parameter, an `lk_error *`, may be NULL. It receives the code and a text that names
 *   node, command and reason. A call that fails leaves its outputs untouched.
 * - Durations are `int64_t …_ms`; absolute times are `int64_t …_ns` of CLOCK_BOOTTIME.
 * - Option structs start with `struct_size`. A zero member means the default; NULL instead of a
 *   struct means all defaults.
 * - Any thread may make any call, unless the call's comment says otherwise. Free a handle only
 *   when no other thread uses it.
 */
#ifndef LOCKKEEPER_H
#define LOCKKEEPER_H

#include <lockkeeper/barrier.h>
#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/config.h>
#include <lockkeeper/doctor.h>
#include <lockkeeper/drain.h>
#include <lockkeeper/election.h>
#include <lockkeeper/error.h>
#include <lockkeeper/event.h>
#include <lockkeeper/fair_lock.h>
#include <lockkeeper/fenced_lock.h>
#include <lockkeeper/inspect.h>
#include <lockkeeper/latch.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/loop.h>
#include <lockkeeper/multi_lock.h>
#include <lockkeeper/permit_semaphore.h>
#include <lockkeeper/plain_lock.h>
#include <lockkeeper/queue.h>
#include <lockkeeper/red_lock.h>
#include <lockkeeper/read_write_lock.h>
#include <lockkeeper/semaphore.h>
#include <lockkeeper/spin_lock.h>
#include <lockkeeper/stats.h>
#include <lockkeeper/version.h>
#include <lockkeeper/watch.h>

#endif
