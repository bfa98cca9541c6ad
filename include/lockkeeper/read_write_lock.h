/*
 * The read/write lock: Redisson's RReadWriteLock, on the same keys. Any number of readers, or one
 * writer.
 *
 *   lk_read_lock_new(&reading, client, "catalogue", 9, NULL, &error);
 *   lk_lock_acquire(reading, NULL, &error);         beside other readers
 *
 * Each side is an lk_lock, and all of lk_lock_acquire(), lk_lock_release(), … (lock.h) work on it.
 * Every reading owner and every writing owner has a lease, a watchdog and a deadline of its own.
 *
 * In Redis, for the lock "catalogue":
 *
 *   catalogue                        hash   PEXPIRE: the longest lease in it
 *     mode                           read, or write
 *     <owner field>                  1, for each reader
 *     <owner field>:write            1, for the writer
 *   {catalogue}:<owner field>:rwlock_timeout:1   string "1"   PX: that reader's lease
 *   redisson_rwlock:{catalogue}      channel: "0" when the last reader leaves, "1" when the writer
 *                                    leaves, or goes down to reading
 *   lockkeeper_writers:{catalogue}   zset of the writers that wait and are preferred, by the server
 *                                    time in ms up to which they count; see prefer_writers
 *
 *   owner field = <uuid of the client>:<number>; the first read under a write has its number
 *
 * A name with "{" is not wrapped: a{b}c:<owner field>:rwlock_timeout:1, redisson_rwlock:a{b}c.
 * Names whose derived keys would be in another cluster slot ("a}b", "foo{bar") are refused.
 *
 * RE-ENTRY works on both sides, by the same owner, counted in the client (lock.h).
 *
 * DOWN, NOT UP. An owner that writes may take the read side too, and release the write side first:
 * then it goes on reading, and waiting readers are let in at that moment. An owner that only reads
 * and asks for the write side gets LK_EUPGRADE at once: it would wait for itself.
 *
 * WHO KEEPS WHOM OUT. A reader counts as long as its own lease; one that died keeps the lock no
 * longer than that, and no release of another reader frees a live one. Readers come in beside
 * readers, also past waiting writers, as with Redisson: enough of them can keep a writer out for
 * ever, unless prefer_writers is set.
 *
 * lk_lock_force_release() frees one side whoever has it; the read side only while nobody writes.
 * lk_lock_is_locked() tells of one side. A name that is a reentrant lock, or anything else, is
 * refused with LK_EWRONGTYPE.
 */
#ifndef LOCKKEEPER_READ_WRITE_LOCK_H
#define LOCKKEEPER_READ_WRITE_LOCK_H

#include <stddef.h>

#include <lockkeeper/client.h>
#include <lockkeeper/error.h>
#include <lockkeeper/lock.h>

/*
 * prefer_writers: a waiting writer with the option is written down on the server, and readers with
 * the option wait behind it (an owner that reads or writes already is let in). Readers without it,
 * and Redisson's, come in as ever. A writer that dies while it waits holds them up for 3 s at most.
 * Writers that never pause keep such readers out.
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
 * Makes a handle for the read side of a name, as lk_lock_new() (RReadWriteLock.readLock); to be
 * freed with lk_lock_free(). `options` may be NULL. No I/O. Errors: LK_EINVAL, LK_ENOMEM,
 * LK_ECLOSED, LK_EFORKED. Since 0.1.
 */
LK_API int lk_read_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			    size_t name_size, const lk_read_write_options *options,
			    lk_error *error);

/*
 * The same for the write side (RReadWriteLock.writeLock). Acquiring it fails with LK_EUPGRADE for
 * an owner that has the read side and not the write side. Since 0.1.
 */
LK_API int lk_write_lock_new(lk_lock **lock_out, lk_client *client, const void *name,
			     size_t name_size, const lk_read_write_options *options,
			     lk_error *error);

LK_END_DECLS

#endif
