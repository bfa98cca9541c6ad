#include "fixture.h"

#include <stdarg.h>

struct server server, other_server;

int start_server(void **state)
{
	server_start(&server, NULL);
	return 0;
}

int stop_server(void **state)
{
	server_stop(&server);
	return 0;
}

int start_both(void **state)
{
	server_start(&other_server, NULL);
	return start_server(state);
}

int stop_both(void **state)
{
	server_stop(&other_server);
	return stop_server(state);
}

static size_t channels(void)
{
	redisReply *reply = redis_ask(&server, "PUBSUB CHANNELS");
	size_t count = reply->elements;
	freeReplyObject(reply);
	return count;
}

/* What clients of failed tests have left open is no fault of later tests. */
static size_t orphans, orphan_channels;

static bool nothing_left(void)
{
	return redis_integer(&server, "DBSIZE") == 0 && channels() <= orphan_channels &&
	       redis_clients(&server, "lockkeeper") <= orphans;
}

/* A line for each of the first keys: its name, type, time to live and value. */
static const char describe_keys[] =
	"local lines = {} "
	"local ask = {hash = {'HGETALL'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, "
	"zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, string = {'GET'}} "
	"for _, key in ipairs(redis.call('KEYS', '*')) do "
	"local type = redis.call('TYPE', key).ok local words = ask[type] local value "
	"if words then value = redis.call(words[1], key, unpack(words, 2)) "
	"if value and type ~= 'string' then value = table.concat(value, ' ') end end "
	"lines[#lines + 1] = string.format('%s: %s, ttl %d ms: %s', key, type, "
	"redis.call('PTTL', key), tostring(value)) "
	"if #lines == 20 then break end end return lines";

static void show_keys(void)
{
	redisReply *lines = redis_ask(&server, "EVAL %s 0", describe_keys);
	for (size_t i = 0; i < lines->elements; i++)
		print_error("left behind: %s\n", lines->element[i]->str);
	freeReplyObject(lines);
}

int check_nothing_left(void **state)
{
	char left[128];
	if (!server.pid)
		server_start_again(&server); /* the test failed while it had killed it */
	server_resume(&server);
	bool clean = false;
	/* One look decides: a connector that is told too late to stop shows for a moment. */
	for (int64_t end_ms = now_ms() + slow_ms(8000); !clean && now_ms() < end_ms; sleep_ms(2))
		clean = nothing_left();
	snprintf(left, sizeof(left), "left behind: %lld keys, %zu channels, %zu connections",
		 redis_integer(&server, "DBSIZE"), channels(),
		 redis_clients(&server, "lockkeeper") - orphans);
	if (!clean)
		show_keys();
	redis_do(&server, "FLUSHALL");
	orphan_channels = channels();
	orphans = redis_clients(&server, "lockkeeper");
	if (!clean)
		check_fail(__FILE__, __LINE__, "%s", left);
	return 0;
}

int check_only_records_left(void **state)
{
	long long lasting = redis_integer(
		&server, "EVAL %s 0",
		"local lasting = 0 for _, key in ipairs(redis.call('KEYS', 'lockkeeper_sc:*')) do "
		"local ttl = redis.call('PTTL', key) if ttl < 0 or ttl > 3700000 then "
		"lasting = lasting + 1 end redis.call('DEL', key) end return lasting");
	check_nothing_left(state);
	check_int(lasting, ==, 0);
	return 0;
}

static void set_options(lk_config *config, const char *options)
{
	char text[512];
	char *rest = text;
	snprintf(text, sizeof(text), "%s", options);
	for (char *name; (name = strtok_r(rest, " ", &rest));) {
		char *value = strchr(name, '=');
		check(value != NULL);
		*value++ = '\0';
		expect(0, lk_config_set(config, name, value, &err));
	}
}

static lk_client *open_at(const char *url, const char *options, bool threadless)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", url, &err));
	/* Nothing but its locks is to be left behind, and its commands are counted. */
	expect(0, lk_config_set(config, "client_record", "off", &err));
	set_options(config, options);
	if (threadless)
		lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	if (threadless)
		program_add(client);
	lk_config_free(config);
	return client;
}

lk_client *open_client_at(const char *url, const char *options)
{
	return open_at(url, options, false);
}

lk_client *open_driven_at(const char *url, const char *options)
{
	return open_at(url, options, program_drives());
}

lk_client *open_driven(const char *options, ...)
{
	char text[512];
	va_list values;
	va_start(values, options);
	vsnprintf(text, sizeof(text), options, values);
	va_end(values);
	return open_driven_at(server.url_unix, text);
}

lk_client *open_client(void)
{
	return open_client_at(server.url_unix, "");
}

const char *command_limit(int64_t ms)
{
	static char text[48];
	snprintf(text, sizeof(text), "command_timeout_ms=%lld", slow_ms(ms));
	return text;
}

lk_client *open_client_with(const char *options, ...)
{
	char text[512];
	va_list values;
	va_start(values, options);
	vsnprintf(text, sizeof(text), options, values);
	va_end(values);
	return open_client_at(server.url_unix, text);
}

lk_client *close_client(lk_client *client)
{
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	return lk_client_free(client);
}

lk_client *drop_client(lk_client *client)
{
	expect(0, lk_client_close(client, LK_CLOSE_RELEASE, &err));
	return lk_client_free(client);
}

void client_ends(lk_client **client)
{
	close_client(*client);
}

void lock_ends(lk_lock **lock)
{
	lk_lock_free(*lock);
}

void permits_end(lk_permit_semaphore **permits)
{
	lk_permit_semaphore_free(*permits);
}

void semaphore_ends(lk_semaphore **semaphore)
{
	lk_semaphore_free(*semaphore);
}

void latch_ends(lk_latch **latch)
{
	lk_latch_free(*latch);
}

void watch_ends(lk_watch **watch)
{
	lk_watch_free(*watch);
}

lk_lock *new_lock(lk_client *client, const char *name)
{
	lk_lock *lock = NULL;
	expect(0, lk_lock_new(&lock, client, name, strlen(name), &err));
	return lock;
}

void stranger_takes(const char *name, int64_t ttl_ms)
{
	redis_do(&server, "HSET %s 12345678-1234-4234-8234-123456789abc:1 1", name);
	redis_do(&server, "PEXPIRE %s %lld", name, (long long)ttl_ms);
}

void stranger_releases(const char *name)
{
	redis_do(&server, "EVAL %s 1 %s",
		 "redis.call('DEL', KEYS[1])"
		 " redis.call('PUBLISH', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')",
		 name);
}

int is_locked(lk_lock *lock, lk_error *error)
{
	int locked = -1;
	int rc = lk_lock_is_locked(lock, &locked, error);
	return rc < 0 ? rc : locked;
}

int is_held_by(lk_lock *lock, const char *field, lk_error *error)
{
	int held = -1;
	int rc = lk_lock_is_held_by(lock, field, &held, error);
	return rc < 0 ? rc : held;
}

int not_held(lk_lock *lock, lk_error *error)
{
	if (lk_lock_is_held(lock, NULL, error))
		return 0;
	int why = error->code;
	check_int(lk_lock_hold_count(lock, NULL, error) == 0 || why == LK_ELOST, ==, 1);
	check_int(error->code, ==, why);
	return why;
}

int64_t remaining(lk_lock *lock, const char *owner)
{
	int64_t ms = INT64_MIN;
	int code = lk_lock_remaining_ms(lock, owner, &ms, &err);
	return code < 0 ? code : ms;
}

lk_stats stats_of(lk_client *client)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	expect(0, lk_client_stats(client, &stats, &err));
	return stats;
}

int next_event(lk_client *client, lk_event *event, int64_t limit_ms)
{
	*event = (lk_event)LK_EVENT_INIT;
	int answer = lk_event_wait(client, event, slow_ms(limit_ms), NULL, &err);
	check_int(answer, >=, 0);
	return answer == 1 ? event->type : 0;
}
