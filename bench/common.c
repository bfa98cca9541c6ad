/* SPDX-License-Identifier: MIT */
#include "common.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

_Noreturn void bench_die(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("bench: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_exit(1);
}

int64_t bench_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void bench_sleep_us(int64_t us)
{
	struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
	nanosleep(&pause, NULL);
}

long bench_number(const char *text, long least, long most)
{
	char *end = NULL;
	long value = text ? strtol(text, &end, 10) : least - 1;
	if (value < least || value > most || !end || *end)
		bench_die("not a number from %ld to %ld: %s", least, most, text ? text : "nothing");
	return value;
}

double bench_cpu_us(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

long bench_switches(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

long bench_resident_bytes(void)
{
	long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
		bench_die("no /proc/self/statm");
	fclose(file);
	return resident * sysconf(_SC_PAGESIZE);
}

long bench_heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();
	return (long)(info.uordblks + info.hblkhd);
}

/* ---- samples ---- */

void bench_samples_init(struct bench_samples *samples, size_t room)
{
	samples->ns = malloc(room * sizeof(*samples->ns));
	if (!samples->ns)
		bench_die("out of memory");
	/* Touched now, so that no page fault falls into a measurement. */
	memset(samples->ns, 0, room * sizeof(*samples->ns));
	samples->count = 0;
	samples->room = room;
}

void bench_samples_add(struct bench_samples *samples, int64_t ns)
{
	if (samples->count < samples->room)
		samples->ns[samples->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

void bench_samples_merge(struct bench_samples *into, const struct bench_samples *from)
{
	for (size_t i = 0; i < from->count; i++)
		bench_samples_add(into, from->ns[i]);
}

static int by_size(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	return (a > b) - (a < b);
}

double bench_samples_us(struct bench_samples *samples, double part)
{
	if (!samples->count)
		bench_die("no samples");
	qsort(samples->ns, samples->count, sizeof(*samples->ns), by_size);
	size_t index = (size_t)(part * (double)samples->count);
	if (index >= samples->count)
		index = samples->count - 1;
	return samples->ns[index] / 1e3;
}

void *bench_shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		bench_die("no shared memory");
	return memory;
}

/* ---- bare hiredis ---- */

redisContext *bench_connect(const char *url)
{
	char text[512];
	if ((size_t)snprintf(text, sizeof(text), "%s", url) >= sizeof(text))
		bench_die("URL too long");
	text[strcspn(text, "?")] = 0;
	redisContext *redis = NULL;
	if (strncmp(text, "unix://", 7) == 0) {
		redis = redisConnectUnix(text + 7);
	} else if (strncmp(text, "redis", 5) == 0 && strstr(text, "://")) {
		char *host = strstr(text, "://") + 3;
		char *colon = strrchr(host, ':');
		if (!colon)
			bench_die("no port in %s", text);
		colon[strcspn(colon, "/")] = 0;
		*colon = 0;
		redis = redisConnect(host, (int)bench_number(colon + 1, 1, 65535));
	}
	if (!redis || redis->err)
		bench_die("cannot connect to %s: %s", url, redis ? redis->errstr : "bad URL");
	return redis;
}

redisReply *bench_send(redisContext *redis, const char *bytes, int size)
{
	void *answer = NULL;
	if (redisAppendFormattedCommand(redis, bytes, (size_t)size) != REDIS_OK ||
	    redisGetReply(redis, &answer) != REDIS_OK)
		bench_die("connection lost: %s", redis->errstr);
	redisReply *reply = answer;
	if (reply->type == REDIS_REPLY_ERROR)
		bench_die("%s", reply->str);
	return reply;
}

const char *bench_script_load(redisContext *redis, enum lk__script_id id)
{
	const struct lk__script *script = &lk__scripts[id];
	redisReply *loaded = redisCommand(redis, "SCRIPT LOAD %b", script->text, script->size);
	if (!loaded || loaded->type != REDIS_REPLY_STRING || strcmp(loaded->str, script->sha1) != 0)
		bench_die("cannot load %s", script->name);
	freeReplyObject(loaded);
	return script->sha1;
}

char *bench_script(redisContext *redis, enum lk__script_id id, const char *name, size_t argc,
		   const char *const *argv, int *size_out)
{
	const char *words[16] = {"EVALSHA", bench_script_load(redis, id), "1", name};
	for (size_t i = 0; i < argc && i < 12; i++)
		words[4 + i] = argv[i];
	char *bytes = NULL;
	*size_out = redisFormatCommandArgv(&bytes, (int)(4 + argc), words, NULL);
	if (*size_out < 0)
		bench_die("out of memory");
	return bytes;
}

void bench_channel(char *channel_out, size_t size, const char *name)
{
	snprintf(channel_out, size, "redisson_lock__channel:{%s}", name);
}

long bench_info(redisContext *redis, const char *field)
{
	redisReply *reply = redisCommand(redis, "INFO");
	char key[64];
	snprintf(key, sizeof(key), "\n%s:", field);
	const char *found = reply && reply->str ? strstr(reply->str, key) : NULL;
	if (!found)
		bench_die("no %s in INFO", field);
	long value = strtol(found + strlen(key), NULL, 10);
	freeReplyObject(reply);
	return value;
}

long bench_calls(redisContext *redis)
{
	static const char *const sent[] = {"evalsha", "eval", "subscribe", "unsubscribe"};
	redisReply *reply = redisCommand(redis, "INFO commandstats");
	long calls = 0;
	if (!reply || !reply->str)
		bench_die("no INFO commandstats");
	for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
		char key[64];
		snprintf(key, sizeof(key), "\ncmdstat_%s:calls=", sent[i]);
		const char *found = strstr(reply->str, key);
		calls += found ? strtol(found + strlen(key), NULL, 10) : 0;
	}
	freeReplyObject(reply);
	return calls;
}

long bench_commands(redisContext *redis)
{
	static const char key[] = "\ncmdstat_", calls[] = ":calls=";
	redisReply *reply = redisCommand(redis, "INFO commandstats");
	long count = 0;
	if (!reply || !reply->str)
		bench_die("no INFO commandstats");
	for (const char *at = reply->str; (at = strstr(at, key));) {
		at += strlen(key);
		const char *found = strstr(at, calls);
		if (found && strncmp(at, "ping:", 5) != 0 && strncmp(at, "info:", 5) != 0)
			count += strtol(found + strlen(calls), NULL, 10);
	}
	freeReplyObject(reply);
	return count;
}

long bench_clients(redisContext *redis, const char *name)
{
	redisReply *reply = redisCommand(redis, "CLIENT LIST");
	char key[64];
	snprintf(key, sizeof(key), " name=%s ", name);
	long count = 0;
	if (!reply || !reply->str)
		bench_die("no CLIENT LIST");
	for (const char *at = reply->str; (at = strstr(at, key)); at++)
		count++;
	freeReplyObject(reply);
	return count;
}

long bench_subscriptions(redisContext *redis)
{
	static const char key[] = " sub=";
	redisReply *reply = redisCommand(redis, "CLIENT LIST");
	long count = 0;
	if (!reply || !reply->str)
		bench_die("no CLIENT LIST");
	for (const char *at = reply->str; (at = strstr(at, key));) {
		at += strlen(key);
		count += strtol(at, NULL, 10);
	}
	freeReplyObject(reply);
	return count;
}
