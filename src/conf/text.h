/* SPDX-License-Identifier: MIT */
/* Small helpers for texts of a configuration: secrets, numbers, quoting. */
#ifndef LK__CONF_TEXT_H
#define LK__CONF_TEXT_H

#include <stdint.h>

/* Wipes and frees a text; NULL is fine. */
void lk__text_wipe(char *text);

/*
 * Reads a whole decimal number without sign, blanks or leading zeros. NULL and the number, or why
 * the text has another form: a static text that goes behind the value in a message.
 */
const char *lk__text_number(const char *text, int64_t *number_out);

/*
 * Writes the text for a message: at most `size` - 1 bytes, control bytes as '?', "..." at the end
 * when it was cut.
 */
void lk__text_quote(char *quoted, int size, const char *text);

#endif
