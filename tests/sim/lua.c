#include "lua.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "commands.h"
#include "resp.h"

#define WORDS_MAX 8192 /* of a command that a script calls; unpack() gives no more */
#define SHA1_SIZE 40

static lua_State *lua;
static int compiled[SIM_SCRIPTS];       /* references; 0: not yet */
static const struct sim_asked *running; /* the EVALSHA */

/* ---- which scripts there are ---- */

static const struct lk__script *script_at(int script)
{
	static const struct lk__script *const tables[] = {lk__scripts, lk__scripts_sharded,
							  lk__scripts_both};
	return &tables[script / LK__SCRIPT_COUNT][script % LK__SCRIPT_COUNT];
}

int sim_script_of_sha1(struct sim_word sha1)
{
	for (int i = 0; i < SIM_SCRIPTS && sha1.size == SHA1_SIZE; i++)
		if (script_at(i)->text &&
		    strncasecmp(script_at(i)->sha1, sha1.bytes, SHA1_SIZE) == 0)
			return i;
	return -1;
}

int sim_script_of_text(struct sim_word text)
{
	for (int i = 0; i < SIM_SCRIPTS; i++)
		if (script_at(i)->text && script_at(i)->size == text.size &&
		    memcmp(script_at(i)->text, text.bytes, text.size) == 0)
			return i;
	return -1;
}

const char *sim_script_sha1(int script)
{
	return script_at(script)->sha1;
}

const char *sim_script_name(int script)
{
	return script_at(script)->name;
}

/* ---- from an answer to a value ---- */

static void push_field(const char *name, const char *text, size_t size)
{
	lua_newtable(lua);
	lua_pushlstring(lua, text, size);
	lua_setfield(lua, -2, name);
}

/* Pushes what the answer at `at` is, and says where it ends. */
static const char *push_answer(const char *at)
{
	const char *line_end = strstr(at, "\r\n"), *next = line_end + 2;
	int64_t number = at[0] == '+' || at[0] == '-' ? 0 : strtoll(at + 1, NULL, 10);
	switch (at[0]) {
	case '+':
		push_field("ok", at + 1, (size_t)(line_end - at) - 1);
		return next;
	case '-':
		push_field("err", at + 1, (size_t)(line_end - at) - 1);
		return next;
	case ':':
		lua_pushnumber(lua, (lua_Number)number);
		return next;
	default:
		break;
	}
	if (number < 0) {
		lua_pushboolean(lua, false);
		return next;
	}
	if (at[0] == '$') {
		lua_pushlstring(lua, next, (size_t)number);
		return next + number + 2;
	}
	lua_createtable(lua, (int)number, 0);
	for (int64_t i = 1; i <= number; i++) {
		next = push_answer(next);
		lua_rawseti(lua, -2, (int)i);
	}
	return next;
}

/* ---- from a value to an answer ---- */

/* A field of the table on top that is a text: false, there is none, and nothing is pushed. */
static bool push_text_of(const char *name)
{
	lua_pushstring(lua, name);
	lua_rawget(lua, -2);
	if (lua_type(lua, -1) == LUA_TSTRING)
		return true;
	lua_pop(lua, 1);
	return false;
}

static void say_value(struct lk__buffer *out);

/* A list ends in front of the first nil. */
static void say_table(struct lk__buffer *out)
{
	if (push_text_of("err")) {
		sim_say_error(out, "%s", lua_tostring(lua, -1));
		lua_pop(lua, 1);
		return;
	}
	if (push_text_of("ok")) {
		sim_say_status(out, lua_tostring(lua, -1));
		lua_pop(lua, 1);
		return;
	}
	int count = 0;
	for (bool more = true; more; count += more) {
		lua_rawgeti(lua, -1, count + 1);
		more = !lua_isnil(lua, -1);
		lua_pop(lua, 1);
	}
	sim_say_array(out, (size_t)count);
	for (int i = 1; i <= count; i++) {
		lua_rawgeti(lua, -1, i);
		say_value(out);
		lua_pop(lua, 1);
	}
}

/* The value on top. */
static void say_value(struct lk__buffer *out)
{
	size_t size;
	const char *text;
	switch (lua_type(lua, -1)) {
	case LUA_TSTRING:
		text = lua_tolstring(lua, -1, &size);
		sim_say_bulk(out, (struct sim_word){text, size});
		break;
	case LUA_TNUMBER:
		sim_say_integer(out, (int64_t)lua_tonumber(lua, -1));
		break;
	case LUA_TBOOLEAN:
		if (lua_toboolean(lua, -1))
			sim_say_integer(out, 1);
		else
			sim_say_nil(out);
		break;
	case LUA_TTABLE:
		say_table(out);
		break;
	default:
		sim_say_nil(out);
	}
}

/* ---- what a script sees ---- */

/* Redis writes a number with all its digits. */
static bool read_words(struct sim_word *words, int count)
{
	char text[64];
	for (int i = 1; i <= count; i++) {
		if (lua_type(lua, i) == LUA_TNUMBER) {
			snprintf(text, sizeof(text), "%.17g", lua_tonumber(lua, i));
			lua_pushstring(lua, text);
			lua_replace(lua, i);
		}
		if (lua_type(lua, i) != LUA_TSTRING)
			return false;
		words[i - 1].bytes = lua_tolstring(lua, i, &words[i - 1].size);
	}
	return true;
}

static void push_error(const char *text)
{
	push_field("err", text, strlen(text));
}

static void ask(void)
{
	static struct sim_word words[WORDS_MAX];
	static struct lk__buffer out;
	int count = lua_gettop(lua);
	struct sim_asked asked = {running->redis, NULL, &out, (size_t)count, words};
	if (count == 0 || count > WORDS_MAX) {
		push_error("ERR Please specify at least one argument for this redis.call() call");
	} else if (!read_words(words, count)) {
		push_error("ERR Lua redis lib command arguments must be strings or integers");
	} else {
		out.start = out.end = 0;
		sim_command_run(&asked);
		lk__buffer_append(&out, "", 1); /* so that the last line can be read as a text */
		push_answer(lk__buffer_front(&out));
	}
}

static int redis_pcall(lua_State *state)
{
	ask();
	return 1;
}

static int redis_call(lua_State *state)
{
	ask();
	if (lua_istable(state, -1) && push_text_of("err")) {
		lua_pop(state, 1);
		return lua_error(state);
	}
	return 1;
}

/* A first word without a blank behind it is no prefix. */
static int redis_error_reply(lua_State *state)
{
	const char *text = luaL_checkstring(state, 1);
	if (*text == '-')
		text++;
	if (strchr(text, ' '))
		lua_pushstring(state, text);
	else
		lua_pushfstring(state, "ERR %s", text);
	lua_newtable(state);
	lua_insert(state, -2);
	lua_setfield(state, -2, "err");
	return 1;
}

static int redis_status_reply(lua_State *state)
{
	const char *text = luaL_checkstring(state, 1);
	lua_newtable(state);
	lua_pushstring(state, text);
	lua_setfield(state, -2, "ok");
	return 1;
}

static int unknown_global(lua_State *state)
{
	return luaL_error(state, "Script attempted to access nonexistent global variable '%s'",
			  lua_tostring(state, 2));
}

static int new_global(lua_State *state)
{
	return luaL_error(state, "Attempt to modify a readonly table");
}

/* An error is a table with a text, and the line that it came from. */
static int note_line(lua_State *state)
{
	lua_Debug at;
	char text[512];
	if (!lua_istable(state, 1)) {
		snprintf(text, sizeof(text), "ERR %s", lua_tostring(state, 1));
		lua_settop(state, 0);
		push_error(text);
	}
	for (int level = 1; lua_getstack(state, level, &at); level++) {
		lua_getinfo(state, "Sl", &at);
		if (at.currentline < 0)
			continue;
		lua_pushinteger(state, at.currentline);
		lua_setfield(state, 1, "line");
		break;
	}
	return 1;
}

/* ---- the state ---- */

static void open_library(lua_CFunction open, const char *name)
{
	lua_pushcfunction(lua, open);
	lua_pushstring(lua, name);
	lua_call(lua, 1, 0);
}

/* From here on, scripts find and make no other globals. */
static void close_globals(void)
{
	static const char *const removed[] = {"dofile", "loadfile", "print", "newproxy"};
	for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
		lua_pushnil(lua);
		lua_setglobal(lua, removed[i]);
	}
	lua_newtable(lua);
	lua_pushcfunction(lua, unknown_global);
	lua_setfield(lua, -2, "__index");
	lua_pushcfunction(lua, new_global);
	lua_setfield(lua, -2, "__newindex");
	lua_setmetatable(lua, LUA_GLOBALSINDEX);
}

static void state_end(void)
{
	lua_close(lua);
}

static void state_begin(void)
{
	static const luaL_Reg redis[] = {{"call", redis_call},
					 {"pcall", redis_pcall},
					 {"error_reply", redis_error_reply},
					 {"status_reply", redis_status_reply},
					 {NULL, NULL}};
	lua = luaL_newstate();
	open_library(luaopen_base, "");
	open_library(luaopen_table, LUA_TABLIBNAME);
	open_library(luaopen_string, LUA_STRLIBNAME);
	open_library(luaopen_math, LUA_MATHLIBNAME);
	luaL_register(lua, "redis", redis);
	lua_settop(lua, 0);
	close_globals();
	atexit(state_end);
}

static void push_script(int script)
{
	const struct lk__script *text = script_at(script);
	if (!compiled[script]) {
		if (luaL_loadbuffer(lua, text->text, text->size, "@user_script") != 0) {
			fprintf(stderr, "%s: %s\n", text->name, lua_tostring(lua, -1));
			abort();
		}
		compiled[script] = luaL_ref(lua, LUA_REGISTRYINDEX);
	}
	lua_rawgeti(lua, LUA_REGISTRYINDEX, compiled[script]);
}

static void set_words(const char *name, const struct sim_word *words, size_t count)
{
	lua_pushstring(lua, name);
	lua_createtable(lua, (int)count, 0);
	for (size_t i = 0; i < count; i++) {
		lua_pushlstring(lua, words[i].bytes, words[i].size);
		lua_rawseti(lua, -2, (int)i + 1);
	}
	lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* The error on top, as the server tells it. */
static void say_failure(struct lk__buffer *out, int script)
{
	push_text_of("err");
	lua_getfield(lua, -2, "line");
	sim_say_error(out, "%s script: %s, on @user_script:%d.", lua_tostring(lua, -2),
		      sim_script_sha1(script), (int)lua_tointeger(lua, -1));
}

void sim_script_run(const struct sim_asked *asked, int script, size_t keys)
{
	if (!lua)
		state_begin();
	running = asked;
	lua_pushcfunction(lua, note_line);
	push_script(script);
	set_words("KEYS", asked->words + 3, keys);
	set_words("ARGV", asked->words + 3 + keys, asked->count - 3 - keys);
	if (lua_pcall(lua, 0, 1, 1) == 0)
		say_value(asked->out);
	else
		say_failure(asked->out, script);
	lua_settop(lua, 0);
	running = NULL;
}
