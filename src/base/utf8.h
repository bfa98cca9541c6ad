/* SPDX-License-Identifier: MIT */
/* Tells whether bytes are UTF-8. */
#ifndef LK__BASE_UTF8_H
#define LK__BASE_UTF8_H

#include <stddef.h>

/* The bytes of the UTF-8 sequence at the beginning of `size` bytes, of which there is one at least;
 * 0: it is none. */
size_t lk__utf8_size(const char *bytes, size_t size);

#endif
