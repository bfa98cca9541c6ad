/* The key in which a client tells who it is: when it is there, what it says, who can read it. */
#include <unistd.h>

#include "fixture.h"

#define RECORDS "lockkeeper_client:*"

static long long records(void)
{
	return redis_integer(&server, "EVAL %s 0", "return #redis.call('KEYS', '*" RECORDS "')");
}

/* The text of the only record; false when there is none. */
static bool record_text(char *text_out, size_t size)
{
	redisReply *reply = redis_ask(&server, "EVAL %s 0",
				      "return redis.call('GET', redis.call('KEYS', '*" RECORDS
				      "')[1] or '') or ''");
	snprintf(text_out, size, "%s", reply->str);
	freeReplyObject(reply);
	return *text_out != '\0';
}

static void take(lk_client *client, const char *name, int64_t lease_ms)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = lease_ms;
	own_lock *lock = new_lock(client, name);
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
}

static void test_the_record_lasts_as_long_as_the_client(void **state)
{
	char text[1024], host[65] = "", wanted[128];
	lk_client *client = open_client_with("client_record=full client_program=tester");
	check_int(records(), ==, 0);
	take(client, "job", 0);
	wait_until(records() == 1, 5000);
	check(record_text(text, sizeof(text)));
	gethostname(host, sizeof(host) - 1);
	snprintf(wanted, sizeof(wanted), "id=%s\nhost=%s\npid=%ld\nsince=", lk_client_id(client),
		 host, (long)getpid());
	check(!strncmp(text, wanted, strlen(wanted)));
	check(strstr(text, "\nuser=") && strstr(text, "\nprogram=tester\n"));
	drop_client(client);
	check_int(records(), ==, 0);
}

/* Whoever sees the holder finds the record: it went before the try. */
static void test_it_is_there_as_soon_as_the_lock(void **state)
{
	for (int kind = 0; kind < 4; kind++) {
		lk_lock *lock = NULL;
		lk_client *client = open_client_with("client_record=full");
		if (kind == 0)
			expect(0, lk_lock_new(&lock, client, "job", LK_STRLEN, &err));
		else if (kind == 1)
			expect(0, lk_fair_lock_new(&lock, client, "job", LK_STRLEN, &err));
		else if (kind == 2)
			expect(0, lk_plain_lock_new(&lock, client, "job", LK_STRLEN, NULL, &err));
		else
			expect(0, lk_write_lock_new(&lock, client, "job", LK_STRLEN, NULL, &err));
		expect(0, lk_lock_acquire(lock, 0, NULL, &err));
		check_int(records(), ==, 1);
		lk_lock_free(lock);
		drop_client(client);
		check_int(records(), ==, 0);
	}
}

static void test_it_is_there_as_soon_as_several_locks(void **state)
{
	lk_lock *parts[2], *both = NULL;
	lk_client *client = open_client_with("client_record=full");
	parts[0] = new_lock(client, "one");
	parts[1] = new_lock(client, "two");
	expect(0, lk_multi_lock_new(&both, parts, 2, &err));
	expect(0, lk_lock_acquire(both, 0, NULL, &err));
	check_int(records(), ==, 1);
	lk_lock_free(both);
	lk_lock_free(parts[0]);
	lk_lock_free(parts[1]);
	drop_client(client);
}

static void test_it_is_there_as_soon_as_a_permit(void **state)
{
	lk_permit_semaphore *semaphore = NULL;
	lk_permit permit;
	lk_client *client = open_client_with("client_record=full");
	expect(0, lk_permit_semaphore_new(&semaphore, client, "slots", LK_STRLEN, NULL, &err));
	expect(1, lk_permit_semaphore_try_set(semaphore, 1, &err));
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &permit, 0, NULL, &err));
	check_int(records(), ==, 1);
	expect(0, lk_permit_semaphore_release(semaphore, &permit, 1, &err));
	expect(1, lk_permit_semaphore_delete(semaphore, &err));
	lk_permit_semaphore_free(semaphore);
	drop_client(client);
}

/* In the server's log of commands, the newest first: the record before the script of the lock. */
static bool record_came_first(void)
{
	redisReply *log = redis_ask(&server, "SLOWLOG GET 64");
	size_t record = 0, script = 0;
	for (size_t i = 0; i < log->elements; i++) {
		const redisReply *words = log->element[i]->element[3];
		if (strcmp(words->element[0]->str, "EVALSHA") == 0)
			script = i;
		else if (strcmp(words->element[0]->str, "SET") == 0)
			record = i;
	}
	freeReplyObject(log);
	return record > script;
}

static void test_it_goes_before_an_asynchronous_call(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *queue = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	lk_client *client = open_client_with("client_record=full");
	lk_lock *lock = new_lock(client, "job");
	options.owner = "task";
	redis_do(&server, "CONFIG SET slowlog-log-slower-than 0");
	redis_do(&server, "SLOWLOG RESET");
	expect(0, lk_queue_new(&queue, 0, &err));
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
	expect(1, lk_queue_take(queue, &got, 1, 20000, &err));
	check_int(got.error.code, ==, 0);
	check(record_came_first());
	redis_do(&server, "CONFIG SET slowlog-log-slower-than 10000");
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	drop_client(client);
}

/* For a command that takes a lock for its caller. */
static void test_another_process_can_be_named(void **state)
{
	char text[1024];
	lk_client *client = open_client_with("client_record=full client_pid=4711");
	take(client, "job", 0);
	check(record_text(text, sizeof(text)));
	check(strstr(text, "\npid=4711\n") != NULL);
	drop_client(client);
}

static void test_one_command_per_client(void **state)
{
	own_client *client = open_client_with("client_record=full");
	own_lock *lock = new_lock(client, "job");
	long long before = redis_info(&server, "commandstats", "cmdstat_set:calls=");
	for (int i = 0; i < 200; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	wait_until(records() == 1, 5000);
	check_int(redis_info(&server, "commandstats", "cmdstat_set:calls=") - before, ==, 1);
}

static void test_kept_alive_while_something_is_held(void **state)
{
	int64_t watchdog_ms = slow_ms(200);
	lk_client *client = open_client_with("client_record=short watchdog_ms=%lld",
					     (long long)watchdog_ms);
	take(client, "job", 0);
	for (int64_t end_ms = now_ms() + 8 * watchdog_ms; now_ms() < end_ms;) {
		wait_until(records() == 1, 5000);
		sleep_ms(5);
	}
	drop_client(client);
}

static void test_the_record_ends_with_a_client_that_dies(void **state)
{
	own_client *client = open_client_with("client_record=short watchdog_ms=100");
	own_lock *lock = new_lock(client, "job");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	wait_until(records() == 1, 5000);
	expect(0, lk_lock_release(lock, NULL, &err));
	wait_until(records() == 0, 5000); /* idle: as one that is gone */
}

static void test_stays_for_a_lease_that_is_left_behind(void **state)
{
	lk_client *client = open_client_with("client_record=short");
	take(client, "job", 300000);
	expect(0, lk_client_close(client, LK_CLOSE_ABANDON, &err));
	lk_client_free(client);
	check_int(records(), ==, 1);
	long long ttl_ms = redis_integer(&server, "EVAL %s 0",
					 "return redis.call('PTTL', redis.call('KEYS', '" RECORDS
					 "')[1])");
	check_int(ttl_ms, >, 240000);
	check_int(ttl_ms, <=, 300000);
	redis_do(&server, "FLUSHALL");
}

static void test_the_record_can_be_short_or_off(void **state)
{
	char text[1024];
	lk_client *client = open_client_with("client_record=short client_program=secret");
	take(client, "job", 0);
	wait_until(records() == 1, 5000);
	check(record_text(text, sizeof(text)));
	check(!strstr(text, "user=") && !strstr(text, "secret") && !strstr(text, "note="));
	drop_client(client);
	client = open_client_with("client_record=off watchdog_ms=%lld", slow_ms(150));
	take(client, "job", 0);
	sleep_ms(slow_ms(300));
	check_int(records(), ==, 0);
	drop_client(client);
	client = open_client();
	lk_config *config = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(LK_EINVAL, lk_config_set(config, "client_record", "loud", &err));
	check(strstr(err.message, "loud") && strstr(err.message, "off, short, full"));
	lk_config_free(config);
	close_client(client);
}

/* A config with this note, or the reason why there is none. */
static const char *note_fault(const char *note)
{
	static char message[sizeof(err.message)];
	lk_config *config = NULL;
	expect(0, lk_config_new(&config, &err));
	err.message[0] = '\0';
	int rc = lk_config_set(config, "note", note, &err);
	check_int(rc, ==, *err.message ? LK_EINVAL : 0);
	snprintf(message, sizeof(message), "%s", err.message);
	lk_config_free(config);
	return message;
}

static void test_a_note_is_text_of_256_bytes(void **state)
{
	static const char *const controls[] = {"a\nb", "\t", "\033[2J", "\x7f", "a\xc2\x85"};
	static const char *const bytes[] = {"\xff", "\xc3", "\xc0\x80", "a\xed\xa0\x80",
					    "\xf4\x90\x80\x80"};
	char text[258];
	memset(text, 'x', sizeof(text));
	text[257] = '\0';
	check(strstr(note_fault(text), "note: \"x") && strstr(err.message, "longer than 256"));
	text[256] = '\0';
	check(!*note_fault(text));
	check(!*note_fault("") &&
	      !*note_fault(" 100 % \"a\" \\ \xc3\xa9\xc2\xa0 \xf0\x9f\x94\x92"));
	for (size_t i = 0; i < COUNT(controls); i++)
		check(strstr(note_fault(controls[i]), "has a control character"));
	for (size_t i = 0; i < COUNT(bytes); i++)
		check(strstr(note_fault(bytes[i]), "is not UTF-8"));
}

/* It costs no command: it stands in the record. */
static void test_a_note_stands_in_the_record(void **state)
{
	static const char *const kinds[] = {"short", "full"};
	char text[2048], note[257], wanted[300];
	memset(note, '%', sizeof(note));
	note[256] = '\0';
	snprintf(wanted, sizeof(wanted), "\nnote=%s\n", note);
	for (size_t i = 0; i < COUNT(kinds); i++) {
		lk_config *config = NULL;
		lk_client *client = NULL;
		lk_scan *scan = NULL;
		lk_lock_info info = LK_LOCK_INFO_INIT;
		lk_owner_info owner = LK_OWNER_INFO_INIT;
		expect(0, lk_config_new(&config, &err));
		expect(0, lk_config_set(config, "url", server.url_unix, &err));
		expect(0, lk_config_set(config, "client_record", kinds[i], &err));
		expect(0, lk_config_set(config, "note", note, &err));
		expect(0, lk_client_new(&client, config, &err));
		lk_config_free(config);
		take(client, "job", 0);
		check(record_text(text, sizeof(text)) && strstr(text, wanted));
		expect(0, lk_scan_new(&scan, client, NULL, &err));
		expect(0, lk_scan_show(scan, "job", 3, &info, &err));
		expect(1, lk_scan_owner(scan, info.holders[0].field, info.holders[0].field_size,
					&owner, &err));
		check(!strcmp(owner.note, note));
		lk_scan_free(scan);
		drop_client(client);
		check_int(records(), ==, 0);
	}
}

/* The note that a look finds for the holder of a lock; "" for none. */
static const char *note_seen(lk_client *client, const char *name)
{
	static char note[300];
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(0, lk_scan_show(scan, name, LK_STRLEN, &info, &err));
	if (info.holder_count > 0)
		lk_scan_owner(scan, info.holders[0].field, info.holders[0].field_size, &owner,
			      &err);
	snprintf(note, sizeof(note), "%s", owner.note);
	lk_scan_free(scan);
	return note;
}

static bool note_is(lk_client *client, const char *name, const char *note)
{
	return strcmp(note_seen(client, name), note) == 0;
}

/* Each hold of a client has its own, and one without has the client's. */
static void test_a_hold_has_a_note_of_its_own(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_lock *lock[3];
	lk_config *config = NULL;
	lk_client *client = NULL;
	char name[8];
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	expect(0, lk_config_set(config, "note", "the client's", &err));
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	for (size_t i = 0; i < COUNT(lock); i++) {
		char note[16];
		snprintf(name, sizeof(name), "job%zu", i);
		snprintf(note, sizeof(note), "note %zu", i);
		if (i == 2)
			expect(0, lk_fair_lock_new(&lock[i], client, name, LK_STRLEN, &err));
		else
			lock[i] = new_lock(client, name);
		options.note = i == 1 ? NULL : note;
		expect(0, lk_lock_acquire(lock[i], -1, &options, &err));
		memset(note, 'x', sizeof(note) - 1); /* it was copied */
	}
	wait_until(note_is(client, "job0", "note 0"), 5000);
	wait_until(note_is(client, "job2", "note 2"), 5000);
	check(note_is(client, "job1", "the client's"));
	for (size_t i = 0; i < COUNT(lock); i++) {
		expect(0, lk_lock_release(lock[i], NULL, &err));
		expect(0, lk_lock_acquire(lock[i], -1, NULL, &err));
		wait_until(note_is(client, "job0", "the client's"), 5000);
		lk_lock_free(lock[i]);
	}
	drop_client(client);
}

/* Passed on in memory, the same number has another note, or none. */
static void test_a_note_goes_with_its_hold_in_memory(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_queue *queue = NULL;
	lk_completion got = LK_COMPLETION_INIT;
	char one[] = "one", two[] = "two";
	lk_client *client = open_client_with("client_record=full");
	lk_lock *lock = new_lock(client, "job");
	expect(0, lk_queue_new(&queue, 0, &err));
	options.owner = "a";
	options.note = one;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	options.owner = "b";
	options.note = two;
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
	options.owner = "c";
	options.note = NULL;
	expect(0,
	       lk_queue_start(queue,
			      request_of(ACQUIRE, .lock = lock, .wait_ms = -1, .acquire = &options),
			      NULL, &err));
	memset(two, 'x', sizeof(two) - 1); /* the request has a copy */
	wait_until(note_is(client, "job", "one"), 5000);
	static const char *const owners[] = {"a", "b", "c"}, *const notes[] = {"one", "two", ""};
	for (int i = 0; i < 3; i++) {
		lk_release_options release = LK_RELEASE_OPTIONS_INIT;
		wait_until(note_is(client, "job", notes[i]), 5000);
		release.owner = owners[i];
		expect(0, lk_lock_release(lock, &release, &err));
		if (i < 2)
			expect(1, lk_queue_take(queue, &got, 1, 20000, &err));
	}
	expect(0, lk_queue_free(queue, &err));
	lk_lock_free(lock);
	drop_client(client);
}

/* The record shows the newest 64; a permit's is found by its id. */
static void test_a_permit_has_a_note_and_64_holds_do(void **state)
{
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	lk_permit_semaphore *semaphore = NULL;
	lk_permit permit;
	char name[16], note[257];
	lk_client *client = open_client_with("client_record=full");
	memset(note, '%', sizeof(note));
	note[256] = '\0';
	options.note = note;
	for (int i = 0; i < 65; i++) {
		snprintf(name, sizeof(name), "job%d", i);
		lk_lock *lock = new_lock(client, name);
		expect(0, lk_lock_acquire(lock, -1, &options, &err));
		lk_lock_free(lock);
	}
	wait_until(note_is(client, "job64", note), 5000);
	check(note_is(client, "job1", note) && note_is(client, "job0", ""));
	expect(0, lk_permit_semaphore_new(&semaphore, client, "slots", LK_STRLEN, NULL, &err));
	expect(1, lk_permit_semaphore_try_set(semaphore, 1, &err));
	options.note = "a permit's";
	expect(0, lk_permit_semaphore_acquire(semaphore, 1, &permit, 0, &options, &err));
	wait_until(note_is(client, "slots", "a permit's"), 5000);
	expect(0, lk_permit_semaphore_release(semaphore, &permit, 1, &err));
	lk_permit_semaphore_free(semaphore);
	drop_client(client);
	redis_do(&server, "FLUSHALL");
}

static void test_a_note_of_a_hold_is_checked(void **state)
{
	static const char *const bad[] = {"a\nb", "\xff", "\033[2J"};
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	char text[258];
	lk_client *client = open_client_with("client_record=full");
	lk_lock *lock = new_lock(client, "job");
	memset(text, 'x', sizeof(text));
	text[257] = '\0';
	options.note = text;
	expect(LK_EINVAL, lk_lock_acquire(lock, -1, &options, &err));
	check(!strcmp(err.message, "lk_lock_acquire: note is longer than 256 bytes"));
	for (size_t i = 0; i < COUNT(bad); i++) {
		options.note = bad[i];
		expect(LK_EINVAL, lk_lock_acquire(lock, 0, &options, &err));
		check(strstr(err.message, "lk_lock_acquire: note ") != NULL);
	}
	check_int(records(), ==, 0);
	lk_lock_free(lock);
	drop_client(client);
}

static void test_one_line_per_value(void **state)
{
	char text[1024];
	lk_config *config = NULL;
	lk_client *client = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	expect(0, lk_config_set(config, "client_program", "a\nhost=evil\033[2J", &err));
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	take(client, "job", 0);
	wait_until(records() == 1, 5000);
	check(record_text(text, sizeof(text)));
	check(strstr(text, "program=a?host=evil?[2J\n") != NULL);
	drop_client(client);
}

/* How often the newest kind of refusal has come. */
static long long refusals(void)
{
	redisReply *log = redis_ask(&server, "ACL LOG");
	long long count = log->elements ? log->element[0]->element[1]->integer : 0;
	freeReplyObject(log);
	return count;
}

static void test_a_refused_record_fails_no_call(void **state)
{
	redis_do(&server, "ACL SETUSER narrow on >pw ~job &* +@all");
	char url[512];
	snprintf(url, sizeof(url), "unix://narrow:pw@%s", server.url_unix + strlen("unix://"));
	lk_client *client = open_client_at(url, "client_record=full watchdog_ms=150");
	redis_do(&server, "ACL LOG RESET");
	take(client, "job", 0);
	wait_until(refusals() > 0, 5000);
	int64_t renewals = (int64_t)stats_of(client).renewals;
	wait_until((int64_t)stats_of(client).renewals > renewals + 10, 10000);
	check_int(refusals(), ==, 1);
	drop_client(client);
	redis_do(&server, "ACL DELUSER narrow");
}

static void test_reads_the_record_of_an_owner(void **state)
{
	lk_client *client = open_client_with("client_record=full client_program=tester");
	lk_client *other = open_client();
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	take(client, "job", 0);
	stranger_takes("strange", slow_ms(60000));
	wait_until(records() == 1, 5000);
	expect(0, lk_scan_new(&scan, other, NULL, &err));
	expect(0, lk_scan_show(scan, "job", 3, &info, &err));
	expect(1, lk_scan_owner(scan, info.holders[0].field, info.holders[0].field_size, &owner,
				&err));
	check(!strcmp(owner.client_id, lk_client_id(client)));
	check(!strcmp(owner.program, "tester"));
	check_int(owner.pid, ==, getpid());
	check(*owner.host && *owner.user);
	long long now = redis_integer(&server, "EVAL %s 0", "return redis.call('TIME')[1] * 1000");
	check_int(owner.since_ms, >, now - 600000);
	check_int(owner.since_ms, <, now + 2000);
	expect(0, lk_scan_show(scan, "strange", 7, &info, &err));
	expect(0, lk_scan_owner(scan, info.holders[0].field, info.holders[0].field_size, &owner,
				&err));
	expect(0, lk_scan_owner(scan, "x", 1, &owner, &err));
	expect(0, lk_scan_owner(scan, "", 0, &owner, &err));
	int answer;
	while ((answer = lk_scan_next(scan, &info, &err)) == 1)
		check(!strstr(info.name, "lockkeeper_client"));
	expect(0, answer);
	lk_scan_free(scan);
	drop_client(client);
	close_client(other);
	stranger_releases("strange");
}

#define ID "12345678-1234-4234-8234-123456789abc"
#define RECORD "lockkeeper_client:12345678-1234-4234"

/* Whoever may write keys can write this one. */
static void test_a_forged_record_is_harmless(void **state)
{
	static const char *const texts[] = {"", "\n\n", "host",
					    "pid=x\nsince=", "host=\n=\npid=-1"};
	static const char *const others[] = {
		"",          "id=",
		"id=x\n",    ("id=" ID "0"),
		("id=2" ID), "id=12345678-1234-4234-8234-123456789abd"};
	own_client *client = open_client();
	for (size_t i = 0; i < COUNT(texts); i++) {
		lk_scan *scan = NULL;
		lk_owner_info owner = LK_OWNER_INFO_INIT;
		redis_do(&server, "SET %s id=%s\n%s", RECORD, ID, texts[i]);
		expect(0, lk_scan_new(&scan, client, NULL, &err));
		expect(1, lk_scan_owner(scan, ID ":1", strlen(ID ":1"), &owner, &err));
		check(!*owner.user && !*owner.program && !*owner.note && owner.pid <= 0 &&
		      !owner.since_ms);
		lk_scan_free(scan);
	}
	for (size_t i = 0; i < COUNT(others); i++) {
		lk_scan *scan = NULL;
		lk_owner_info owner = LK_OWNER_INFO_INIT;
		redis_do(&server, "SET %s %b", RECORD, others[i], strlen(others[i]));
		expect(0, lk_scan_new(&scan, client, NULL, &err));
		expect(0, lk_scan_owner(scan, ID ":1", strlen(ID ":1"), &owner, &err));
		lk_scan_free(scan);
	}
	redis_do(&server, "DEL %s", RECORD);
	redis_do(&server, "RPUSH %s x", RECORD);
	lk_scan *scan = NULL;
	lk_owner_info owner = LK_OWNER_INFO_INIT;
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(0, lk_scan_owner(scan, ID ":1", strlen(ID ":1"), &owner, &err));
	lk_scan_free(scan);
	redis_do(&server, "FLUSHALL");
}

static void test_carries_the_prefix(void **state)
{
	char key[128];
	lk_client *client = open_client_with("client_record=full key_prefix=app:");
	lk_scan *scan = NULL;
	lk_lock_info info = LK_LOCK_INFO_INIT;
	take(client, "job", 0);
	snprintf(key, sizeof(key), "app:lockkeeper_client:%.18s", lk_client_id(client));
	wait_until(redis_integer(&server, "EXISTS %s", key) == 1, 5000);
	expect(0, lk_scan_new(&scan, client, NULL, &err));
	expect(1, lk_scan_next(scan, &info, &err));
	check(!strcmp(info.name, "job"));
	expect(0, lk_scan_next(scan, &info, &err));
	lk_scan_free(scan);
	drop_client(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_the_record_lasts_as_long_as_the_client),
		api_test(test_it_is_there_as_soon_as_the_lock),
		api_test(test_it_is_there_as_soon_as_several_locks),
		counter_test(test_it_is_there_as_soon_as_a_permit),
		api_test(test_it_goes_before_an_asynchronous_call),
		api_test(test_another_process_can_be_named),
		api_test(test_one_command_per_client),
		api_test(test_kept_alive_while_something_is_held),
		api_test(test_the_record_ends_with_a_client_that_dies),
		api_test(test_stays_for_a_lease_that_is_left_behind),
		api_test(test_the_record_can_be_short_or_off),
		api_test(test_a_note_is_text_of_256_bytes),
		api_test(test_a_note_stands_in_the_record),
		api_test(test_a_hold_has_a_note_of_its_own),
		api_test(test_a_note_goes_with_its_hold_in_memory),
		api_test(test_a_permit_has_a_note_and_64_holds_do),
		api_test(test_a_note_of_a_hold_is_checked),
		api_test(test_one_line_per_value),
		api_test(test_a_refused_record_fails_no_call),
		api_test(test_reads_the_record_of_an_owner),
		api_test(test_a_forged_record_is_harmless),
		api_test(test_carries_the_prefix),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
