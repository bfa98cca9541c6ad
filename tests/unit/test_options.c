/* The table of options, the environment, the password file, and copies. */
#include "unit.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "conf/config.h"

static const struct {
	const char *name;
	const char *default_value;
	int number;
	int64_t least;
	int64_t most;
} rows[] = {
#define NUMBER_MS 1
#define NUMBER_INT 1
#define NUMBER_TEXT 0
#define NUMBER_FILE 0
#define NUMBER_SECRET 0
#define NUMBER_URL 0
#define LK__OPTION(name, NAME, kind, value, least, most, description)                              \
	{#name, value, NUMBER_##kind, least, most},
#include "conf/options.def"
#undef LK__OPTION
};

static int setup(void **state)
{
	for (size_t i = 0; i < lk_option_count(); i++)
		unsetenv(lk_option_at(i)->environment);
	return lk_config_new((lk_config **)state, NULL);
}

static int teardown(void **state)
{
	return lk_config_free(*state) != NULL;
}

static void assert_value(const lk_config *config, const char *name, const char *value)
{
	char text[8192];
	int length = lk_config_get(config, name, text, sizeof(text));
	assert_int_equal(length, (int)strlen(value));
	assert_string_equal(text, value);
}

static int set_number(lk_config *config, const char *name, int64_t number)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRId64, number);
	return lk_config_set(config, name, text, NULL);
}

static void test_every_option_is_described(void **state)
{
	assert_int_equal(lk_option_count(), COUNT(rows));
	assert_null(lk_option_at(lk_option_count()));
	for (size_t i = 0; i < COUNT(rows); i++) {
		const lk_option_info *info = lk_option_at(i);
		char environment[64] = "LOCKKEEPER_";
		size_t at = strlen(environment);
		for (const char *from = info->name; *from; from++)
			environment[at++] = (char)toupper((unsigned char)*from);
		assert_string_equal(info->name, rows[i].name);
		assert_string_equal(info->environment, environment);
		assert_true(strlen(info->type) > 0);
		assert_int_equal(*info->range != '\0', rows[i].number);
		assert_int_equal(info->description[strlen(info->description) - 1], '.');
		assert_string_equal(info->default_value, rows[i].default_value);
		assert_value(*state, info->name, info->default_value);
	}
}

static void test_numbers_end_at_their_range(void **state)
{
	lk_config *config = *state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (!rows[i].number)
			continue;
		assert_int_equal(set_number(config, rows[i].name, rows[i].least), 0);
		assert_int_equal(set_number(config, rows[i].name, rows[i].most), 0);
		assert_int_equal(set_number(config, rows[i].name, rows[i].least - 1), LK_EINVAL);
		assert_int_equal(set_number(config, rows[i].name, rows[i].most + 1), LK_EINVAL);
		assert_int_equal(set_number(config, rows[i].name, INT64_MAX), LK_EINVAL);
		assert_int_equal(lk_config_set(config, rows[i].name, rows[i].default_value, NULL),
				 0);
	}
}

static void test_junk_is_not_a_number(void **state)
{
	static const char *const junk[] = {
		"",
		" ",
		" 12",
		"12 ",
		"12\n",
		"12abc",
		"abc",
		"1e3",
		"0x10",
		"010",
		"-1",
		"+12",
		"1.5",
		"1,000",
		"1_000",
		"12ms",
		"٣",
		"9223372036854775808",
		"18446744073709551616",
		"18446744073709551628",
		"99999999999999999999999999999999",
	};
	lk_config *config = *state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (!rows[i].number)
			continue;
		for (size_t j = 0; j < COUNT(junk); j++) {
			lk_error error = {0};
			if (lk_config_set(config, rows[i].name, junk[j], &error) != LK_EINVAL)
				fail_msg("%s took \"%s\"", rows[i].name, junk[j]);
			assert_non_null(strstr(error.message, rows[i].name));
			assert_null(strchr(error.message, '\n'));
		}
		assert_value(config, rows[i].name, rows[i].default_value);
	}
}

static void test_messages_name_option_value_and_reason(void **state)
{
	lk_error error;
	lk_config_set(*state, "spin_us", "1e3", &error);
	assert_string_equal(error.message, "spin_us: \"1e3\" is not a plain decimal number");
	lk_config_set(*state, "spin_us", "1001", &error);
	assert_string_equal(error.message, "spin_us: \"1001\" is not in the range 0 … 1000");
	lk_config_set(*state, "client_name", "a b", &error);
	assert_non_null(strstr(error.message, "client_name: \"a b\""));
	lk_config_set(*state, "no\nsuch", "1", &error);
	assert_string_equal(error.message, "\"no?such\" is not an option");
}

static void test_wrong_calls(void **state)
{
	lk_config *config = *state;
	char text[4];
	assert_int_equal(lk_config_new(NULL, NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(NULL, "spin_us", "1", NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(config, NULL, "1", NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(config, "spin_us", NULL, NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(config, "", "1", NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(config, "SPIN_US", "1", NULL), LK_EINVAL);
	assert_int_equal(lk_config_set(config, "spin_us ", "1", NULL), LK_EINVAL);
	assert_int_equal(lk_config_load_environment(NULL, NULL), LK_EINVAL);
	assert_int_equal(lk_config_get(config, "nonsense", text, sizeof(text)), LK_EINVAL);
	assert_int_equal(lk_config_get(config, "host", text, sizeof(text)), LK_EINVAL);
	assert_null(lk_config_free(NULL));
}

static void test_texts_are_bounded(void **state)
{
	static const char *const names[] = {"username", "password", "client_name", "key_prefix",
					    "tls_ca_file"};
	char text[4098];
	memset(text, 'x', sizeof(text));
	text[4097] = '\0';
	for (size_t i = 0; i < COUNT(names); i++)
		assert_int_equal(lk_config_set(*state, names[i], text, NULL), LK_EINVAL);
	text[4096] = '\0';
	for (size_t i = 0; i < COUNT(names); i++)
		assert_int_equal(lk_config_set(*state, names[i], text, NULL), 0);
}

static void test_certificates_may_be_longer(void **state)
{
	static char text[65538];
	lk_error error;
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(lk_config_set(*state, "tls_ca_data", text, &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "is longer than 65536 bytes"));
	text[65536] = '\0';
	assert_int_equal(lk_config_set(*state, "tls_ca_data", text, NULL), 0);
	assert_int_equal(lk_config_set(*state, "tls_verify", "never", &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "is not on, authority or off"));
}

static void test_the_password_of_a_key(void **state)
{
	lk_config *config = *state;
	char path[] = "/tmp/lockkeeper-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(write(fd, "from file\nmore\n", 15) == 15 && close(fd) == 0);
	assert_int_equal(lk_config_set(config, "tls_key_password_file", path, NULL), 0);
	assert_string_equal(config->tls_key_password, "from file");
	assert_string_equal(config->password, "");
	assert_value(config, "tls_key_password", "***");
	assert_int_equal(lk_config_set(config, "password", "other", NULL), 0);
	assert_value(config, "tls_key_password_file", path);
	assert_int_equal(lk_config_set(config, "tls_key_password", "mine", NULL), 0);
	assert_value(config, "tls_key_password_file", "");
	assert_string_equal(config->tls_key_password, "mine");
	assert_int_equal(lk_config_set(config, "tls_key_password_file", "/nowhere", NULL),
			 LK_EINVAL);
	unlink(path);
}

/* What a file or a shell was meant to take away would make another name, say. */
static void test_what_stands_around_a_value_is_told(void **state)
{
	static const char *const names[] = {"username", "key_prefix", "sentinel_username",
					    "tls_ca_file", "password_file"};
	static const struct {
		const char *text, *fault;
	} around[] = {
		{"\"app:\"", "is in quotes"},         {"'app:'", "is in quotes"},
		{"'app:", "begins with a quote"},     {"app:\n", "ends in a line break"},
		{"app:\r\n", "ends in a line break"}, {" app:", "begins with a blank"},
		{"app:\t", "ends in a blank"},
	};
	lk_error error;
	for (size_t i = 0; i < COUNT(around); i++) {
		for (size_t k = 0; k < COUNT(names); k++) {
			assert_int_equal(lk_config_set(*state, names[k], around[i].text, &error),
					 LK_EINVAL);
			assert_non_null(strstr(error.message, names[k]));
			assert_non_null(strstr(error.message, around[i].fault));
		}
		assert_int_equal(lk_config_set(*state, "term_ms", around[i].text, &error),
				 LK_EINVAL);
		assert_non_null(strstr(error.message, around[i].fault));
		assert_int_equal(lk_config_set(*state, "password", around[i].text, NULL), 0);
	}
	assert_int_equal(lk_config_set(*state, "key_prefix", "two words\n:", NULL), 0);
}

static void test_the_name_in_a_certificate(void **state)
{
	static const char *const names[] = {"",        "node.example", "node.example.",
					    "a_b-c.d", "127.0.0.1",    "::1"};
	static const char *const faults[] = {".example.test", "a..b",  "node\nexample", "*.example",
					     "node example",  "1.2.3", "node:6379",     "[::1]"};
	lk_error error;
	for (size_t i = 0; i < COUNT(names); i++)
		assert_int_equal(lk_config_set(*state, "tls_server_name", names[i], NULL), 0);
	for (size_t i = 0; i < COUNT(faults); i++) {
		assert_int_equal(lk_config_set(*state, "tls_server_name", faults[i], &error),
				 LK_EINVAL);
		assert_non_null(strstr(error.message, "tls_server_name"));
		assert_null(strchr(error.message, '\n'));
	}
}

/* What the options together are: refused for a reason, or taken (NULL). */
static void assert_checks(const char *url, const char *name, const char *value, int threadless,
			  const char *reason)
{
	lk_config *config;
	lk_error error = {0};
	assert_int_equal(lk_config_new(&config, NULL), 0);
	assert_int_equal(lk_config_set(config, "url", url, NULL), 0);
	assert_int_equal(lk_config_set(config, name, value, NULL), 0);
	config->threadless = threadless;
	assert_int_equal(lk__config_check(config, &error), reason ? LK_EINVAL : 0);
	if (reason)
		assert_non_null(strstr(error.message, reason));
	lk_config_free(config);
}

static void test_a_map_of_addresses_is_checked(void **state)
{
	lk_error error;
	assert_int_equal(lk_config_set(*state, "address_map", "a:1=b:2,c=d", NULL), 0);
	assert_int_equal(lk_config_set(*state, "address_map", "a:1=b", &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "address_map: \"a:1=b\" is not a list of host:port"));
}

/* It looks no names up: neither of the URL nor of the map. */
static void test_a_map_without_threads(void **state)
{
	static const struct {
		const char *url, *map, *reason;
	} cases[] = {
		{"redis://name", "", "url: \"name\""},
		{"redis://name", "name=127.0.0.1", NULL},
		{"redis://name:1", "name:2=127.0.0.1:1", "url: \"name\""},
		{"redis-cluster://127.0.0.1:1,name:2", "name=127.0.0.2", NULL},
		{"redis-cluster://127.0.0.1:1", "10.0.0.1=other", "address_map: \"other\""},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_checks(cases[i].url, "address_map", cases[i].map, 1, cases[i].reason);
	}
}

static void test_get_writes_no_more_than_there_is_room(void **state)
{
	char text[8] = "#######";
	assert_int_equal(lk_config_get(*state, "client_name", text, 4), 10);
	assert_string_equal(text, "loc");
	assert_int_equal(text[4], '#');
	assert_int_equal(lk_config_get(*state, "client_name", NULL, 0), 10);
}

static void test_secrets_are_not_shown(void **state)
{
	assert_value(*state, "password", "");
	assert_int_equal(lk_config_set(*state, "password", "hunter2", NULL), 0);
	assert_value(*state, "password", "***");
	assert_int_equal(lk_config_set(*state, "url", "redis://u:hunter2@h", NULL), 0);
	for (size_t i = 0; i < lk_option_count(); i++) {
		char text[256];
		lk_config_get(*state, lk_option_at(i)->name, text, sizeof(text));
		assert_null(strstr(text, "hunter2"));
	}
	lk_error error;
	char text[5000];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "hunter2", 7);
	assert_int_equal(lk_config_set(*state, "password", text, &error), LK_EINVAL);
	assert_null(strstr(error.message, "hunter2"));
}

static void test_the_environment_is_read(void **state)
{
	lk_config *config = *state;
	setenv("LOCKKEEPER_URL", "redis://u:one@h:1/2?spin_us=7&client_name=x", 1);
	setenv("LOCKKEEPER_PASSWORD", "two", 1);
	setenv("LOCKKEEPER_SPIN_US", "8", 1);
	setenv("LOCKKEEPER_NONSENSE", "8", 1);
	setenv("LOCKKEEPER_STATE_DIR", "/nowhere", 1);
	assert_int_equal(lk_config_load_environment(config, NULL), 0);
	assert_string_equal(config->host, "h");
	assert_int_equal(config->database, 2);
	assert_string_equal(config->username, "u");
	assert_string_equal(config->password, "two");
	assert_string_equal(config->client_name, "x");
	assert_int_equal(config->spin_us, 8);
	assert_int_equal(config->term_ms, 10);
}

static void test_a_bad_environment_changes_nothing(void **state)
{
	lk_config *config = *state;
	lk_error error;
	setenv("LOCKKEEPER_URL", "redis://h", 1);
	setenv("LOCKKEEPER_TERM_MS", "soon", 1);
	assert_int_equal(lk_config_load_environment(config, &error), LK_EINVAL);
	assert_string_equal(error.message, "term_ms: \"soon\" is not a plain decimal number");
	assert_string_equal(config->url, "");
	assert_int_equal(config->scheme, LK__SCHEME_NONE);
}

static void write_file(const char *path, const char *bytes, size_t size)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void test_the_password_file(void **state)
{
	static char much[5000];
	lk_config *config = *state;
	char path[] = "/tmp/lockkeeper-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	memset(much, 'x', sizeof(much));
	const struct {
		const char *bytes;
		size_t size;
		const char *password; /* NULL: refused */
	} files[] = {
		{"pw", 2, "pw"},       {"pw\n", 3, "pw"},   {"pw\nmore\n", 8, "pw"},
		{" pw \n", 5, " pw "}, {"pw\r\n", 4, NULL}, {"", 0, NULL},
		{"\n", 1, NULL},       {"\npw\n", 4, NULL}, {"a\0b\n", 4, NULL},
		{much, 4097, NULL},    {much, 5000, NULL},
	};
	for (size_t i = 0; i < COUNT(files); i++) {
		write_file(path, files[i].bytes, files[i].size);
		assert_int_equal(lk_config_set(config, "password", "before", NULL), 0);
		int status = lk_config_set(config, "password_file", path, NULL);
		assert_int_equal(status, files[i].password ? 0 : LK_EINVAL);
		assert_string_equal(config->password,
				    files[i].password ? files[i].password : "before");
	}
	write_file(path, much, 4096);
	assert_int_equal(lk_config_set(config, "password_file", path, NULL), 0);
	assert_int_equal(strlen(config->password), 4096);
	assert_value(config, "password_file", path);
	assert_int_equal(lk_config_set(config, "password_file", "", NULL), 0);
	assert_int_equal(strlen(config->password), 4096);
	unlink(path);
}

static void test_an_unreadable_password_file(void **state)
{
	lk_error error;
	assert_int_equal(lk_config_set(*state, "password_file", "/nonexistent/pw", &error),
			 LK_EINVAL);
	assert_non_null(strstr(error.message, "password_file: \"/nonexistent/pw\""));
	assert_non_null(strstr(error.message, "No such file"));
	assert_true(error.system_errno != 0);
	assert_int_equal(lk_config_set(*state, "password_file", "/", &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "Is a directory"));
}

/* From the folder in which the program is when it sets the option. */
static void test_a_file_is_meant_from_the_folder(void **state)
{
	lk_config *config = *state;
	char before[PATH_MAX];
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir("/dev"), 0);
	assert_int_equal(lk_config_set(config, "tls_ca_file", "ca.pem", NULL), 0);
	assert_int_equal(lk_config_set(config, "url", "rediss://h?tls_key_file=../k", NULL), 0);
	assert_int_equal(lk_config_set(config, "tls_cert_file", "", NULL), 0);
	assert_int_equal(chdir(before), 0);
	assert_string_equal(config->tls_ca_file, "/dev/ca.pem");
	assert_string_equal(config->tls_key_file, "/dev/../k");
	assert_string_equal(config->tls_cert_file, "");
}

static void pipe_write(const char *path)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "pass", 4) != 4)
		_exit(1);
	poll(NULL, 0, 50);
	_exit(write(fd, "word\nmore", 9) != 9);
}

/* One that nobody writes to is not waited for without end. */
static void test_a_password_through_a_pipe(void **state)
{
	lk_config *config = *state;
	lk_error error;
	char path[] = "/tmp/lockkeeper-test-XXXXXX";
	assert_non_null(mkdtemp(path));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	pid_t writer = fork();
	if (writer == 0)
		pipe_write(path);
	assert_int_equal(lk_config_set(config, "password_file", path, NULL), 0);
	assert_string_equal(config->password, "password");
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	assert_int_equal(lk_config_set(config, "password_file", path, &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "timed out"));
	assert_string_equal(config->password, "password");
	assert_int_equal(lk_config_set(config, "password_file", "/dev/zero", &error), LK_EINVAL);
	assert_non_null(strstr(error.message, "more than 4096 bytes"));
	unlink(path);
}

static void test_copies_are_deep(void **state)
{
	lk_config *config = *state;
	assert_int_equal(lk_config_set(config, "url", "redis://u:p@h/1", NULL), 0);
	struct lk_config *copy = lk__config_copy(config);
	assert_non_null(copy);
	assert_int_equal(lk_config_set(config, "url", "unix:///x", NULL), 0);
	assert_int_equal(lk_config_set(config, "password", "q", NULL), 0);
	assert_string_equal(copy->host, "h");
	assert_string_equal(copy->password, "p");
	assert_string_equal(copy->url, "redis://u:***@h/1");
	assert_int_equal(copy->database, 1);
	lk_config_free(copy);
}

static void test_contradictions_are_found(void **state)
{
	static const struct {
		const char *url;
		const char *name;
		const char *value;
		const char *reason; /* NULL: none */
	} cases[] = {
		{"", "spin_us", "1", "no node"},
		{"redis://h", "spin_us", "1", NULL},
		{"redis://h", "username", "u", "username"},
		{"redis://u:p@h", "username", "v", NULL},
		{"rediss://h", "tls_ca_file", "/x", NULL},
		{"redis://h", "tls_ca_file", "/x", "rediss"},
		{"redis://h", "tls_server_name", "x", "rediss"},
		{"redis://h", "tls_ca_dir", "/x", "rediss"},
		{"redis://h", "tls_ca_data", "x", "rediss"},
		{"redis://h", "tls_verify", "off", "rediss"},
		{"redis://h", "tls_verify", "on", NULL},
		{"redis-sentinel://h/m?sentinel_tls=on", "tls_verify", "off", NULL},
		{"rediss://h", "tls_key_password", "x", "tls_key_file"},
		{"rediss://h?tls_key_file=/y&tls_cert_file=/x", "tls_key_password", "x", NULL},
		{"rediss://h", "tls_cert_file", "/x", "tls_key_file"},
		{"rediss://h", "tls_key_file", "/x", "tls_cert_file"},
		{"rediss://h?tls_key_file=/y", "tls_cert_file", "/x", NULL},
		{"redis://h", "backoff_min_ms", "2001", "backoff_min_ms"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_checks(cases[i].url, cases[i].name, cases[i].value, 0, cases[i].reason);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_every_option_is_described),
		TEST(test_numbers_end_at_their_range),
		TEST(test_junk_is_not_a_number),
		TEST(test_messages_name_option_value_and_reason),
		TEST(test_wrong_calls),
		TEST(test_texts_are_bounded),
		TEST(test_certificates_may_be_longer),
		TEST(test_the_password_of_a_key),
		TEST(test_the_name_in_a_certificate),
		TEST(test_a_map_of_addresses_is_checked),
		TEST(test_a_map_without_threads),
		TEST(test_get_writes_no_more_than_there_is_room),
		TEST(test_secrets_are_not_shown),
		TEST(test_the_environment_is_read),
		TEST(test_a_bad_environment_changes_nothing),
		TEST(test_the_password_file),
		TEST(test_an_unreadable_password_file),
		TEST(test_a_file_is_meant_from_the_folder),
		TEST(test_a_password_through_a_pipe),
		TEST(test_what_stands_around_a_value_is_told),
		TEST(test_copies_are_deep),
		TEST(test_contradictions_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
