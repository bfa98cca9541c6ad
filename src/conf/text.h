/* SPDX-License-Identifier: MIT */
/* The texts of a configuration: kept, wiped, read as numbers, and what is wrong with them. */
#ifndef LK__CONF_TEXT_H
#define LK__CONF_TEXT_H

#include <stdint.h>

/* Wipes and frees a text; NULL is fine. */
void lk__text_wipe(char *text);

/* Wipes the text that was there. 0, or LK_ENOMEM with that one as it was. */
int lk__text_replace(char **text, const char *value);

/*
 * Reads a whole decimal number without sign, blanks or leading zeros. NULL and the number, or why
 * the text has another form: a static text that goes behind the value in a message.
 */
const char *lk__text_number(const char *text, int64_t *number_out);

/*
 * Explains quotes, blanks or a line break around a text, which a file or a shell was meant to take
 * away ("ends in a line break"): a static text that goes behind the text in a message; NULL: there
 * are none.
 */
const char *lk__text_edge(const char *text);

#endif
