/* SPDX-License-Identifier: MIT */
/* Bytes as labels of metrics: readers refuse what is no UTF-8. */
#ifndef LK__API_LABEL_H
#define LK__API_LABEL_H

#include <stddef.h>

/* A copy with a NUL, in which what is no UTF-8, and a NUL, are U+FFFD. To be freed; NULL when out
 * of memory. */
char *lk__label_new(const void *bytes, size_t size);

#endif
