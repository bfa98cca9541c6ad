/*
 * What a suite asks the server behind the library's back, through bare hiredis.
 *
 * Each call has a connection of its own and fails the test when there is no answer. Formats are
 * hiredis': %s takes a text, %b bytes and their size_t.
 */
#ifndef HARNESS_REDIS_H
#define HARNESS_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "server.h"

/* The reply, to be freed with freeReplyObject(); never NULL, never an error reply. */
redisReply *redis_ask(const struct server *server, const char *format, ...);

/* An integer reply (or a text that is a number); nil is -1000. */
long long redis_integer(const struct server *server, const char *format, ...);

/* Runs it and throws the answer away. */
void redis_do(const struct server *server, const char *format, ...);

/* A number of INFO: redis_info(server, "commandstats", "cmdstat_evalsha:calls="); 0 without. */
long long redis_info(const struct server *server, const char *section, const char *field);

/* How many connections CLIENT LIST shows under a name. */
size_t redis_clients(const struct server *server, const char *name);

/* Copies the only field of a hash; false when there is no such hash, or it has more fields. */
bool redis_field(const struct server *server, const void *key, size_t key_size, char *field_out,
		 size_t size);

#endif
