/* SPDX-License-Identifier: MIT */
/*
 * Lines of Prometheus' text format 0.0.4, for what the command tells of jobs and of servers. A text
 * of gauges that ends with exposition_end() is OpenMetrics 1.0 as well: what that asks for besides
 * is a comment in the older format.
 */
#ifndef CLI_EXPOSITION_H
#define CLI_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The lines before the samples of a family. That of a counter has "_total", as 0.0.4 wants it. */
void exposition_family(FILE *stream, const char *family, const char *type, const char *help);

/* The value of a label, without its quotes. What is no UTF-8, and a NUL, become U+FFFD, since
 * readers refuse them. */
void exposition_label(FILE *stream, const void *bytes, size_t size);

/* A number in thousandths, and the end of the line; in integers: no locale changes them. */
void exposition_thousandths(FILE *stream, int64_t value);

/* The end of a text in both formats. */
void exposition_end(FILE *stream);

/* The type of content for a reader whose header Accept is that, "" where it has none: OpenMetrics
 * if it asks for that, and for the older format no more. */
const char *exposition_type(const char *accept);

#endif
