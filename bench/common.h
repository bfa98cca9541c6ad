/* SPDX-License-Identifier: MIT */
/*
 * What the programs of the benchmark share: time, samples, and hiredis calls that block.
 *
 * A program measures one thing once and prints one line of JSON; bench/run.py repeats it. Whatever
 * goes wrong ends the program with a message: a figure is either right or missing.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "scripts.h"

#define BENCH_SAMPLES_MAX (1u << 21)
#define BENCH_THREADS_MAX 4096
#define BENCH_LEASE "30000"
#define BENCH_NO_DEADLINE "9007199254740000" /* server time in us, never reached */

struct bench_samples {
	uint32_t *ns;
	size_t count, room;
};

_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t bench_now_ns(void);
void bench_sleep_us(int64_t us);
long bench_number(const char *text, long least, long most);

/* User and system time of this process, us. */
double bench_cpu_us(void);

/* How often its threads have given up their core to wait. */
long bench_switches(void);

/* Memory of this process: what it has in RAM, and what it has allocated. */
long bench_resident_bytes(void);
long bench_heap_bytes(void);

/* Room for `room` samples; more are not kept. */
void bench_samples_init(struct bench_samples *samples, size_t room);
void bench_samples_add(struct bench_samples *samples, int64_t ns);
void bench_samples_merge(struct bench_samples *into, const struct bench_samples *from);

/* Sorts; us; `part` of 0 … 1. */
double bench_samples_us(struct bench_samples *samples, double part);

/* Memory that forked processes share, zeroed. */
void *bench_shared(size_t size);

/* redis://host:port and unix://path; a query is passed over. */
redisContext *bench_connect(const char *url);

/* Gives the server a script; its SHA-1. */
const char *bench_script_load(redisContext *redis, enum lk__script_id id);

/* Makes the bytes of EVALSHA for one key; gives the server the script first. */
char *bench_script(redisContext *redis, enum lk__script_id id, const char *name, size_t argc,
		   const char *const *argv, int *size_out);

/* Sends made bytes and waits for the answer; an error answer ends the program. */
redisReply *bench_send(redisContext *redis, const char *bytes, int size);

/* The channel on which releases of `name` are told. */
void bench_channel(char *channel_out, size_t size, const char *name);

/* A number from INFO ("total_commands_processed"), or how many lines of CLIENT LIST have `name`. */
long bench_info(redisContext *redis, const char *field);
/* Commands that clients have sent, SUBSCRIBE and the like among them, this call not. */
long bench_calls(redisContext *redis);
/* All that the server has done, also what scripts call; keep-alives (PING) and INFO not. */
long bench_commands(redisContext *redis);
long bench_clients(redisContext *redis, const char *name);
/* Channels that clients listen on, counted for each client. */
long bench_subscriptions(redisContext *redis);

#endif
