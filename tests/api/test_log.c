/* What the log callback is given, at LK_LOG_DEBUG and below. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "fixture.h"

#define LINES_MAX 2000
#define PASSWORD "a-secret-that-nobody-logs"

struct diary {
	pthread_mutex_t mutex;
	size_t count;
	char *lines[LINES_MAX];
};

static void diary_take(void *context, int level, const char *line)
{
	struct diary *diary = context;
	pthread_mutex_lock(&diary->mutex);
	if (diary->count < LINES_MAX)
		diary->lines[diary->count++] = strdup(line);
	pthread_mutex_unlock(&diary->mutex);
}

/* How many lines have all of these texts, which "" ends. */
static size_t diary_count(struct diary *diary, const char *const *texts)
{
	size_t count = 0;
	pthread_mutex_lock(&diary->mutex);
	for (size_t i = 0; i < diary->count; i++) {
		bool all = true;
		for (const char *const *text = texts; **text; text++)
			all = all && strstr(diary->lines[i], *text);
		count += all;
	}
	pthread_mutex_unlock(&diary->mutex);
	return count;
}

#define lines_with(diary, ...) diary_count(diary, (const char *const[]){__VA_ARGS__, ""})

static void diary_free(struct diary *diary)
{
	for (size_t i = 0; i < diary->count; i++)
		free(diary->lines[i]);
	diary->count = 0;
}

static lk_client *open_logging(struct diary *diary, int level, const char *password)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	expect(0, lk_config_set(config, "client_record", "off", &err));
	if (password) {
		expect(0, lk_config_set(config, "username", "keeper", &err));
		expect(0, lk_config_set(config, "password", password, &err));
	}
	lk_config_set_log(config, level, diary_take, diary);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

/* What comes behind the last colon of the owner's field. */
static const char *number_of(lk_lock *lock, char field[LK_FIELD_SIZE])
{
	expect(0, lk_lock_export(lock, NULL, field, LK_FIELD_SIZE, &err));
	return strrchr(field, ':') + 1;
}

static void test_a_pair_is_told_step_by_step(void **state)
{
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	char field[LK_FIELD_SIZE], decision[64];
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *lock = new_lock(client, "told");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	snprintf(decision, sizeof(decision), "\"told\" number %s: ", number_of(lock, field));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	check_int(lines_with(&diary, "scripts/", "connecting"), ==, 1);
	check_int(lines_with(&diary, "scripts/", "connected"), ==, 1);
	check_int(lines_with(&diary, "> EVALSHA lock_acquire 1 told", field), ==, 1);
	check_int(lines_with(&diary, "< nil in", "EVALSHA lock_acquire 1 told", field), ==, 1);
	check_int(lines_with(&diary, "> EVALSHA lock_release 1 told", field), ==, 1);
	check_int(lines_with(&diary, decision, "connected: send a try"), ==, 1);
	check_int(lines_with(&diary, decision, "granted: grant"), ==, 1);
	check_int(lines_with(&diary, decision, "given up by its owner"), ==, 1);
	check_int(lines_with(&diary, "scripts/", "closed"), ==, 1);
	diary_free(&diary);
}

static void test_a_wait_and_its_message(void **state)
{
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *other = open_client(), *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *first = new_lock(other, "waited"), *lock = new_lock(client, "waited");
	expect(0, lk_lock_acquire(first, -1, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(lock, slow_ms(200), NULL, &err));
	expect(0, lk_lock_release(first, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(first);
	lk_lock_free(lock);
	close_client(other);
	close_client(client);
	check_int(lines_with(&diary, "\"waited\" number ", "busy (ttl "), >, 0);
	/* The lock's, and the one where it hears of its turn: */
	check_int(lines_with(&diary, "messages/", "> SUBSCRIBE redisson_lock__channel:{waited}"),
		  ==, 2);
	check_int(lines_with(&diary, "messages/", "[subscribe, redisson_lock__channel:{waited}"),
		  ==, 2);
	check_int(lines_with(&diary, "left by its caller (", "give up ("), ==, 1);
	diary_free(&diary);
}

/* A name may hold any byte: it takes no line of its own, and ends none. */
static void test_what_a_name_holds_is_one_line(void **state)
{
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *lock = NULL;
	expect(0, lk_lock_new(&lock, client, "two\nlines\0and more", 18, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	check_int(lines_with(&diary, "> EVALSHA lock_acquire 1 \"two?lines?and more\""), ==, 1);
	for (size_t i = 0; i < diary.count; i++)
		check(!strchr(diary.lines[i], '\n'));
	diary_free(&diary);
}

static void test_no_password_is_told(void **state)
{
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	redis_do(&server, "ACL SETUSER keeper reset on ~* &* +@all >%s", PASSWORD);
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, PASSWORD);
	lk_lock *lock = new_lock(client, "secret");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	check_int(lines_with(&diary, "lock_release"), >, 0);
	check_int(lines_with(&diary, PASSWORD), ==, 0);
	diary_free(&diary);
}

static void test_below_debug_a_pair_is_silent(void **state)
{
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *client = open_logging(&diary, LK_LOG_INFO, NULL);
	lk_lock *lock = new_lock(client, "silent");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	check_int(diary.count, ==, 0);
}

/* ---- a callback that takes its time ---- */

/* What a program shares between its threads and its log: Python's interpreter lock is such a
 * mutex. */
static pthread_mutex_t program = PTHREAD_MUTEX_INITIALIZER;
static atomic_int heard;

static void program_log(void *context, int level, const char *line)
{
	pthread_mutex_lock(&program);
	atomic_fetch_add(&heard, 1);
	pthread_mutex_unlock(&program);
}

static lk_client *open_told(lk_log_callback callback, int level, const char *options)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	expect(0, lk_config_set(config, "client_record", "off", &err));
	expect(0, lk_config_set(config, "watchdog_ms", options, &err));
	lk_config_set_log(config, level, callback, NULL);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	return client;
}

static void pairs_under_the_mutex(size_t index, void *argument)
{
	char name[32];
	snprintf(name, sizeof(name), "program-%zu", index % 2);
	own_lock *lock = new_lock(argument, name);
	for (int i = 0; i < 100; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		pthread_mutex_lock(&program);
		check(lk_lock_is_held(lock, NULL, &err) == 1);
		pthread_mutex_unlock(&program);
		expect(0, lk_lock_release(lock, NULL, &err));
	}
}

static void test_a_callback_may_wait_for_a_mutex_of_the_program(void **state)
{
	lk_client *client = open_told(program_log, LK_LOG_DEBUG, "30000");
	atomic_store(&heard, 0);
	struct threads threads;
	threads_start(&threads, 4, pairs_under_the_mutex, client);
	threads_join(&threads, 60000);
	close_client(client);
	check_int(atomic_load(&heard), >, 0);
}

static atomic_bool hangs;
static struct diary late = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void hang(void *context, int level, const char *line)
{
	while (atomic_load(&hangs))
		sleep_ms(1);
	diary_take(&late, level, line);
}

/* It hangs for three renewals and more lines than the queue has room for. */
static void test_a_callback_that_hangs_holds_up_no_renewal(void **state)
{
	int64_t left_ms;
	atomic_store(&hangs, true);
	lk_client *client = open_told(hang, LK_LOG_DEBUG, "1500");
	lk_lock *lock = new_lock(client, "kept"), *other = new_lock(client, "other");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	for (int i = 0; i < 500; i++) {
		expect(0, lk_lock_acquire(other, -1, NULL, &err));
		expect(0, lk_lock_release(other, NULL, &err));
	}
	wait_until(stats_of(client).renewals >= 3, slow_ms(20000));
	check_int(stats_of(client).lost, ==, 0);
	expect(0, lk_lock_remaining_ms(lock, NULL, &left_ms, &err));
	atomic_store(&hangs, false);
	wait_until(lines_with(&late, "log lines dropped") == 1, slow_ms(20000));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	lk_lock_free(other);
	close_client(client);
	check_int(lines_with(&late, "EVALSHA lock_release 1 kept"), >, 0); /* told again */
	diary_free(&late);
}

static void test_a_client_is_freed_though_its_callback_hangs(void **state)
{
	atomic_store(&hangs, true);
	lk_client *client = open_told(hang, LK_LOG_DEBUG, "30000");
	lk_lock *lock = new_lock(client, "hangs");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	int64_t began_ns = now_ns();
	expect(0, lk_client_close(client, LK_CLOSE_IF_IDLE, &err));
	lk_client_free(client);
	check_int((now_ns() - began_ns) / 1000000, <, slow_ms(10000)); /* 3 s: the command limit */
	size_t before = lines_with(&late, "connecting");
	atomic_store(&hangs, false);
	/* What it was given stays its own. */
	wait_until(lines_with(&late, "connecting") > before, slow_ms(20000));
}

static void test_lines_go_to_a_descriptor(void **state)
{
	int ends[2];
	char text[65536] = "";
	size_t used = 0;
	ssize_t size;
	lk_config *config = NULL;
	lk_client *client = NULL;
	check(pipe2(ends, O_CLOEXEC) == 0);
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_log_fd(config, LK_LOG_DEBUG, ends[1]);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	lk_lock *lock = new_lock(client, "piped");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	close(ends[1]);
	while ((size = read(ends[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)size;
	close(ends[0]);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		check(line[0] == '<' && strchr("3467", line[1]) && line[2] == '>');
	check(strstr(text, "EVALSHA lock_acquire 1 piped") != NULL);
}

/* Of a client without threads the program's own thread writes. */
static void test_a_descriptor_that_nobody_reads(void **state)
{
	int ends[2];
	lk_config *config = NULL;
	lk_client *client = NULL;
	sigset_t pending;
	check(pipe2(ends, O_CLOEXEC) == 0);
	close(ends[0]);
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_log_fd(config, LK_LOG_DEBUG, ends[1]);
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	for (int i = 0; i < 20; i++)
		lk_client_process(client, &err);
	lk_client_free(client);
	close(ends[1]);
	sigpending(&pending);
	check(!sigismember(&pending, SIGPIPE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_pair_is_told_step_by_step),
		api_test(test_lines_go_to_a_descriptor),
		api_test(test_a_descriptor_that_nobody_reads),
		api_test(test_a_wait_and_its_message),
		api_test(test_what_a_name_holds_is_one_line),
		api_test(test_no_password_is_told),
		api_test(test_below_debug_a_pair_is_silent),
		api_test(test_a_callback_may_wait_for_a_mutex_of_the_program),
		api_test(test_a_callback_that_hangs_holds_up_no_renewal),
		api_test(test_a_client_is_freed_though_its_callback_hangs),
	};
	return cmocka_run_group_tests_name("log", tests, start_server, stop_server);
}
