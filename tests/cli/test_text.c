/* Durations, signal names, escaping: what the command reads and prints, without a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cli/options.h"
#include "../../cli/message.h"
#include "../../cli/escape.h"
#include "../../cli/signals.h"

static void test_durations_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} cases[] = {
		{"0", 0},
		{"1", 1000},
		{"007", 7000},
		{"1.5", 1500},
		{".5", 500},
		{"5.", 5000},
		{"0.001", 1},
		{"0.0001", 1},
		{"0.0000000000001", 1},
		{"0.00000000000000", 0},
		{"1.0004s", 1001},
		{"0ms", 0},
		{"250ms", 250},
		{"0.1ms", 1},
		{"2s", 2000},
		{"3m", 180000},
		{"1.5m", 90000},
		{"2h", 7200000},
		{"1d", 86400000},
		{"0.5d", 43200000},
		{"9223372036854775807ms", INT64_MAX},
		{"9223372036854775.807", INT64_MAX},
		{"106751991167d", INT64_C(9223372036828800000)},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t ms = -1;
		print_message("%s\n", cases[i].text);
		assert_int_equal(duration_parse(cases[i].text, &ms), 0);
		assert_int_equal(ms, cases[i].ms);
	}
}

static void test_text_that_is_not_a_duration_is_refused(void **state)
{
	static const char *const cases[] = {
		"",      " ",   " 1",  "1 ",   "-1",    "+1",       ".",     "s",
		"ms",    ".s",  "1e3", "0x10", "12abc", "1,5",      "1.2.3", "1 s",
		"1S",    "1M",  "1us", "1ns",  "1w",    "1y",       "1sec",  "1ss",
		"1m30s", "inf", "nan", "--",   "1\n",   "\xd9\xa1", "1.-5",  "1.s5",
	};
	static const char *const huge[] = {
		"9223372036854775808ms",
		"9223372036854775.808",
		"9223372036854776",
		"106751991168d",
		"99999999999999999999999999",
		"9223372036854775807h",
		"99999999999999999999999999999999999999ms",
	};
	int64_t ms = -7;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i]);
		assert_int_equal(duration_parse(cases[i], &ms), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		print_message("%s\n", huge[i]);
		assert_int_equal(duration_parse(huge[i], &ms), -ERANGE);
	}
	assert_int_equal(ms, -7);
}

/* What timeout(1) calls a duration, as an expression: the parser is written by hand. */
static void test_generated_durations_agree_with_an_expression(void **state)
{
	static const char bytes[] = "0123456789001122..smhd -+ex";
	regex_t shape;
	assert_int_equal(regcomp(&shape, "^([0-9]+[.]?[0-9]*|[.][0-9]+)(ms|s|m|h|d)?$",
				 REG_EXTENDED | REG_NOSUB),
			 0);
	unsigned seed = 20261121;
	int valid = 0;
	for (int i = 0; i < 100000; i++) {
		char text[12];
		size_t size = (size_t)rand_r(&seed) % (sizeof(text) - 1);
		for (size_t j = 0; j < size; j++)
			text[j] = bytes[(size_t)rand_r(&seed) % (sizeof(bytes) - 1)];
		text[size] = '\0';
		int64_t ms = -1;
		int result = duration_parse(text, &ms);
		int matches = regexec(&shape, text, 0, NULL, 0) == 0;
		if ((result == 0) != matches || (result == 0 && ms < 0))
			fail_msg("'%s': %d, %lld", text, result, (long long)ms);
		valid += matches;
	}
	regfree(&shape);
	assert_true(valid > 1000);
}

static void test_signals_have_names_and_numbers(void **state)
{
	assert_int_equal(signal_parse("TERM"), SIGTERM);
	assert_int_equal(signal_parse("SIGTERM"), SIGTERM);
	assert_int_equal(signal_parse("sigint"), SIGINT);
	assert_int_equal(signal_parse("9"), SIGKILL);
	assert_int_equal(signal_parse("RTMIN"), SIGRTMIN);
	assert_int_equal(signal_parse("SIGRTMIN+2"), SIGRTMIN + 2);
	static const char *const wrong[] = {"",         "0",         "-9",    "65",
					    "9x",       "TERMINATE", "SIG",   "RTMIN+",
					    "RTMIN+99", "RTMIN-1",   " TERM", "99999999999"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(signal_parse(wrong[i]), -1);
	assert_string_equal(signal_name(SIGTERM), "TERM");
	assert_string_equal(signal_name(1000), "?");
}

static void escaped_equal(const char *bytes, size_t size, const char *expected)
{
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);
	assert_non_null(stream);
	escape_print(stream, bytes, size);
	fclose(stream);
	assert_string_equal(text, expected);
	free(text);
}

static void test_bytes_that_control_a_terminal_are_escaped(void **state)
{
	escaped_equal("plain/name:1", 12, "plain/name:1");
	escaped_equal("gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x94\x92", 15,
		      "gr\xc3\xbc\xc3\x9f \xe2\x9c\x93 \xf0\x9f\x94\x92");
	escaped_equal("a\0b\n\t\x7f", 6, "a\\x00b\\x0a\\x09\\x7f");
	escaped_equal("\x1b[31m", 5, "\\x1b[31m");
	escaped_equal("\xff\xc0\x80\xc3", 4, "\\xff\\xc0\\x80\\xc3");
	escaped_equal("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");
	escaped_equal("\xc2\x9b"
		      "1m",
		      4, "\\xc2\\x9b1m");
	escaped_equal("\xe2\x80\xae", 3, "\\xe2\\x80\\xae");
	escaped_equal("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80");
}

static void test_utf8_is_told_from_bytes(void **state)
{
	assert_int_equal(utf8_is_valid("", 0), 1);
	assert_int_equal(utf8_is_valid("a\x1b\xc3\xbc", 4), 1);
	assert_int_equal(utf8_is_valid("a\0b", 3), 0);
	assert_int_equal(utf8_is_valid("\xc3", 1), 0);
	assert_int_equal(utf8_is_valid("\xe0\x80\x80", 3), 0);
	assert_int_equal(utf8_is_valid("\xf8\x88\x80\x80\x80", 5), 0);
}

static void test_errors_are_in_plain_words(void **state)
{
	static const char *const rows[][2] = {
		{"acquire \"job\" on redis://a: timed out",
		 "acquire \"job\" on redis://a: timed out"},
		{"lk_event_wait: cancelled", "cancelled"},
		{"lk_lock_release \"a_b\": not held under x", "release \"a_b\": not held under x"},
		{"lk_permit_semaphore_set \"s\" on unix:///s: WRONGTYPE no",
		 "permit semaphore set \"s\" on unix:///s: WRONGTYPE no"},
		{"acquire \"my script: zoo\": busy", "acquire \"my script: zoo\": busy"},
		{"", ""},
		{"lk_", ""},
		{"lk_x:", ""},
		{" on : : ", " on : : "},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];
		snprintf(text, sizeof(text), "%s", rows[i][0]);
		error_text_plain(text);
		assert_string_equal(text, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations_are_read),
		cmocka_unit_test(test_text_that_is_not_a_duration_is_refused),
		cmocka_unit_test(test_generated_durations_agree_with_an_expression),
		cmocka_unit_test(test_signals_have_names_and_numbers),
		cmocka_unit_test(test_bytes_that_control_a_terminal_are_escaped),
		cmocka_unit_test(test_utf8_is_told_from_bytes),
		cmocka_unit_test(test_errors_are_in_plain_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
