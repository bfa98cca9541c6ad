/* Sums that no test can wait for: durations of centuries, in the library's own text. */
#include "unit.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper.h>

#include "lock/client.h"

static char text[65536];

static lk_client *client_made(void)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	assert_int_equal(lk_config_new(&config, NULL), 0);
	assert_int_equal(lk_config_set(config, "url", "unix:///nowhere", NULL), 0);
	lk_config_set_threadless(config, NULL, NULL); /* nothing is connected */
	assert_int_equal(lk_client_new(&client, config, NULL), 0);
	lk_config_free(config);
	return client;
}

static void has(lk_client *client, const char *line)
{
	const lk_stats_source source = {client, NULL};
	size_t length = 0;
	assert_int_equal(lk_stats_write(&source, 1, 0, text, sizeof(text) - 1, &length, NULL), 0);
	text[length] = '\0';
	if (!strstr(text, line))
		fail_msg("\"%s\" is missing in:\n%s", line, text);
}

/* A double would have 53 bits of it, and the last digits would be others. */
static void test_a_sum_has_all_its_digits(void **state)
{
	lk_client *client = client_made();
	struct lk__counters *counters = &client->counters;
	lk__count_us(&counters->wait, INT64_MAX);
	has(client, "\nlockkeeper_wait_seconds_sum 9223372036.854775\n");
	has(client, "\nlockkeeper_wait_seconds_bucket{le=\"4294.967296\"} 0\n");
	has(client, "\nlockkeeper_wait_seconds_bucket{le=\"+Inf\"} 1\n");
	counters->wait.sum_us = UINT64_MAX;
	has(client, "\nlockkeeper_wait_seconds_sum 18446744073709.551615\n");
	lk_client_free(client);
}

/* After 584,542 years. Readers take a counter that falls for one that began anew; one below 0 would
 * be none. */
static void test_a_sum_that_is_full_begins_anew(void **state)
{
	lk_client *client = client_made();
	struct lk__counters *counters = &client->counters;
	counters->hold.sum_us = UINT64_MAX;
	lk__count_us(&counters->hold, 3001000);
	has(client, "\nlockkeeper_hold_seconds_sum 0.003000\n");
	has(client, "\nlockkeeper_hold_seconds_count 1\n");
	lk_client_free(client);
}

static void test_a_duration_below_zero_is_none(void **state)
{
	lk_client *client = client_made();
	struct lk__counters *counters = &client->counters;
	lk__count_us(&counters->margin, -INT64_C(5000000000));
	has(client, "\nlockkeeper_renewal_margin_seconds_sum 0.000000\n");
	has(client, "\nlockkeeper_renewal_margin_seconds_bucket{le=\"4e-06\"} 1\n");
	lk_client_free(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sum_has_all_its_digits),
		cmocka_unit_test(test_a_sum_that_is_full_begins_anew),
		cmocka_unit_test(test_a_duration_below_zero_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
