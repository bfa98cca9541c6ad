/* What the log callback is given, at LK_LOG_DEBUG and below. */
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
	(void)level;
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
	(void)state;
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	char field[LK_FIELD_SIZE], decision[64];
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *lock = new_lock(client, "told");
	expect(0, lk_lock_acquire(lock, NULL, &err));
	snprintf(decision, sizeof(decision), "\"told\" number %s: ", number_of(lock, field));
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(lines_with(&diary, "scripts/", "connecting"), ==, 1);
	check_int(lines_with(&diary, "scripts/", "connected"), ==, 1);
	check_int(lines_with(&diary, "> EVALSHA lock_acquire 1 told", field), ==, 1);
	check_int(lines_with(&diary, "< nil in", "EVALSHA lock_acquire 1 told", field), ==, 1);
	check_int(lines_with(&diary, "> EVALSHA lock_release 1 told", field), ==, 1);
	check_int(lines_with(&diary, decision, "connected: send a try"), ==, 1);
	check_int(lines_with(&diary, decision, "granted: grant"), ==, 1);
	check_int(lines_with(&diary, decision, "given up by its owner"), ==, 1);
	lk_lock_free(lock);
	close_client(client);
	check_int(lines_with(&diary, "scripts/", "closed"), ==, 1);
	diary_free(&diary);
}

static void test_a_wait_and_its_message(void **state)
{
	(void)state;
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *other = open_client(), *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *first = new_lock(other, "waited"), *lock = new_lock(client, "waited");
	expect(0, lk_lock_acquire(first, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire_within(lock, slow_ms(200), NULL, &err));
	check_int(lines_with(&diary, "\"waited\" number ", "busy (ttl "), >, 0);
	/* The lock's, and the one where it hears of its turn: */
	check_int(lines_with(&diary, "messages/", "> SUBSCRIBE redisson_lock__channel:{waited}"),
		  ==, 2);
	check_int(lines_with(&diary, "messages/", "[subscribe, redisson_lock__channel:{waited}"),
		  ==, 2);
	check_int(lines_with(&diary, "left by its caller (", "give up ("), ==, 1);
	expect(0, lk_lock_release(first, NULL, &err));
	expect(0, lk_lock_acquire(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(first);
	lk_lock_free(lock);
	close_client(other);
	close_client(client);
	diary_free(&diary);
}

/* A name may hold any byte: it takes no line of its own, and ends none. */
static void test_what_a_name_holds_is_one_line(void **state)
{
	(void)state;
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, NULL);
	lk_lock *lock = NULL;
	expect(0, lk_lock_new(&lock, client, "two\nlines\0and more", 18, &err));
	expect(0, lk_lock_acquire(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(lines_with(&diary, "> EVALSHA lock_acquire 1 \"two?lines?and more\""), ==, 1);
	for (size_t i = 0; i < diary.count; i++)
		check(!strchr(diary.lines[i], '\n'));
	lk_lock_free(lock);
	close_client(client);
	diary_free(&diary);
}

static void test_no_password_is_told(void **state)
{
	(void)state;
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	redis_do(&server, "ACL SETUSER keeper reset on ~* &* +@all >%s", PASSWORD);
	lk_client *client = open_logging(&diary, LK_LOG_DEBUG, PASSWORD);
	lk_lock *lock = new_lock(client, "secret");
	expect(0, lk_lock_acquire(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(lines_with(&diary, "lock_release"), >, 0);
	lk_lock_free(lock);
	close_client(client);
	check_int(lines_with(&diary, PASSWORD), ==, 0);
	diary_free(&diary);
}

static void test_below_debug_a_pair_is_silent(void **state)
{
	(void)state;
	struct diary diary = {.mutex = PTHREAD_MUTEX_INITIALIZER};
	lk_client *client = open_logging(&diary, LK_LOG_INFO, NULL);
	lk_lock *lock = new_lock(client, "silent");
	expect(0, lk_lock_acquire(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_lock_free(lock);
	close_client(client);
	check_int(diary.count, ==, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_pair_is_told_step_by_step),   api_test(test_a_wait_and_its_message),
		api_test(test_what_a_name_holds_is_one_line), api_test(test_no_password_is_told),
		api_test(test_below_debug_a_pair_is_silent),
	};
	return cmocka_run_group_tests_name("log", tests, start_server, stop_server);
}
