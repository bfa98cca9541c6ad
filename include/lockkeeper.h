/*
 * Lockkeeper: distributed locks for C on Redis and Valkey.
 *
 * READ THIS FIRST: A LEASE IS NOT A MUTEX
 *
 * - A lock here is a key with a time to live. While you hold it, and until its deadline, no
 *   other well-behaved client is granted it by the same server. After the deadline somebody
 *   else may have it, whatever your program believes: a pause (SIGSTOP, swap, a suspended
 *   machine) between your last check and your write cannot be prevented by any lock.
 * - lk_lock_remaining_ms() is a memory read and tells how long the grant is certain.
 *   Take LK_EVENT_AT_RISK seriously: it comes before the end.
 * - The promise rests on the server: its clock must not jump forward or run over 1 % fast, it
 *   must not lose acknowledged writes (a crash without `appendfsync always`, a failover, an
 *   eviction, FLUSHALL), and nobody may delete the key. What can be noticed is noticed and
 *   reported as lost.
 * - LK_EMAYBEHELD means just that: the server may have granted the lock and the answer never
 *   arrived. The library takes such a grant back in the background; until then nobody holds it,
 *   and nobody may be able to get it.
 * - A name belongs to one kind of lock. What is found under another kind's name is refused, as far
 *   as the data tells (see inspect.h).
 *
 * WHAT THE LIBRARY DOES TO YOUR PROCESS
 *
 * - One background thread a client, started at the first grant or wait; it renews leases and
 *   gives notice. While a connection is being made there is one more. Both block all signals.
 *   Your code never runs on them, the log callback excepted.
 * - Blocking calls do their I/O in the calling thread. Thread cancellation is disabled inside
 *   them; EINTR restarts them; lk_cancel_now() ends them, from a signal handler too.
 * - Descriptors are close-on-exec, and no SIGPIPE is raised.
 * - After fork() every call in the child fails with LK_EFORKED and touches nothing of the
 *   parent's. The child makes a client of its own.
 * - No handler is registered with atexit. A program that ends without releasing leaves its
 *   locks to their leases.
 * - Memory that runs out is an error (LK_ENOMEM), never an abort.
 *
 * CONVENTIONS
 *
 * - `int` results are 0 (or a documented positive answer), or a negative LK_E… code.
 * - The last parameter, an `lk_error *`, may be NULL; it takes the code and a text that names
 *   node, command and reason. Outputs are untouched on failure.
 * - Durations are `int64_t …_ms`; absolute times are `int64_t …_ns` of CLOCK_BOOTTIME.
 * - Option structs start with `struct_size`; a zero member means the default; NULL means all
 *   defaults.
 * - All calls may be made from any thread, unless they say otherwise. A handle may be freed
 *   only when no other thread uses it.
 */
#ifndef LOCKKEEPER_H
#define LOCKKEEPER_H

#include <lockkeeper/cancel.h>
#include <lockkeeper/client.h>
#include <lockkeeper/config.h>
#include <lockkeeper/error.h>
#include <lockkeeper/event.h>
#include <lockkeeper/fair_lock.h>
#include <lockkeeper/fenced_lock.h>
#include <lockkeeper/inspect.h>
#include <lockkeeper/latch.h>
#include <lockkeeper/lock.h>
#include <lockkeeper/multi_lock.h>
#include <lockkeeper/permit_semaphore.h>
#include <lockkeeper/plain_lock.h>
#include <lockkeeper/red_lock.h>
#include <lockkeeper/read_write_lock.h>
#include <lockkeeper/semaphore.h>
#include <lockkeeper/spin_lock.h>
#include <lockkeeper/stats.h>
#include <lockkeeper/version.h>

#endif
