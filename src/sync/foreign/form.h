/* SPDX-License-Identifier: MIT */
/*
 * The forms that keys and values of other libraries have, as text:
 *
 *   *      anything              %u    a UUID with dashes
 *   %h32   32 hex digits         %1    a UUID of version 1 without dashes: a time and a machine
 *   %a16   16 letters, digits    %d    digits, one or more
 *   %b22   22 of base64          %w    letters and digits, one or more
 *   %r20   20 bytes of which some are no printable ASCII
 *   %t     13 digits: ms since 1970       %e    seconds since 1970, perhaps with a fraction
 *   %T     a time as 2026-11-27T03:12:11.123Z   %N    a host's name
 *   %p     what Python's pickle makes     %z    0 or 1
 *   %*     a star
 *
 * All else stands for itself.
 */
#ifndef LK__SYNC_FOREIGN_FORM_H
#define LK__SYNC_FOREIGN_FORM_H

#include <stdbool.h>
#include <stddef.h>

#define LK__FORM_PARTS 8
#define LK__FORM_MOST 1024 /* bytes; what is longer has no form: matching takes bounded time */

/* What stood where: for each "*" and "%…" of the form, in order. */
struct lk__form_parts {
	struct lk__form_part {
		char sort; /* the letter behind "%", or "*" */
		const char *at;
		size_t size;
	} part[LK__FORM_PARTS];
	size_t count;
};

bool lk__form_match(const char *form, const char *text, size_t size, struct lk__form_parts *parts);

/* How much of a form stands for itself. */
size_t lk__form_weight(const char *form);

/* Writes `text` with "%T", "%t", "%e", "%1" and "%N" replaced by what they say of the first such
 * part: a time as "2026-11-27 03:12" (UTC). Cuts at `size`. */
void lk__form_tell(const char *text, const struct lk__form_parts *parts, char *out, size_t size);

/* Writes `text` with "{1}" … replaced by what the stars of the key stood for. NULL: no memory. */
char *lk__form_fill(const char *text, const struct lk__form_parts *parts, size_t *size_out);

#endif
