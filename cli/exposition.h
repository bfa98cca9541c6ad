/* SPDX-License-Identifier: MIT */
/* Lines of Prometheus' text format 0.0.4, for what the command tells of jobs and of servers. */
#ifndef CLI_EXPOSITION_H
#define CLI_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The lines before the samples of a family. */
void exposition_family(FILE *stream, const char *family, const char *type, const char *help);

/* The value of a label, without its quotes. What is no UTF-8, and a NUL, become U+FFFD, since
 * readers refuse them. */
void exposition_label(FILE *stream, const void *bytes, size_t size);

/* A number in thousandths, and the end of the line; in integers: no locale changes them. */
void exposition_thousandths(FILE *stream, int64_t value);

#endif
