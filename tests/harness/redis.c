#include "redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "waiting.h"

static redisReply *ask(const struct server *server, const char *format, va_list arguments)
{
	struct timeval limit = {.tv_sec = slow_ms(10000) / 1000};
	redisContext *context = redisConnectUnixWithTimeout(server->socket, limit);
	redisReply *reply = NULL;
	if (context && !context->err) {
		redisSetTimeout(context, limit);
		reply = redisvCommand(context, format, arguments);
	}
	if (!reply || reply->type == REDIS_REPLY_ERROR) {
		fprintf(stderr, "harness: %s: %s\n", format,
			reply     ? reply->str
			: context ? context->errstr
				  : "no memory");
		abort();
	}
	redisFree(context);
	return reply;
}

redisReply *redis_ask(const struct server *server, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	redisReply *reply = ask(server, format, arguments);
	va_end(arguments);
	return reply;
}

long long redis_integer(const struct server *server, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	redisReply *reply = ask(server, format, arguments);
	va_end(arguments);
	long long number = -1000;
	if (reply->type == REDIS_REPLY_INTEGER)
		number = reply->integer;
	else if (reply->type == REDIS_REPLY_STRING)
		number = strtoll(reply->str, NULL, 10);
	freeReplyObject(reply);
	return number;
}

void redis_do(const struct server *server, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	freeReplyObject(ask(server, format, arguments));
	va_end(arguments);
}

long long redis_info(const struct server *server, const char *section, const char *field)
{
	redisReply *reply = redis_ask(server, "INFO %s", section);
	const char *place = strstr(reply->str, field);
	long long number = place ? strtoll(place + strlen(field), NULL, 10) : 0;
	freeReplyObject(reply);
	return number;
}

size_t redis_clients(const struct server *server, const char *name)
{
	char wanted[128];
	size_t count = 0;
	snprintf(wanted, sizeof(wanted), " name=%s ", name);
	redisReply *reply = redis_ask(server, "CLIENT LIST");
	for (const char *place = reply->str; (place = strstr(place, wanted)); place++)
		count++;
	freeReplyObject(reply);
	return count;
}

bool redis_field(const struct server *server, const void *key, size_t key_size, char *field_out,
		 size_t size)
{
	redisReply *reply = redis_ask(server, "HKEYS %b", key, key_size);
	bool one = reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
		   reply->element[0]->len < size;
	if (one)
		memcpy(field_out, reply->element[0]->str, reply->element[0]->len + 1);
	freeReplyObject(reply);
	return one;
}
