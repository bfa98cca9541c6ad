/*
 * The library's own scripts, in Lua 5.1, as a server runs them: redis.call() and redis.pcall(),
 * answers and errors turned into values and back, KEYS and ARGV, and no global but those.
 *
 * One Lua state serves all simulated servers, and each script is compiled once a process. What a
 * script has in memory goes with its run, so servers share nothing.
 */
#ifndef SIM_LUA_H
#define SIM_LUA_H

#include <stddef.h>

#include "keyspace.h"
#include "scripts.h"

#define SIM_SCRIPTS (3 * LK__SCRIPT_COUNT) /* for each kind of messages */

struct sim_asked;

/* A script's number, or -1. */
int sim_script_of_sha1(struct sim_word sha1);
int sim_script_of_text(struct sim_word text);
const char *sim_script_sha1(int script);
const char *sim_script_name(int script);

/* Runs EVALSHA, whose keys are so many words from the fourth on, and answers. */
void sim_script_run(const struct sim_asked *asked, int script, size_t keys);

#endif
