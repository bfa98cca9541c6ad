/* SPDX-License-Identifier: MIT */
/* The command's messages on stderr: one line a message, "lockkeeper: …", escaped. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <jansson.h>

#include <lockkeeper.h>
#include <lockkeeper/error.h>

/* How the lines look: "text", as above, or "json": {"time": …, "level": …, "pid": …, "message": …},
 * and the "traceparent" of the environment. 0, or EXIT_TROUBLE (said). */
int message_format_set(const char *name);

/* From now on a line that nobody reads within this time is dropped, and the next one that is read
 * tells how many were: who keeps a lock must not wait for a full pipe. */
void message_limit(int most_ms);

/* Says it, in one write. */
__attribute__((format(printf, 1, 2))) void message(const char *format, ...);

/* Says it at another level than information: LK_LOG_…, which only JSON shows. */
__attribute__((format(printf, 2, 3))) void message_at(int level, const char *format, ...);

/* The object of a line of JSON, for more to be added; NULL when out of memory. */
json_t *message_json(int level, const char *text);

/* Says a line that is whole, its end included; neither escaped nor cut. */
void message_line(const char *line);

/* Says it, and returns EXIT_TROUBLE. */
__attribute__((format(printf, 1, 2))) int trouble(const char *format, ...);

/* As trouble(), with the text of `system_errno` appended. */
__attribute__((format(printf, 2, 3))) int trouble_errno(int system_errno, const char *format, ...);

/* The library's report in plain words; static memory. */
const char *library_text(const lk_error *error);

/* Says what a library call reported, and returns the exit code for it: EXIT_LOST for
 * LK_ELOST and LK_ENOTOWNER, EXIT_NOT_ACQUIRED for LK_EBUSY and LK_ETIMEDOUT, else EXIT_TROUBLE. */
int trouble_library(const lk_error *error);

/* Flushes stdout; 0, or EXIT_TROUBLE (said) when not all of it could be written. */
int output_finish(void);

/* Rewrites a message in place, and never makes it longer: without the names of C functions. */
void error_text_plain(char *text);

/* Logs for clients that are made from the configuration from now on, if -v was given twice. */
void log_begin(lk_config *config, int verbose);

#endif
