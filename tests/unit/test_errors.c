/* The table of errors, as its callers read it. */
#include "unit.h"

#include <string.h>

#include <lockkeeper/error.h>

#include "base/fail.h"

static const struct {
	const char *name, *text;
	int code, classes;
} errors[] = {
#define ERROR_ROW(name, value, classes, text) {#name, text, value, classes},
	LK_ERROR_MAP(ERROR_ROW)
#undef ERROR_ROW
};

#define ERRORS (sizeof(errors) / sizeof(errors[0]))

static void test_each_code_has_a_name_and_a_text(void **state)
{
	for (size_t i = 0; i < ERRORS; i++) {
		assert_string_equal(lk_error_name(errors[i].code), errors[i].name);
		assert_string_equal(lk_error_text(errors[i].code), errors[i].text);
	}
}

static void test_an_unknown_code(void **state)
{
	assert_string_equal(lk_error_name(-9999), "LK_E?");
	assert_string_equal(lk_error_name(7), "LK_E?");
	assert_true(strlen(lk_error_text(-9999)) > 0);
	assert_false(lk_error_is_retryable(-9999));
	assert_false(lk_error_is_fatal(-9999));
	assert_false(lk_error_maybe_held(-9999));
}

static void test_classes(void **state)
{
	for (size_t i = 0; i < ERRORS; i++) {
		int code = errors[i].code, classes = errors[i].classes;
		assert_int_equal(lk_error_is_retryable(code), !!(classes & LK_CLASS_RETRY));
		assert_int_equal(lk_error_is_fatal(code), !!(classes & LK_CLASS_FATAL));
		assert_int_equal(lk_error_maybe_held(code), !!(classes & LK_CLASS_MAYBE));
		assert_false(lk_error_is_retryable(code) && lk_error_is_fatal(code));
	}
}

static void test_a_server_is_named_once(void **state)
{
	static const char *const rows[][2] = {
		{"redis://a:1: cannot connect",
		 "acquire \"a on b\" on redis://a:1: cannot connect"},
		{"redis://a:2: cannot connect",
		 "acquire \"a on b\" on redis://a:1: redis://a:2: cannot connect"},
		{"busy", "acquire \"a on b\" on redis://a:1: busy"},
		{"", "acquire \"a on b\" on redis://a:1: "},
		{"redis://a:1: ", "acquire \"a on b\" on redis://a:1: "},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		lk_error error;
		lk__fail(&error, LK_EUNREACHABLE, "acquire \"a on b\" on %s: %s", "redis://a:1",
			 rows[i][0]);
		assert_string_equal(error.message, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_code_has_a_name_and_a_text),
		cmocka_unit_test(test_an_unknown_code),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_a_server_is_named_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
