#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static void append(struct answer *answer, const char *text, size_t size)
{
	if (answer->size + size > answer->room) {
		answer->room = (answer->size + size) * 2;
		answer->bytes = realloc(answer->bytes, answer->room);
		if (!answer->bytes)
			abort();
	}
	memcpy(answer->bytes + answer->size, text, size);
	answer->size += size;
}

static void append_key(struct answer *answer, const char *key)
{
	if (answer->size > 1)
		append(answer, ",", 1);
	append(answer, "\"", 1);
	append(answer, key, strlen(key));
	append(answer, "\":", 2);
}

void answer_begin(struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	append(answer, "{", 1);
}

void answer_int(struct answer *answer, const char *key, int64_t value)
{
	char text[32];
	append_key(answer, key);
	append(answer, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

/* Bytes from 0x80 on are written as the code point of that number: Python reads Latin-1. */
void answer_text(struct answer *answer, const char *key, const char *text, size_t size)
{
	append_key(answer, key);
	append(answer, "\"", 1);
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];
		char escaped[8];
		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			append(answer, escaped,
			       (size_t)snprintf(escaped, sizeof(escaped), "\\u%04x", c));
		else
			append(answer, &text[i], 1);
	}
	append(answer, "\"", 1);
}

void answer_string(struct answer *answer, const char *key, const char *text)
{
	answer_text(answer, key, text, strlen(text));
}

void answer_result(struct answer *answer, int result, const lk_error *error)
{
	answer_int(answer, "result", result);
	answer_string(answer, "code", result >= 0 ? "OK" : lk_error_name(result));
	answer_string(answer, "message", result < 0 ? error->message : "");
}

void answer_send(struct answer *answer)
{
	append(answer, "}\n", 2);
	pthread_mutex_lock(&output);
	/* Not by stdio: at exit it writes once more what a thread is writing. */
	for (size_t done = 0; done < answer->size;) {
		ssize_t wrote = write(STDOUT_FILENO, answer->bytes + done, answer->size - done);
		if (wrote < 0 && errno != EINTR)
			break; /* nobody listens any more */
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	pthread_mutex_unlock(&output);
	free(answer->bytes);
	answer->bytes = NULL;
}
