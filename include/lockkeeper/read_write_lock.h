/* SPDX-License-Identifier: MIT */
/*
 * The read/write lock: Redisson's RReadWriteLock, on the same keys. Any number of readers, or one
 * writer.
 *
 *   lk_read_lock_new(&reading, client, "catalogue", 9, NULL, &error);
 *   lk_lock_acquire(reading, NULL, &error);         beside other readers
 *
 * A lease is not a mutex. A holder that is paused past its deadline has lost the lock, and no lock
 * can stop its next write: see <lockkeeper.h>.
 *
 * Each side is an lk_lock, and the calls of <lockkeeper/lock.h> work on it. Every owner of either
 * side has its own lease, watchdog and deadline.
 *
 * In Redis, for the lock "catalogue":
 *
 *   catalogue                        hash   PEXPIRE: the longest lease in it
 *     mode                           read, or write
 *     <owner field>                  1, for each reader
 *     <owner field>:write            1, for the writer
 *   {catalogue}:<owner field>:rwlock_timeout:1   string "1"   PX: that reader's lease
 *   redisson_rwlock:{catalogue}      channel: "0" when the last reader leaves, "1" when the writer
 *                                    leaves, or goes on as a reader; "00" and "01" if writers wait
 *   lockkeeper_writers:{catalogue}   sorted set of waiting writers; each counts until the server
 *                                    time in ms that is its score; see prefer_writers
 *   lockkeeper_turns:{catalogue}     sorted set: writers that wait, by when they began to; each
 *                                    hears on "<channel>:<its id>" that it has its turn
 *
 *   owner field = <uuid of the client>:<number>; the first read under a write has its number
 *
 * A name with "{" gets no braces added: a{b}c:<owner field>:rwlock_timeout:1,
 * redisson_rwlock:a{b}c. Names whose derived keys would be in another cluster slot ("a}b",
 * "foo{bar") are refused.
 *
 * RE-ENTRY works on both sides, by the same owner, and is counted in the client (lock.h).
 *
 * DOWN, NOT UP. An owner that holds the write side may acquire the read side too, and then release
 * the write side. It goes on reading, and waiting readers are admitted at that moment. An owner
 * that holds only the read side and asks for the write side gets LK_EUPGRADE at once: it would wait
 * for itself.
 *
 * WHO BLOCKS WHOM. A reader counts while its own lease lasts. A reader that died blocks writers no
 * longer than that, and no release of another reader frees a live one. Beyond 10,000 holds a
 * release looks at some of them, so that it never stops the server for long: the lock lasts until
 * the end that it has. Readers are admitted beside readers, even while writers wait, as with
 * Redisson. Enough readers can keep a writer out for ever, unless prefer_writers is set. Of the
 * writers, a release wakes the one that has waited longest; a newcomer may take a free lock before
 * it.
 *
 * lk_lock_force_release() frees one side, whoever holds it; the read side only while nobody writes.
 * lk_lock_is_locked() reports on one side. A key that is a reentrant lock, or anything else, is
 * refused (LK_EWRONGTYPE).
 */
#ifndef LOCKKEEPER_READ_WRITE_LOCK_H
#define LOCKKEEPER_READ_WRITE_LOCK_H

#include <stddef.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/lock.h>

/*
 * prefer_writers: a waiting writer with this option registers on the server, and readers with this
 * option wait behind it (an owner that already reads or writes is admitted). Readers without the
 * option, and Redisson's readers, are admitted as before. A writer that dies while it waits holds
 * up readers for 3 s at most. Writers that never pause keep readers with this option out.
 */
typedef struct lk_read_write_options {
	size_t struct_size;
	int prefer_writers; /* 1: yes; set it on both sides */
} lk_read_write_options;

#define LK_READ_WRITE_OPTIONS_INIT                                                                 \
	{                                                                                          \
		sizeof(lk_read_write_options), 0                                                   \
	}

LK_BEGIN_DECLS

/*
 * Makes a handle for the read side of a name, as lk_lock_new() does (RReadWriteLock.readLock).
 * `options` may be NULL. Does no I/O. Free it with lk_lock_free(). Errors: LK_EINVAL, LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. Since 0.2.
 */
LK_API int lk_read_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, const lk_read_write_options *options,
			    lk_error *error);

/*
 * Makes a handle of the write side (RReadWriteLock.writeLock) in the same way. An acquire fails
 * with LK_EUPGRADE for an owner that holds the read side and not the write side. Errors as
 * lk_read_lock_new(). Since 0.2.
 */
LK_API int lk_write_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			     size_t name_size, const lk_read_write_options *options,
			     lk_error *error);

LK_END_DECLS

#endif
