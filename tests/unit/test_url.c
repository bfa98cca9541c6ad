/* URLs: what is taken, what is refused, and that nothing of a password is ever shown. */
#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "conf/config.h"
#include "conf/url.h"

static lk_config *config_new(void)
{
	lk_config *config = NULL;
	assert_int_equal(lk_config_new(&config, NULL), 0);
	return config;
}

static void test_good_urls(void **state)
{
	static const struct {
		const char *url;
		int scheme;
		const char *host;
		int port;
		const char *user;
		const char *password;
		int database;
		const char *shown; /* NULL: as it is */
	} rows[] = {
		{"redis://localhost", LK__SCHEME_TCP, "localhost", 6379, "", "", 0, NULL},
		{"redis://localhost/", LK__SCHEME_TCP, "localhost", 6379, "", "", 0, NULL},
		{"redis://localhost:1", LK__SCHEME_TCP, "localhost", 1, "", "", 0, NULL},
		{"redis://localhost:65535/", LK__SCHEME_TCP, "localhost", 65535, "", "", 0, NULL},
		{"rediss://a.b-c_d.example.:7000/15", LK__SCHEME_TLS, "a.b-c_d.example.", 7000, "",
		 "", 15, NULL},
		{"valkey://h:1", LK__SCHEME_TCP, "h", 1, "", "", 0, NULL},
		{"valkeys://h:1/2", LK__SCHEME_TLS, "h", 1, "", "", 2, NULL},
		{"redis://127.0.0.1:7000/0", LK__SCHEME_TCP, "127.0.0.1", 7000, "", "", 0, NULL},
		{"redis://[::1]", LK__SCHEME_TCP, "::1", 6379, "", "", 0, NULL},
		{"redis://[::1]:7000/2", LK__SCHEME_TCP, "::1", 7000, "", "", 2, NULL},
		{"rediss://[2001:db8::ffff:10.0.0.1]:1", LK__SCHEME_TLS, "2001:db8::ffff:10.0.0.1",
		 1, "", "", 0, NULL},
		{"redis://:secret@h", LK__SCHEME_TCP, "h", 6379, "", "secret", 0, "redis://:***@h"},
		{"redis://user@h", LK__SCHEME_TCP, "h", 6379, "user", "", 0, NULL},
		{"redis://user:secret@h:1/3", LK__SCHEME_TCP, "h", 1, "user", "secret", 3,
		 "redis://user:***@h:1/3"},
		{"redis://u%40x:p%40%3a%2F%25%c3%A9@h", LK__SCHEME_TCP, "h", 6379, "u@x",
		 "p@:/%\xc3\xa9", 0, "redis://u%40x:***@h"},
		{"redis://u:a:b@h", LK__SCHEME_TCP, "h", 6379, "u", "a:b", 0, "redis://u:***@h"},
		{"redis://u:p@[::1]:1", LK__SCHEME_TCP, "::1", 1, "u", "p", 0,
		 "redis://u:***@[::1]:1"},
		{"redis://h?db=7", LK__SCHEME_TCP, "h", 6379, "", "", 7, NULL},
		{"redis://h/?database=7", LK__SCHEME_TCP, "h", 6379, "", "", 7, NULL},
		{"unix:///run/x.sock", LK__SCHEME_UNIX, "/run/x.sock", 0, "", "", 0, NULL},
		{"unix:///with%20blank%3F%23", LK__SCHEME_UNIX, "/with blank?#", 0, "", "", 0,
		 NULL},
		{"unix:///run/x.sock?db=9", LK__SCHEME_UNIX, "/run/x.sock", 0, "", "", 9, NULL},
		{"unix://:pw@/run/x.sock?db=9", LK__SCHEME_UNIX, "/run/x.sock", 0, "", "pw", 9,
		 "unix://:***@/run/x.sock?db=9"},
		{"unix://u:p%2Fw@/x.sock", LK__SCHEME_UNIX, "/x.sock", 0, "u", "p/w", 0,
		 "unix://u:***@/x.sock"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		lk_config *config = config_new();
		lk_error error = {0};
		if (lk_config_set(config, "url", rows[i].url, &error) != 0)
			fail_msg("%s: %s", rows[i].url, error.message);
		print_message("%s\n", rows[i].url);
		assert_int_equal(config->scheme, rows[i].scheme);
		assert_string_equal(config->host, rows[i].host);
		assert_int_equal(config->port, rows[i].port);
		assert_string_equal(config->username, rows[i].user);
		assert_string_equal(config->password, rows[i].password);
		assert_int_equal(config->database, rows[i].database);
		assert_string_equal(config->url, rows[i].shown ? rows[i].shown : rows[i].url);
		lk_config_free(config);
	}
}

/* `reason` is a piece of the message; every message begins with "url: " or the option's name. */
static const struct {
	const char *url;
	const char *reason;
} malformed[] = {
	{" ", "blank"},
	{"redis", "scheme"},
	{"redis:", "scheme"},
	{"redis:/", "scheme"},
	{"redis:host", "scheme"},
	{"redis:/host", "scheme"},
	{"//host", "scheme"},
	{"://host", "scheme"},
	{"localhost:6379", "scheme"},
	{"http://host", "scheme"},
	{"REDIS://host", "scheme"},
	{"redis+tls://host", "scheme"},
	{"redis-sentinel:host/m", "scheme"},
	{"redis-sentinels://host/m", "scheme"},
	{"unix-sentinel:///run/x", "scheme"},
	{"redis-replica://a,b", "scheme"},
	{"redis-cluster://", "host is empty"},
	{"redis-cluster://a,", "host is empty"},
	{"redis-cluster://a,a", "lists an address twice"},
	{"redis-cluster://a:1,b:0", "port"},
	{"redis-sentinel://", "host is empty"},
	{"redis-sentinel:///m", "host is empty"},
	{"redis-sentinel://host", "name of the master"},
	{"redis-sentinel://host/", "name of the master"},
	{"redis-sentinel://host//0", "name of the master"},
	{"redis-sentinel://a,b?db=1", "name of the master"},
	{"redis-sentinel://a,b/m/x", "database"},
	{"redis-sentinel://a,b/m/0/0", "database"},
	{"redis-sentinel://a,b/m/0?db=0", "named twice"},
	{"redis-sentinel://a,/m", "host is empty"},
	{"redis-sentinel://,a/m", "host is empty"},
	{"redis-sentinel://a,,b/m", "host is empty"},
	{"redis-sentinel://a:1,b:0/m", "port"},
	{"redis-sentinel://a:1,b:65536/m", "port"},
	{"redis-sentinel://a:1,b:x/m", "port"},
	{"redis-sentinel://a:1,b!/m", "a host name cannot have"},
	{"redis-sentinel://[::1,b/m", "not closed"},
	{"redis-sentinel://a:1,[::g]/m", "IPv6"},
	{"redis-sentinel://a:1,a:1/m", "an address twice"},
	{"redis-sentinel://a,A:26379/m", "an address twice"},
	{"redis-sentinel://a,u:p@b/m", "before the first address"},
	{"redis-sentinel://a/m?sentinel_password=p", "cannot set sentinel_password"},
	{"redis-sentinel://a/m?sentinel_password_file=/p", "cannot set sentinel_password_file"},
	{"rediss://a?tls_key_password=p", "cannot set tls_key_password"},
	{"rediss://a?tls_key_password_file=/p", "cannot set tls_key_password_file"},
	{"redis-sentinel://a/m?sentinel_username=p", "cannot set sentinel_username"},
	{"redis-sentinel://a/m?sentinel_tls=maybe", "is not on, off or empty"},
	{"redis-replicas://", "host is empty"},
	{"redis-replicas://a", "lists one address"},
	{"redis-replicas://a:1/0", "lists one address"},
	{"redis-replicas://a,b/m", "database"},
	{"redis-replicas://a,b:", "port"},
	{"redis-replicas://a,b,", "host is empty"},
	{"redis-replicas://a,b,a", "an address twice"},
	{"redis-replicas://a,a:6379", "an address twice"},
	{"redis-replicas://a,[::1", "not closed"},
	{"redis-replicas://a,b?", "query is empty"},
	{"redis-replicas://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16"},
	{" redis://host", "blank"},
	{"redis://host ", "blank"},
	{"redis://ho st", "blank"},
	{"redis://host\n", "ends in a line break"},
	{"redis://host\r\n", "ends in a line break"},
	{"\"redis://host\"", "is in quotes"},
	{"'redis://host'", "is in quotes"},
	{"'redis://host", "begins with a quote"},
	{"redis://a, redis://b", "blank behind a comma"},
	{"user:word@host", "write redis:// before the host"},
	{"/run/x.sock", "write unix:// before the path"},
	{"redis://host\t/0", "blank or control"},
	{"redis://ho\x01st", "blank or control"},
	{"redis://host\x7f", "blank or control"},
	{"redis://h\xc3\xb6st", "a host name cannot have"},
	{"redis://", "host is empty"},
	{"redis:///", "host is empty"},
	{"redis:///0", "host is empty"},
	{"redis://:6379", "host is empty"},
	{"redis://?db=1", "host is empty"},
	{"redis://user@", "host is empty"},
	{"redis://user:pw@:6379", "host is empty"},
	{"redis://host:1,host:2,host:3", "names one server; a quorum is several whole URLs"},
	{"redis://a,b", "names one server"},
	{"rediss://[::1]:1,b/0", "names one server"},
	{"redis://a,redis://b", "names one server"},
	{"redis://user:pw@a,b", "names one server"},
	{"redis://host:", "port"},
	{"redis://host:/0", "port"},
	{"redis://host:0", "port"},
	{"redis://host:65536", "port"},
	{"redis://host:99999", "port"},
	{"redis://host:4294973675", "port"},
	{"redis://host:18446744073709551617", "port"},
	{"redis://host:-1", "port"},
	{"redis://host:+1", "port"},
	{"redis://host:06379", "port"},
	{"redis://host:6379x", "port"},
	{"redis://host:0x50", "port"},
	{"redis://host:1e3", "port"},
	{"redis://host:63%379", "port"},
	{"redis://host:6379:6379", "port"},
	{"redis://host,other", "names one server"},
	{"redis://host1:6379,host2:6379", "names one server"},
	{"redis://ho%73t", "a host name cannot have"},
	{"redis://host!", "a host name cannot have"},
	{"redis://.host", "empty label"},
	{"redis://a..b", "empty label"},
	{"redis://.", "IPv4"},
	{"redis://256.0.0.1", "IPv4"},
	{"redis://127.1", "IPv4"},
	{"redis://1.2.3.4.5", "IPv4"},
	{"redis://12345", "IPv4"},
	{"redis://::1", "host is empty"},
	{"redis://[::1", "not closed"},
	{"redis://::1]", "host is empty"},
	{"redis://[]", "IPv6"},
	{"redis://[1.2.3.4]", "IPv6"},
	{"redis://[host]", "IPv6"},
	{"redis://[::1%25lo]", "IPv6"},
	{"redis://[::g]", "IPv6"},
	{"redis://[::1]7000", "between the host and the port"},
	{"redis://[::1]]", "between the host and the port"},
	{"redis://[::1]:", "port"},
	{"redis://host/x", "database"},
	{"redis://host/-1", "database"},
	{"redis://host/01", "database"},
	{"redis://host/1/", "database"},
	{"redis://host/1/2", "database"},
	{"redis://host//1", "database"},
	{"redis://host/1000001", "range"},
	{"redis://host/99999999999999999999", "database"},
	{"redis://host/1?db=1", "named twice"},
	{"redis://host?db=1&database=1", "named twice"},
	{"redis://host?", "query is empty"},
	{"redis://host/0?", "query is empty"},
	{"redis://host?db", "name=value"},
	{"redis://host?=1", "name=value"},
	{"redis://host?&", "name=value"},
	{"redis://host?db=1&", "ends in '&'"},
	{"redis://host?db=1&&spin_us=1", "name=value"},
	{"redis://host?db=", "database"},
	{"redis://host?nonsense=1", "\"nonsense\" is not an option"},
	{"redis://host?spin_us=x", "spin_us"},
	{"redis://host?spin_us=1001", "range"},
	{"redis://host?spin_us=1&spin_us=1", "twice"},
	{"redis://host?url=redis:%2F%2Fother", "cannot set url"},
	{"redis://host?username=u", "cannot set username"},
	{"redis://host?password=p", "cannot set password"},
	{"redis://host?password_file=%2Fdev%2Fnull", "cannot set password_file"},
	{"redis://host#1", "%23"},
	{"redis://host/0#", "%23"},
	{"redis://host?client_name=a%", "two hex digits"},
	{"redis://host?client_name=a%4", "two hex digits"},
	{"redis://u:%zz@host", "two hex digits"},
	{"redis://u:%4g@host", "two hex digits"},
	{"redis://u:%%@host", "two hex digits"},
	{"redis://u:a%00b@host", "%00"},
	{"redis://@host", "before the '@'"},
	{"redis://:@host", "password is empty"},
	{"redis://u:@host", "password is empty"},
	{"redis://u:p@x@host", "%40"},
	{"redis://u:p/x@host", "%40"},
	{"redis://u:p?x=y@host", "%40"},
	{"redis://u:12?db=1@host", "%40"},
	{"redis://host/0@", "%40"},
	{"redis://host?client_name=a@b", "%40"},
	{"unix://", "path of the socket is empty"},
	{"unix://?db=1", "path of the socket is empty"},
	{"unix://u:p@", "path of the socket is empty"},
	{"unix:///run/a@b", "%40"},
	{"unix://u:p/w@/run/x", "%40"},
	{"unix:///run/%00x", "%00"},
	{"unix:///run/x?db=x", "database"},
	{"unix:/run/x", "scheme"},
};

static void test_malformed_urls_are_refused_whole(void **state)
{
	assert_true(COUNT(malformed) >= 60);
	for (size_t i = 0; i < COUNT(malformed); i++) {
		lk_config *config = config_new();
		lk_error error = {0};
		assert_int_equal(lk_config_set(config, "url", "redis://u:old@before:1/2", NULL), 0);
		if (lk_config_set(config, "url", malformed[i].url, &error) != LK_EINVAL)
			fail_msg("taken: %s", malformed[i].url);
		if (!strstr(error.message, malformed[i].reason))
			fail_msg("%s: %s", malformed[i].url, error.message);
		assert_int_equal(error.code, LK_EINVAL);
		assert_string_equal(config->url, "redis://u:***@before:1/2");
		assert_string_equal(config->host, "before");
		assert_string_equal(config->password, "old");
		assert_int_equal(config->database, 2);
		lk_config_free(config);
	}
}

static void test_good_lists(void **state)
{
	static const struct {
		const char *url;
		int deployment;
		int scheme;
		const char *places;
		const char *master;
		const char *user;
		const char *password;
		int database;
		const char *shown; /* NULL: as it is */
	} rows[] = {
		{"redis-replicas://a,b:7", LK__REPLICAS, LK__SCHEME_TCP, "a:6379,b:7", "", "", "",
		 0, NULL},
		{"rediss-replicas://u:p@[::1]:7,[::2]/3", LK__REPLICAS, LK__SCHEME_TLS,
		 "[::1]:7,[::2]:6379", "", "u", "p", 3, "rediss-replicas://u:***@[::1]:7,[::2]/3"},
		{"valkey-replicas://a:1,a:2?db=4", LK__REPLICAS, LK__SCHEME_TCP, "a:1,a:2", "", "",
		 "", 4, NULL},
		{"valkeys-replicas://a:1,a:2/", LK__REPLICAS, LK__SCHEME_TLS, "a:1,a:2", "", "", "",
		 0, NULL},
		{"redis-cluster://a", LK__CLUSTER, LK__SCHEME_TCP, "a:6379", "", "", "", 0, NULL},
		{"rediss-cluster://u:p@a:1,[::1]:2", LK__CLUSTER, LK__SCHEME_TLS, "a:1,[::1]:2", "",
		 "u", "p", 0, "rediss-cluster://u:***@a:1,[::1]:2"},
		{"valkey-cluster://a,b/0", LK__CLUSTER, LK__SCHEME_TCP, "a:6379,b:6379", "", "", "",
		 0, NULL},
		{"valkeys-cluster://a:7", LK__CLUSTER, LK__SCHEME_TLS, "a:7", "", "", "", 0, NULL},
		{"redis-sentinel://a/m", LK__SENTINEL, LK__SCHEME_TCP, "a:26379", "m", "", "", 0,
		 NULL},
		{"redis-sentinel://:p@a:1,10.0.0.1,[::1]/my%20m%2F1/15", LK__SENTINEL,
		 LK__SCHEME_TCP, "a:1,10.0.0.1:26379,[::1]:26379", "my m/1", "", "p", 15,
		 "redis-sentinel://:***@a:1,10.0.0.1,[::1]/my%20m%2F1/15"},
		{"rediss-sentinel://a,b/m/", LK__SENTINEL, LK__SCHEME_TLS, "a:26379,b:26379", "m",
		 "", "", 0, NULL},
		{"valkey-sentinel://a,b/m?db=2", LK__SENTINEL, LK__SCHEME_TCP, "a:26379,b:26379",
		 "m", "", "", 2, NULL},
		{"valkeys-sentinel://a/m", LK__SENTINEL, LK__SCHEME_TLS, "a:26379", "m", "", "", 0,
		 NULL},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		lk_config *config = config_new();
		lk_error error = {0};
		if (lk_config_set(config, "url", rows[i].url, &error) != 0)
			fail_msg("%s: %s", rows[i].url, error.message);
		assert_int_equal(config->deployment, rows[i].deployment);
		assert_int_equal(config->scheme, rows[i].scheme);
		assert_string_equal(config->places, rows[i].places);
		assert_string_equal(config->master, rows[i].master);
		assert_string_equal(config->username, rows[i].user);
		assert_string_equal(config->password, rows[i].password);
		assert_int_equal(config->database, rows[i].database);
		assert_string_equal(config->url, rows[i].shown ? rows[i].shown : rows[i].url);
		assert_int_equal(lk_config_set(config, "url", "redis://h", NULL), 0);
		assert_int_equal(config->deployment, LK__SINGLE);
		assert_string_equal(config->places, "");
		assert_string_equal(config->master, "");
		lk_config_free(config);
	}
}

static void test_places_are_taken_apart(void **state)
{
	char host[LK__PLACE_SIZE], name[LK__PLACE_SIZE];
	int port = 0;
	const char *rest = lk__place_next("[::1]:7,a.b:65535", host, &port);
	assert_string_equal(host, "::1");
	assert_int_equal(port, 7);
	lk__place_name(name, host, port);
	assert_string_equal(name, "[::1]:7");
	rest = lk__place_next(rest, host, &port);
	assert_string_equal(host, "a.b");
	assert_int_equal(port, 65535);
	lk__place_name(name, host, port);
	assert_string_equal(name, "a.b:65535");
	assert_null(lk__place_next(rest, host, &port));
}

static void test_long_urls_are_refused(void **state)
{
	static char url[20000];
	lk_config *config = config_new();
	snprintf(url, sizeof(url), "redis://%0300d.example", 1);
	assert_int_equal(lk_config_set(config, "url", url, NULL), LK_EINVAL);
	snprintf(url, sizeof(url), "redis://u:%05000d@host", 1);
	assert_int_equal(lk_config_set(config, "url", url, NULL), LK_EINVAL);
	snprintf(url, sizeof(url), "redis://u:%019000d@host", 1);
	assert_int_equal(lk_config_set(config, "url", url, NULL), LK_EINVAL);
	snprintf(url, sizeof(url), "unix:///%0106d", 1); /* 107 bytes and a NUL are what fits */
	assert_int_equal(lk_config_set(config, "url", url, NULL), 0);
	snprintf(url, sizeof(url), "unix:///%0107d", 1);
	assert_int_equal(lk_config_set(config, "url", url, NULL), LK_EINVAL);
	lk_config_free(config);
}

/* From the folder in which the program is when it sets the URL; as it is, if that would not fit. */
static void test_a_path_is_meant_from_the_folder(void **state)
{
	static const struct {
		const char *folder;
		const char *url;
		const char *host;
		const char *shown;
	} rows[] = {
		{"/", "unix://x.sock", "/x.sock", "unix:///x.sock"},
		{"/usr", "unix://x.sock", "/usr/x.sock", "unix:///usr/x.sock"},
		{"/usr", "unix://u:p@../x%20y?db=3", "/usr/../x y",
		 "unix://u:***@/usr/../x%20y?db=3"},
		{"/usr", "unix://%2Fx", "/x", "unix://%2Fx"},
		{"/dev/pts", "unix://a?client_name=b%40c", "/dev/pts/a",
		 "unix:///dev/pts/a?client_name=b%40c"},
	};
	char before[PATH_MAX], folder[] = "/tmp/lk test?XXXXXX", host[64], shown[64], url[200];
	assert_non_null(getcwd(before, sizeof(before)));
	lk_config *config = config_new();
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(chdir(rows[i].folder), 0);
		assert_int_equal(lk_config_set(config, "url", rows[i].url, NULL), 0);
		assert_string_equal(config->host, rows[i].host);
		assert_string_equal(config->url, rows[i].shown);
	}
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(lk_config_set(config, "url", "unix://x", NULL), 0);
	snprintf(host, sizeof(host), "%s/x", folder);
	snprintf(shown, sizeof(shown), "unix:///tmp/lk%%20test%%3F%s/x", strchr(folder, '?') + 1);
	assert_string_equal(config->host, host);
	assert_string_equal(config->url, shown);
	snprintf(url, sizeof(url), "unix://%0107d", 1);
	assert_int_equal(lk_config_set(config, "url", url, NULL), 0);
	assert_string_equal(config->url, url);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(lk_config_set(config, "url", "unix://x", NULL), 0);
	assert_string_equal(config->host, "x");
	assert_int_equal(chdir(before), 0);
	lk_config_free(config);
}

/* However the URL is broken, no piece of the password may get into the message. */
static void test_messages_never_repeat_the_password(void **state)
{
	static const char *const urls[] = {
		"redis://u:hunter2@",
		"redis://u:hunter2@h:x",
		"redis://u:hunter2@h:0",
		"redis://u:hunter2@h/x",
		"redis://u:hunter2",
		"redis://u:hunter2/x@h",
		"redis://u:hunter2?a=b@h",
		"redis://u:hunter2?hunter2=b@h",
		"redis://u:hunter2#@h",
		"redis://u:hunter2@h?nonsense=1",
		"redis://u:hunter2@h?spin_us=x",
		"redis://u:hunter2%zz@h",
		"redis://u:hun@ter2@h",
		"redis:// u:hunter2@h",
		"unix://u:hunter2@",
		"unix://u:hunter2/x@p",
		"http://u:hunter2@h",
		"redis://u:hunter2@[h",
		"redis://u:hunter2@[::1",
		"redis://:hunter2@h/1?db=1",
		"redis-sentinel://u:hunter2@a,b",
		"redis-sentinel://u:hunter2,b/m",
		"redis-replicas://u:hunter2@a",
		"redis-replicas://a,u:hunter2",
		"redis-replicas://u:hunter2@a,a",
	};
	for (size_t i = 0; i < COUNT(urls); i++) {
		lk_config *config = config_new();
		lk_error error = {0};
		if (lk_config_set(config, "url", urls[i], &error) != LK_EINVAL)
			fail_msg("taken: %s", urls[i]);
		if (strstr(error.message, "hun") || strstr(error.message, "ter2"))
			fail_msg("%s: %s", urls[i], error.message);
		lk_config_free(config);
	}
}

static void test_the_query_sets_options(void **state)
{
	lk_config *config = config_new();
	assert_int_equal(lk_config_set(config, "url",
				       "rediss://h?client_name=a%26b&spin_us=0&tls_ca_file=/x%20y",
				       NULL),
			 0);
	assert_string_equal(config->client_name, "a&b");
	assert_int_equal(config->spin_us, 0);
	assert_string_equal(config->tls_ca_file, "/x y");
	lk_config_free(config);
}

static void test_the_last_to_set_wins(void **state)
{
	lk_config *config = config_new();
	assert_int_equal(lk_config_set(config, "password", "first", NULL), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://host", NULL), 0);
	assert_string_equal(config->password, "first");
	assert_int_equal(lk_config_set(config, "url", "redis://u:second@host/1", NULL), 0);
	assert_string_equal(config->password, "second");
	assert_int_equal(lk_config_set(config, "password", "third", NULL), 0);
	assert_int_equal(lk_config_set(config, "database", "4", NULL), 0);
	assert_string_equal(config->password, "third");
	assert_int_equal(config->database, 4);
	assert_int_equal(lk_config_set(config, "url", "", NULL), 0);
	assert_int_equal(config->scheme, LK__SCHEME_NONE);
	assert_string_equal(config->url, "");
	lk_config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_urls),
		cmocka_unit_test(test_malformed_urls_are_refused_whole),
		cmocka_unit_test(test_good_lists),
		cmocka_unit_test(test_places_are_taken_apart),
		cmocka_unit_test(test_long_urls_are_refused),
		cmocka_unit_test(test_a_path_is_meant_from_the_folder),
		cmocka_unit_test(test_messages_never_repeat_the_password),
		cmocka_unit_test(test_the_query_sets_options),
		cmocka_unit_test(test_the_last_to_set_wins),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
