/* SPDX-License-Identifier: MIT */
/* Who an owner is: reads its field, and the record that its client keeps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inspect.h"
#include "conf/config.h"
#include "lock/client.h"
#include "resp/reply.h"

#define UUID_SIZE 36
#define PERMIT_SIZE 32
#define RECORD_LAST "32767" /* of a record so many bytes are asked for: none is as long */

static bool is_uuid(const char *text)
{
	for (size_t i = 0; i < UUID_SIZE; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (!text[i] || !strchr(dash ? "-" : "0123456789abcdef", text[i]))
			return false;
	}
	return true;
}

static bool is_owner(const char *field, size_t size)
{
	return size > UUID_SIZE && field[UUID_SIZE] == ':' && is_uuid(field);
}

/* True of the beginning of a client's permits: half of a random UUID, whose version is 4. */
static bool is_permit(const char *field, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!field[i] || !strchr("0123456789abcdef", field[i]))
			return false;
	return size == PERMIT_SIZE && field[12] == '4';
}

bool lk__owner_half(const char *field, size_t size, char half_out[LK__CLIENT_HALF + 1])
{
	if (is_owner(field, size))
		snprintf(half_out, LK__CLIENT_HALF + 1, "%.*s", LK__CLIENT_HALF, field);
	else if (is_permit(field, size))
		snprintf(half_out, LK__CLIENT_HALF + 1, "%.8s-%.4s-%.4s", field, field + 8,
			 field + 12);
	else
		return false;
	return true;
}

/* The rest of the line that begins with `name`, or "". */
static const char *record_value(const char *text, size_t size, const char *name)
{
	size_t name_size = strlen(name);
	for (const char *line = text; line < text + size; line += strlen(line) + 1)
		if (strncmp(line, name, name_size) == 0)
			return line + name_size;
	return "";
}

/* 0, which stands for unknown, where the record does not have a number. */
static int64_t record_number(const char *text, size_t size, const char *name)
{
	int64_t number = 0;
	lk__number_read(record_value(text, size, name), 0, INT64_MAX, &number);
	return number;
}

/* Takes the text of a record apart; one of another client is none. False when out of memory. */
static bool client_read(struct lk__known_client *client, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return true;
	size_t size = (size_t)reply->len;
	client->text = malloc(size + 1);
	if (!client->text)
		return false;
	memcpy(client->text, reply->str, size);
	client->text[size] = '\0';
	client->text_size = size;
	for (size_t i = 0; i < size; i++)
		if (client->text[i] == '\n')
			client->text[i] = '\0';
	client->info = (lk_owner_info){
		.client_id = record_value(client->text, size, "id="),
		.host = record_value(client->text, size, "host="),
		.pid = record_number(client->text, size, "pid="),
		.since_ms = record_number(client->text, size, "since="),
		.user = record_value(client->text, size, "user="),
		.program = record_value(client->text, size, "program="),
		.note = record_value(client->text, size, "note="),
	};
	const char *id = client->info.client_id;
	if (strlen(id) != UUID_SIZE || !is_uuid(id) ||
	    strncmp(id, client->half, LK__CLIENT_HALF) != 0) {
		free(client->text);
		client->text = NULL;
	}
	return true;
}

/* The note of that hold alone; NULL: it has none. */
static const char *hold_note(const struct lk__known_client *client, const char *field, size_t size)
{
	char name[64], number[32];
	uint64_t value = 0;
	const char *end = field + size;
	bool owner = is_owner(field, size);
	snprintf(number, sizeof(number), "%.*s", (int)(end - field) - (owner ? UUID_SIZE + 1 : 16),
		 field + (owner ? UUID_SIZE + 1 : 16));
	char *last = NULL;
	value = strtoull(number, &last, owner ? 10 : 16);
	if (!last || *last)
		return NULL;
	snprintf(name, sizeof(name), "note:%" PRIu64 "=", value);
	const char *note = record_value(client->text, client->text_size, name);
	return *note ? note : NULL;
}

void lk__owner_free(struct lk__known_client *client)
{
	if (client)
		free(client->text);
	free(client);
}

struct lk__request *lk__owner_question(const lk_client *client, const char *half,
				       struct lk__node **node_out)
{
	char *key;
	int size = asprintf(&key, "%s" LK__CLIENT_RECORD_PREFIX "%s", client->config->key_prefix,
			    half);
	if (size < 0)
		return NULL;
	struct lk__words words = {0};
	lk__words_text(&words, "GETRANGE");
	lk__words_add(&words, key, (size_t)size);
	lk__words_text(&words, "0");
	lk__words_text(&words, RECORD_LAST);
	*node_out = lk__topo_node_of(client->topo, key, (size_t)size);
	struct lk__request *request = lk__words_command(&words);
	free(key);
	return request;
}

struct lk__known_client *lk__owner_read(const char *half, const redisReply *reply)
{
	struct lk__known_client *client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	memcpy(client->half, half, sizeof(client->half));
	if (!reply || client_read(client, reply))
		return client;
	free(client);
	return NULL;
}

bool lk__owner_tell(const struct lk__known_client *client, const char *field, size_t field_size,
		    lk_owner_info *info)
{
	if (!client->text ||
	    (is_owner(field, field_size) && strncmp(client->info.client_id, field, UUID_SIZE) != 0))
		return false;
	*info = client->info;
	const char *note = hold_note(client, field, field_size);
	if (note)
		info->note = note;
	return true;
}
