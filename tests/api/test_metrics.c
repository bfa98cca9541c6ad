/* Metrics as text: each line is right in both formats, each number is the counter's, and what does
 * not fit is not taken for a text. */
#include "fixture.h"

#define TEXT_SIZE 65536

static char text[TEXT_SIZE];

static const char *write_text(lk_client *client, const char *label, int format)
{
	lk_stats_source source = {client, label};
	size_t length = 0;
	expect(0, lk_stats_write(&source, 1, format, text, sizeof(text) - 1, &length, &err));
	text[length] = '\0';
	check_int(strlen(text), ==, length);
	return text;
}

static void has(const char *line)
{
	char whole[256];
	size_t size = (size_t)snprintf(whole, sizeof(whole), "\n%s\n", line);
	if (!strstr(text, whole) && strncmp(text, whole + 1, size - 1) != 0)
		fail_msg("\"%s\" is missing in:\n%s", line, text);
}

static void test_a_new_client_shows_all_series(void **state)
{
	own_client *client = open_client();
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("# TYPE lockkeeper_acquires_total counter");
	has("lockkeeper_acquires_total{result=\"granted\"} 0");
	has("lockkeeper_acquires_total{result=\"busy\"} 0");
	has("lockkeeper_lost_total{cause=\"broken\"} 0");
	has("# TYPE lockkeeper_wait_seconds histogram");
	has("lockkeeper_wait_seconds_bucket{le=\"+Inf\"} 0");
	has("lockkeeper_wait_seconds_sum 0.000000");
	has("# TYPE lockkeeper_build_info gauge");
	check(!strstr(text, "# UNIT") && !strstr(text, "# EOF"));
	write_text(client, NULL, LK_STATS_OPENMETRICS);
	has("# TYPE lockkeeper_acquires counter");
	has("lockkeeper_acquires_total{result=\"granted\"} 0");
	has("# UNIT lockkeeper_wait_seconds seconds");
	has("# TYPE lockkeeper_build info");
	check(!strcmp(text + strlen(text) - 6, "# EOF\n"));
}

static void test_numbers_are_those_of_the_counters(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "pairs");
	for (int i = 0; i < 3; i++) {
		expect(0, lk_lock_acquire(lock, -1, NULL, &err));
		expect(0, lk_lock_release(lock, NULL, &err));
	}
	stranger_takes("pairs", slow_ms(60000));
	expect(LK_EBUSY, lk_lock_acquire(lock, 0, NULL, &err));
	expect(LK_ETIMEDOUT, lk_lock_acquire(lock, slow_ms(100), NULL, &err));
	stranger_releases("pairs");
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("lockkeeper_acquires_total{result=\"granted\"} 3");
	has("lockkeeper_acquires_total{result=\"busy\"} 1");
	has("lockkeeper_acquires_total{result=\"timeout\"} 1");
	has("lockkeeper_wait_seconds_bucket{le=\"+Inf\"} 3");
	has("lockkeeper_wait_seconds_count 3");
	has("lockkeeper_hold_seconds_count 3");
	has("lockkeeper_held 0");
	check(strstr(text, "lockkeeper_node_round_trip_seconds{node=\"") != NULL);
}

static void test_who_waits_is_contended(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "contended");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	check_int(stats_of(client).contended, ==, 0);
	stranger_takes("contended", 300);
	expect(0, lk_lock_acquire(lock, slow_ms(20000), NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	lk_stats stats = stats_of(client);
	check_int(stats.contended, ==, stats.busy > 0); /* or this process did not run meanwhile */
}

static void test_a_renewal_leaves_its_margin(void **state)
{
	own_client *client = open_client_with("watchdog_ms=1500");
	own_lock *lock = new_lock(client, "renewed");
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	wait_until(stats_of(client).renewals >= 2, slow_ms(20000));
	lk_stats stats = stats_of(client);
	check_int(stats.margin_us.count, >=, 2);
	check_int(stats.renewal_us.count, >=, 2);
	/* It comes at a third of the lease, so two thirds are left at most. */
	check_int(stats.margin_us.sum_us, <=, stats.margin_us.count * 1100000);
	redis_do(&server, "DEL renewed");
	wait_until(stats_of(client).lost == 1, slow_ms(20000));
	stats = stats_of(client);
	check_int(stats.lost_by[LK_LOST_BROKEN], ==, 1);
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("lockkeeper_lost_total{cause=\"broken\"} 1");
	has("lockkeeper_lost_total{cause=\"expired\"} 0");
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

static void test_a_named_lease_ends(void **state)
{
	own_client *client = open_client();
	own_lock *lock = new_lock(client, "ends");
	lk_acquire_options options = LK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = 200;
	expect(0, lk_lock_acquire(lock, -1, &options, &err));
	wait_until(stats_of(client).lost == 1, slow_ms(20000));
	check_int(stats_of(client).lost_by[LK_LOST_EXPIRED], ==, 1);
	check_int(stats_of(client).at_risk, ==, 1);
	expect(LK_ELOST, lk_lock_release(lock, NULL, &err));
}

static void test_a_label_may_be_any_text(void **state)
{
	own_client *client = open_client();
	write_text(client, "a\"b\\c\nd\xff\xc3\xa9\xed\xa0\x80", LK_STATS_PROMETHEUS);
	has("lockkeeper_held{client=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9"
	    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 0");
}

static void test_several_clients(void **state)
{
	own_client *one = open_client(), *other = open_client();
	lk_stats_source sources[] = {{one, "one"}, {other, "other"}};
	size_t length;
	expect(0, lk_stats_write(sources, 2, 0, text, sizeof(text) - 1, &length, &err));
	text[length] = '\0';
	has("lockkeeper_held{client=\"one\"} 0\nlockkeeper_held{client=\"other\"} 0");
	sources[1].label = "one";
	expect(LK_EINVAL, lk_stats_write(sources, 2, 0, text, sizeof(text), &length, &err));
	sources[1].label = NULL;
	expect(LK_EINVAL, lk_stats_write(sources, 2, 0, text, sizeof(text), &length, &err));
	sources[1].client = NULL;
	expect(LK_EINVAL, lk_stats_write(sources, 2, 0, text, sizeof(text), &length, &err));
	expect(LK_EINVAL, lk_stats_write(sources, 0, 0, text, sizeof(text), &length, &err));
	expect(LK_EINVAL, lk_stats_write(sources, 1, 2, text, sizeof(text), &length, &err));
	expect(LK_EINVAL, lk_stats_write(sources, 1, 0, NULL, 1, &length, &err));
	expect(LK_EINVAL, lk_stats_write(sources, 101, 0, text, sizeof(text), &length, &err));
}

/* Every size: nothing is written behind the end, and the size that is needed is told. */
static void test_a_buffer_that_is_too_small(void **state)
{
	own_client *client = open_client();
	lk_stats_source source = {client, NULL};
	size_t needed = 0;
	expect(LK_ELIMIT, lk_stats_write(&source, 1, 0, NULL, 0, &needed, &err));
	check_int(needed, >, 1000);
	for (size_t size = 1; size < needed; size += 37) {
		size_t length = 0;
		char *buffer = malloc(size); /* the address sanitizer sees its end */
		expect(LK_ELIMIT, lk_stats_write(&source, 1, 0, buffer, size, &length, &err));
		check_int(length, ==, needed);
		free(buffer);
	}
	char *buffer = malloc(needed);
	size_t length = 0;
	expect(0, lk_stats_write(&source, 1, 0, buffer, needed, &length, &err));
	check_int(length, ==, needed);
	free(buffer);
}

static void declare(lk_client *client, const char *name, size_t size)
{
	expect(0, lk_stats_declare(client, name, size, &err));
}

static void pair(lk_client *client, const char *name, size_t size)
{
	own_lock *lock = NULL;
	expect(0, lk_lock_new(&lock, client, name, size, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_acquire(lock, -1, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
	expect(0, lk_lock_release(lock, NULL, &err));
}

static void test_declared_names_are_counted_apart(void **state)
{
	own_client *client = open_client();
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	check(!strstr(text, "lockkeeper_lock_"));
	declare(client, "backup", LK_STRLEN);
	declare(client, "order:*", LK_STRLEN);
	declare(client, "backup", LK_STRLEN); /* no error, and no second label */
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("lockkeeper_lock_acquires_total{lock=\"backup\",result=\"granted\"} 0");
	has("lockkeeper_lock_lost_total{lock=\"other\",cause=\"broken\"} 0");
	pair(client, "backup", LK_STRLEN);
	pair(client, "order:1", LK_STRLEN);
	pair(client, "order:2", LK_STRLEN);
	pair(client, "orders", LK_STRLEN);
	own_lock *held = new_lock(client, "order:");
	expect(0, lk_lock_acquire(held, -1, NULL, &err));
	expect(LK_EINVAL, lk_stats_declare(client, "late", LK_STRLEN, &err));
	write_text(client, "c", LK_STATS_OPENMETRICS);
	has("# TYPE lockkeeper_lock_acquires counter");
	has("# UNIT lockkeeper_lock_wait_seconds seconds");
	has("lockkeeper_lock_acquires_total{client=\"c\",lock=\"backup\",result=\"granted\"} 1");
	has("lockkeeper_lock_acquires_total{client=\"c\",lock=\"order:*\",result=\"granted\"} 3");
	has("lockkeeper_lock_acquires_total{client=\"c\",lock=\"other\",result=\"granted\"} 1");
	has("lockkeeper_lock_reentries_total{client=\"c\",lock=\"order:*\"} 2");
	has("lockkeeper_lock_hold_seconds_count{client=\"c\",lock=\"order:*\"} 2");
	has("lockkeeper_lock_wait_seconds_bucket{client=\"c\",lock=\"backup\",le=\"+Inf\"} 1");
	has("lockkeeper_lock_held{client=\"c\",lock=\"order:*\"} 1");
	has("lockkeeper_acquires_total{client=\"c\",result=\"granted\"} 5");
	expect(0, lk_lock_release(held, NULL, &err));
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("lockkeeper_lock_held{lock=\"order:*\"} 0");
}

/* A series that stands twice makes the whole text invalid. */
static void test_names_with_one_label_are_one_series(void **state)
{
	own_client *client = open_client();
	declare(client, "\xff", 1);
	declare(client, "\xfe", 1);
	declare(client, "\0", 1);
	declare(client, "other", 5);
	declare(client, "a\"b\\c\nd", 7);
	pair(client, "\xff", 1);
	pair(client, "\0", 1);
	pair(client, "other", 5);
	pair(client, "rest", 4);
	pair(client, "a\"b\\c\nd", 7);
	write_text(client, NULL, LK_STATS_PROMETHEUS);
	has("lockkeeper_lock_acquires_total{lock=\"\xef\xbf\xbd\",result=\"granted\"} 2");
	has("lockkeeper_lock_acquires_total{lock=\"other\",result=\"granted\"} 2");
	has("lockkeeper_lock_acquires_total{lock=\"a\\\"b\\\\c\\nd\",result=\"granted\"} 1");
	const char *first = strstr(text, "lockkeeper_lock_held{lock=\"\xef\xbf\xbd\"}");
	check(first && !strstr(first + 1, "lockkeeper_lock_held{lock=\"\xef\xbf\xbd\"}"));
}

static void test_a_hundred_names_at_most(void **state)
{
	own_client *client = open_client();
	char name[16];
	for (int i = 0; i < LK_STATS_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "lock%d", i);
		declare(client, name, LK_STRLEN);
	}
	expect(LK_ELIMIT, lk_stats_declare(client, "more", LK_STRLEN, &err));
	expect(LK_EINVAL, lk_stats_declare(client, "", LK_STRLEN, &err));
	expect(LK_EINVAL, lk_stats_declare(client, NULL, 1, &err));
	expect(LK_EINVAL, lk_stats_declare(NULL, "more", LK_STRLEN, &err));
	for (int i = 0; i < 10000; i++) { /* ids in names make no series */
		lk_lock *lock = NULL;
		snprintf(name, sizeof(name), "id%d", i);
		expect(0, lk_lock_new(&lock, client, name, LK_STRLEN, &err));
		lk_lock_free(lock);
	}
	lk_stats_source source = {client, NULL};
	size_t length;
	char *whole = malloc(16 * TEXT_SIZE);
	expect(0, lk_stats_write(&source, 1, 0, whole, 16 * TEXT_SIZE, &length, &err));
	size_t lines = 0;
	for (size_t i = 0; i < length; i++)
		lines += whole[i] == '\n';
	check_int(lines, <, 10000);
	free(whole);
}

/* Half of the threads' counts are under way in each text. */
static void take_turns(size_t index, void *argument)
{
	char name[] = {(char)('0' + index % 2), '\0'};
	for (int i = 0; i < 300; i++)
		pair(argument, name, 1);
}

/* The number behind the text of a sample; a sample without it has the next one's. */
static uint64_t number_of(const char *sample)
{
	const char *at = strstr(text, sample);
	check(at != NULL);
	return at ? strtoull(at + strlen(sample), NULL, 10) : 0;
}

/* The last bucket; none is less than the one before it. */
static uint64_t last_bucket(const char *start)
{
	uint64_t last = 0;
	for (const char *at = text; (at = strstr(at, start));) {
		at = strchr(at + 1, '}');
		check_int(strtoull(at + 1, NULL, 10), >=, last);
		last = strtoull(at + 1, NULL, 10);
	}
	return last;
}

/* A text is taken at no one moment, but each histogram of it is whole. */
static void test_a_text_that_is_written_during_grants(void **state)
{
	own_client *client = open_client();
	struct threads threads;
	uint64_t count = 0;
	threads_start(&threads, 4, take_turns, client);
	for (int64_t end_ns = now_ns() + slow_ms(60000) * INT64_C(1000000);
	     count < 1200 && now_ns() < end_ns;) {
		write_text(client, NULL, LK_STATS_PROMETHEUS);
		count = number_of("\nlockkeeper_wait_seconds_count ");
		check_int(last_bucket("\nlockkeeper_wait_seconds_bucket{"), ==, count);
		check_int(number_of("\nlockkeeper_wait_seconds_bucket{le=\"+Inf\"} "), ==, count);
	}
	check_int(count, ==, 1200);
	threads_join(&threads, 60000);
}

/* Any thread may ask, also where the program drives the client. */
static void write_elsewhere(size_t index, void *client)
{
	static char own[TEXT_SIZE];
	lk_stats_source source = {client, NULL};
	size_t length = 0;
	expect(0, lk_stats_write(&source, 1, 0, own, sizeof(own) - 1, &length, &err));
	own[length] = '\0';
	check(strstr(own, "\nlockkeeper_held 0\n") != NULL);
}

static void test_a_client_without_threads(void **state)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	struct threads threads;
	expect(0, lk_config_new(&config, &err));
	expect(0, lk_config_set(config, "url", server.url_unix, &err));
	lk_config_set_threadless(config, NULL, NULL);
	expect(0, lk_client_new(&client, config, &err));
	lk_config_free(config);
	write_text(client, NULL, LK_STATS_OPENMETRICS);
	threads_start(&threads, 1, write_elsewhere, client);
	threads_join(&threads, 20000);
	lk_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_a_new_client_shows_all_series),
		api_test(test_numbers_are_those_of_the_counters),
		api_test(test_who_waits_is_contended),
		api_test(test_a_renewal_leaves_its_margin),
		api_test(test_a_named_lease_ends),
		api_test(test_a_label_may_be_any_text),
		api_test(test_several_clients),
		api_test(test_a_buffer_that_is_too_small),
		api_test(test_declared_names_are_counted_apart),
		api_test(test_names_with_one_label_are_one_series),
		api_test(test_a_hundred_names_at_most),
		api_test(test_a_text_that_is_written_during_grants),
		api_test(test_a_client_without_threads),
	};
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
