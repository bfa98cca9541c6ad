/* The scripts of fenced locks, read/write locks and semaphores, written again in C. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server_inside.h"
#include "world.h"

#define RECORD_MS INT64_C(60000) /* how long a change is remembered */
#define LOOK "1"                 /* a lease that only looks */
#define READS "0"                /* the message of the read side */

static void say_nil(struct sim_link *link)
{
	srv_say(link, "$-1\r\n");
}

static void say_number(struct sim_link *link, int64_t number)
{
	srv_say(link, ":%" PRId64 "\r\n", number);
}

static int64_t ends_ns(const char *lease_ms)
{
	return sim_now_ns() + atoll(lease_ms) * SIM_MS;
}

static int64_t ttl_ms(int64_t until_ns)
{
	return (until_ns - sim_now_ns()) / SIM_MS;
}

/* ---- strings ---- */

static struct string *string_find(const char *name)
{
	for (size_t i = 0; i < STRINGS_MAX; i++) {
		struct string *string = &server->strings[i];
		if (string->until_ns <= sim_now_ns())
			string->name[0] = '\0';
		if (string->name[0] && strcmp(string->name, name) == 0)
			return string;
	}
	return NULL;
}

static void string_set(const char *name, int64_t value, int64_t until_ns)
{
	struct string *string = string_find(name);
	for (size_t i = 0; i < STRINGS_MAX && !string; i++)
		if (!server->strings[i].name[0])
			string = &server->strings[i];
	if (!string) {
		sim_fail("the server has too many strings");
		return;
	}
	snprintf(string->name, sizeof(string->name), "%s", name);
	string->value = value;
	string->until_ns = until_ns;
}

static void string_delete(const char *name)
{
	struct string *string = string_find(name);
	if (string)
		string->name[0] = '\0';
}

bool sim_server_number(unsigned number, const char *name, int64_t *value_out)
{
	server = srv_at(number);
	const struct string *string = string_find(name);
	if (string)
		*value_out = string->value;
	return string != NULL;
}

/* ---- fenced locks ---- */

/* A place among the turns, for one that has to wait, or has it. */
static void fenced_turn(const char *name, size_t count, const char **arguments, const char *since)
{
	if (count > 5)
		srv_wait_turn(name, arguments[5], since);
}

/* A grant's token is higher than all before. */
static int64_t fenced_raise(const char *counter)
{
	const struct string *newest = string_find(counter);
	int64_t token = newest && newest->value >= srv_us() ? newest->value + 1 : srv_us();
	string_set(counter, token, SIM_NEVER);
	return token;
}

static void fenced_acquire(struct sim_link *link, const char **names, size_t count,
			   const char **arguments)
{
	struct key *key = srv_key_find(names[0]);
	const char *from = arguments[3];
	bool own = srv_key_is_of(key, arguments[0]), passes = *from != '\0';
	if (srv_is_late(link, arguments[2]))
		return;
	if (!own && passes && !srv_key_is_of(key, from)) {
		say_number(link, -3);
	} else if (!own && !passes && key) {
		fenced_turn(names[0], count, arguments, arguments[6]);
		say_number(link, srv_key_ttl_ms(key));
	} else if (!own && !passes && count > 8 && strcmp(arguments[8], "1") == 0) {
		fenced_turn(names[0], count, arguments, arguments[6]);
		say_number(link, strcmp(srv_first_turn(names[0])->id, arguments[5]) == 0 ? 0 : 250);
	} else if (own) {
		if (srv_key_ttl_ms(key) < atoll(arguments[1]))
			srv_key_expire(key, arguments[1]);
		srv_say(link, "+TOKEN %" PRId64 "\r\n", string_find(names[1])->value);
	} else {
		if (key)
			srv_key_own(key, arguments[0]);
		else
			key = srv_key_new(names[0], arguments[0]);
		srv_key_expire(key, arguments[1]);
		fenced_turn(names[0], count, arguments, TAKEN_TEXT);
		srv_say(link, "+TOKEN %" PRId64 "\r\n", fenced_raise(names[1]));
	}
}

/* ---- read/write locks ---- */

static struct sides *sides_find(void)
{
	if (server->sides.until_ns <= sim_now_ns())
		memset(&server->sides, 0, sizeof(server->sides));
	return server->sides.until_ns ? &server->sides : NULL;
}

/* Where the field is; "": where there is room for one. */
static int field_of(const struct sides *sides, const char *owner)
{
	for (int i = 0; sides && i < FIELDS_MAX; i++)
		if (strcmp(sides->fields[i].owner, owner) == 0)
			return i;
	return -1;
}

bool sim_server_is_free(unsigned number)
{
	server = srv_at(number);
	return !sides_find();
}

/* The hash lasts as long at least, and where it is new, or new to this owner, it gets the field. */
static int sides_add(const char *name, const char *owner, bool writes, const char *lease_ms)
{
	struct sides *sides = &server->sides;
	int field = field_of(sides, owner);
	if (!sides_find())
		sides->writes = writes;
	srv_check_grant(owner);
	snprintf(sides->name, sizeof(sides->name), "%s", name);
	if (field < 0)
		field = field_of(sides, "");
	if (field < 0) {
		sim_fail("the server has too many readers");
		return 0;
	}
	snprintf(sides->fields[field].owner, sizeof(sides->fields[field].owner), "%s", owner);
	if (sides->until_ns < ends_ns(lease_ms))
		sides->until_ns = ends_ns(lease_ms);
	return field;
}

static void read_acquire(struct sim_link *link, const char **names, const char **arguments)
{
	struct sides *sides = sides_find();
	bool own = field_of(sides, arguments[0]) >= 0;
	bool below = *arguments[3] && field_of(sides, arguments[3]) >= 0;
	if (srv_is_late(link, arguments[2]))
		return;
	if (sides && sides->writes && !own && !below) {
		say_number(link, ttl_ms(sides->until_ns));
		return;
	}
	int field = sides_add(names[0], arguments[0], false, arguments[1]);
	if (!own || server->sides.fields[field].until_ns < ends_ns(arguments[1]))
		server->sides.fields[field].until_ns = ends_ns(arguments[1]);
	say_nil(link);
}

static void write_turn(const char *name, size_t count, const char **arguments, const char *since)
{
	if (count > 4)
		srv_wait_turn(name, arguments[4], since);
}

static void write_acquire(struct sim_link *link, const char **names, size_t count,
			  const char **arguments)
{
	const struct sides *sides = sides_find();
	bool own = sides && sides->writes && field_of(sides, arguments[0]) >= 0;
	if (srv_is_late(link, arguments[2]))
		return;
	if (sides && !own) {
		write_turn(names[0], count, arguments, arguments[5]);
		say_number(link, ttl_ms(sides->until_ns));
	} else if (!sides && count > 7 && strcmp(arguments[7], "1") == 0) {
		write_turn(names[0], count, arguments, arguments[5]);
		say_number(link, strcmp(srv_first_turn(names[0])->id, arguments[4]) == 0 ? 0 : 250);
	} else {
		sides_add(names[0], arguments[0], true, arguments[1]);
		write_turn(names[0], count, arguments, TAKEN_TEXT);
		say_nil(link);
	}
}

/* The readers that are left: until when the last of them reads; those that are over go. */
static int64_t last_reader_ns(struct sides *sides)
{
	int64_t last_ns = 0;
	for (int i = 0; i < FIELDS_MAX; i++) {
		if (sides->fields[i].owner[0] && sides->fields[i].until_ns <= sim_now_ns())
			sides->fields[i].owner[0] = '\0';
		if (sides->fields[i].owner[0] && sides->fields[i].until_ns > last_ns)
			last_ns = sides->fields[i].until_ns;
	}
	return last_ns;
}

/* To those that have no turn. */
static int tell_readers(const char *name, const char *channel, const char *message)
{
	char text[8];
	snprintf(text, sizeof(text), "%s%s", srv_first_turn(name) ? "0" : "", message);
	return srv_publish(channel, text);
}

static void sides_release(struct sim_link *link, const char **names, const char **arguments)
{
	struct sides *sides = sides_find();
	int field = field_of(sides, arguments[0]);
	const char *channel = arguments[1], *message = arguments[2];
	if (field < 0) {
		tell_readers(names[0], channel, message);
		say_nil(link);
		return;
	}
	sides->fields[field].owner[0] = '\0';
	sides->fields[field].until_ns = 0;
	if (sides->writes && strcmp(message, READS) == 0) {
		say_number(link, 0);
		return;
	}
	int64_t last_ns = last_reader_ns(sides), whole_ns = sides->until_ns;
	if (last_ns == 0) {
		memset(sides, 0, sizeof(*sides));
		say_number(link, srv_give_turn(names[0], channel, message, true));
		return;
	}
	sides->until_ns = last_ns;
	if (!sides->writes && whole_ns - last_ns > 1000 * SIM_MS) {
		say_number(link, srv_give_turn(names[0], channel, message, true));
	} else if (!sides->writes) {
		say_number(link, 0);
	} else {
		sides->writes = false;
		say_number(link, tell_readers(names[0], channel, message));
	}
}

bool srv_sides_renew(const char *name, const char *owner, const char *lease_ms)
{
	struct sides *sides = sides_find();
	if (!sides || strcmp(sides->name, name) != 0 || field_of(sides, owner) < 0)
		return false;
	if (strcmp(lease_ms, LOOK) != 0 && sides->until_ns < ends_ns(lease_ms))
		sides->until_ns = ends_ns(lease_ms);
	return true;
}

static bool reader_renew(const char *name, const char *owner, const char *lease_ms)
{
	struct sides *sides = sides_find();
	int field = field_of(sides, owner);
	if (field < 0 || sides->fields[field].until_ns <= sim_now_ns())
		return false;
	if (strcmp(lease_ms, LOOK) != 0 && sides->fields[field].until_ns < ends_ns(lease_ms))
		sides->fields[field].until_ns = ends_ns(lease_ms);
	return srv_sides_renew(name, owner, lease_ms);
}

static void read_renew(struct sim_link *link, const char **names, size_t count,
		       const char **arguments)
{
	srv_say(link, "*%zu\r\n", count / 2);
	for (size_t i = 0; i < count; i += 2)
		say_number(link, reader_renew(names[i], arguments[i], arguments[i + 1]));
}

/* ---- semaphores ---- */

static void semaphore_acquire(struct sim_link *link, const char **names, const char **arguments)
{
	struct string *count = string_find(names[0]);
	int64_t wanted = atoll(arguments[0]), all = atoll(arguments[2]);
	if (string_find(names[1])) {
		say_nil(link);
		return;
	}
	if (srv_is_late(link, arguments[1]))
		return;
	if (!count && all > 0) {
		string_set(names[0], all, SIM_NEVER);
		count = string_find(names[0]);
	}
	if (!count || count->value < wanted) {
		say_number(link, -1);
		return;
	}
	srv_check_grant(names[1]);
	count->value -= wanted;
	if (strcmp(names[1], names[2]) != 0)
		string_delete(names[2]);
	string_set(names[1], wanted, sim_now_ns() + 60 * RECORD_MS * SIM_MS);
	say_nil(link);
}

static int tell_count(const char *channel, int64_t count)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRId64, count);
	return count > 0 ? srv_publish(channel, text) : 0;
}

/* Where there is none, it is added to arguments[4]. */
static void semaphore_add(struct sim_link *link, const char **names, const char **arguments)
{
	const struct string *done = string_find(names[1]), *count = string_find(names[0]);
	if (done) {
		say_number(link, done->value);
		return;
	}
	if (srv_is_late(link, arguments[0]))
		return;
	int64_t sum = (count ? count->value : atoll(arguments[4])) + atoll(arguments[2]);
	string_delete(names[2]);
	string_set(names[0], sum, SIM_NEVER);
	string_set(names[1], 1, sim_now_ns() + RECORD_MS * SIM_MS);
	tell_count(arguments[1], sum);
	say_number(link, 1);
}

static void semaphore_undo(struct sim_link *link, const char **names, const char **arguments)
{
	struct string *count = string_find(names[0]);
	const struct string *taken = string_find(names[1]);
	if (!taken) {
		srv_publish(arguments[0], "0");
		say_nil(link);
		return;
	}
	if (count)
		count->value += taken->value;
	string_delete(names[1]);
	say_number(link, count ? tell_count(arguments[0], count->value) : 0);
}

bool srv_run_kind(int script, struct sim_link *link, const char **names, size_t count,
		  const char **arguments)
{
	if (script == LK__SCRIPT_FENCED_ACQUIRE)
		fenced_acquire(link, names, count, arguments);
	else if (script == LK__SCRIPT_RW_READ_ACQUIRE)
		read_acquire(link, names, arguments);
	else if (script == LK__SCRIPT_RW_WRITE_ACQUIRE)
		write_acquire(link, names, count, arguments);
	else if (script == LK__SCRIPT_RW_RELEASE)
		sides_release(link, names, arguments);
	else if (script == LK__SCRIPT_RW_READ_RENEW)
		read_renew(link, names, count, arguments);
	else if (script == LK__SCRIPT_SEMAPHORE_ACQUIRE)
		semaphore_acquire(link, names, arguments);
	else if (script == LK__SCRIPT_SEMAPHORE_ADD)
		semaphore_add(link, names, arguments);
	else if (script == LK__SCRIPT_SEMAPHORE_UNDO)
		semaphore_undo(link, names, arguments);
	else
		return false;
	return true;
}
