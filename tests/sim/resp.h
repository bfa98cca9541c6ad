/* Answers of a simulated server, as they go over the wire. */
#ifndef SIM_RESP_H
#define SIM_RESP_H

#include <stddef.h>
#include <stdint.h>

#include "keyspace.h"

void sim_say_integer(struct lk__buffer *out, int64_t number);
void sim_say_bulk(struct lk__buffer *out, struct sim_word word);
void sim_say_nil(struct lk__buffer *out);
void sim_say_array(struct lk__buffer *out, size_t count); /* so many answers follow */
void sim_say_nil_array(struct lk__buffer *out);
void sim_say_status(struct lk__buffer *out, const char *text);

/* The text begins with the error's prefix. */
__attribute__((format(printf, 2, 3))) void sim_say_error(struct lk__buffer *out, const char *format,
							 ...);

/* As Redis writes a score. */
void sim_say_score(struct lk__buffer *out, double score);

#endif
