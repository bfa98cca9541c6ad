/* SPDX-License-Identifier: MIT */
/* Who an owner is, in words and as JSON: what its client tells of itself. */
#ifndef CLI_OWNER_H
#define CLI_OWNER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include <lockkeeper/inspect.h>

#define OWNER_TEXT_SIZE 960
#define OWNER_TIME_SIZE 32

/* A time in the user's zone, of ms since 1970: "2026-11-22 10:03:11". */
void owner_time_text(int64_t ms, char text_out[OWNER_TIME_SIZE]);

/* "pg_dump, pid 123 on db1 (user postgres), since 2026-11-22 10:03:11"; or "another client". The
 * client's note stands behind it: ", note: release 4711". With "kept by" before it where the lock
 * is kept after its release. */
void owner_text(lk_scan *scan, const char *field, size_t field_size, char *text_out, size_t size);

/* Writes so of an owner whose record is there; NULL: it has none. */
void owner_info_text(const lk_owner_info *owner, const char *field, size_t field_size,
		     char *text_out, size_t size);

/* Tells whether nobody holds the lock, but its last owner has it kept from others. */
int owner_is_kept(const char *field, size_t field_size);

/* Names a lock's holder; for another client also whose lock it looks like. */
void holder_text(lk_scan *scan, const lk_lock_info *info, const lk_holder *holder, char *text_out,
		 size_t size);

/* As owner_text(), as an object; null for another client. NULL when out of memory. */
json_t *owner_info_json(const lk_owner_info *owner);
json_t *owner_json(lk_scan *scan, const char *field, size_t field_size);

#endif
