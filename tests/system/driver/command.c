#include "driver.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Decodes %XX in place, ends with a NUL, and returns the size; malformed ones stay as they are. */
static size_t decode(char *text)
{
	char *out = text;
	for (const char *in = text; *in; in++) {
		int high = in[0] == '%' ? hex_digit(in[1]) : -1;
		int low = high >= 0 ? hex_digit(in[2]) : -1;
		if (low >= 0) {
			*out++ = (char)(high * 16 + low);
			in += 2;
		} else {
			*out++ = *in;
		}
	}
	*out = '\0';
	return (size_t)(out - text);
}

static int argument_parse(struct command *command, char *word)
{
	char *value = strchr(word, '=');
	if (!value || command->count == ARGUMENTS_MAX)
		return -1;
	*value++ = '\0';
	struct argument *argument = &command->arguments[command->count++];
	argument->key = word;
	argument->value = value;
	argument->size = decode(value);
	return 0;
}

struct command *command_parse(const char *line)
{
	struct command *command = calloc(1, sizeof(*command));
	if (!command)
		abort();
	command->line = strdup(line);
	char *rest = command->line;
	const char *id = strtok_r(rest, " \n", &rest);
	command->thread = strtok_r(NULL, " \n", &rest);
	command->verb = strtok_r(NULL, " \n", &rest);
	if (!id || !command->thread || !command->verb)
		goto malformed;
	command->id = strtol(id, NULL, 10);
	for (char *word; (word = strtok_r(NULL, " \n", &rest));) {
		if (argument_parse(command, word))
			goto malformed;
	}
	return command;
malformed:
	command_free(command);
	return NULL;
}

void command_free(struct command *command)
{
	free(command->line);
	free(command);
}

const char *command_text(const struct command *command, const char *key, size_t *size_out)
{
	for (int i = 0; i < command->count; i++) {
		if (strcmp(command->arguments[i].key, key) == 0) {
			if (size_out)
				*size_out = command->arguments[i].size;
			return command->arguments[i].value;
		}
	}
	return NULL;
}

int64_t command_number(const struct command *command, const char *key, int64_t otherwise)
{
	const char *text = command_text(command, key, NULL);
	return text ? strtoll(text, NULL, 10) : otherwise;
}
