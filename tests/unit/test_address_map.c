/* The option address_map: what it takes, and what it makes of an address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "conf/url.h"
#include "unit.h"

static const char *mapped(const char *map, const char *host, int port)
{
	static char text[LK__PLACE_SIZE];
	char to[LK__PLACE_SIZE];
	int to_port = 0;
	bool found = lk__address_map(map, host, port, to, &to_port);
	lk__place_name(text, to, to_port);
	assert_true(found || (strcmp(to, host) == 0 && to_port == port));
	return text;
}

static void test_what_is_a_map(void **state)
{
	static const char *const maps[] = {
		"",
		"a=b",
		"a:1=b:2",
		"10.0.0.5:6379=192.0.2.1:7001,10.0.0.6=proxy.example",
		"[fe80::1]:1=[::1]:65535,[::2]=c",
		"a=b,a:1=b:2,a:2=b:2,b=a",
	};
	static const char *const faults[] = {
		"a",
		"a=",
		"=b",
		"a:1=b",
		"a=b:1",
		"a:1=b:",
		"a:0=b:1",
		"a:1=b:0",
		"a:65536=b:1",
		"a:1=b:+1",
		"a=b,",
		",a=b",
		"a=b,,c=d",
		"a=b=c",
		"fe80::1=a",
		"[fe80::1=a",
		"[]=a",
		"[a]=b",
		"[::1]x=b",
		"1.2.3=b",
		"a=b c",
		"a=b, c=d",
		"a:1:2=b:1",
		"a=b,a=c",
		"a=b,A=c",
		"a:1=b:1,A:1=c:1",
		"a:999999999999=b:1",
	};
	for (size_t i = 0; i < COUNT(maps); i++)
		assert_null(lk__address_map_fault(maps[i]));
	for (size_t i = 0; i < COUNT(faults); i++)
		if (!lk__address_map_fault(faults[i]))
			fail_msg("\"%s\" was taken", faults[i]);
}

static void test_where_it_leads(void **state)
{
	const char *map = "a=b,c:1=d:2,c=e,[::1]:6379=[::2]:7,f:5=[::3]:8";
	assert_string_equal(mapped(map, "a", 6379), "b:6379");
	assert_string_equal(mapped(map, "A", 6379), "b:6379");
	assert_string_equal(mapped(map, "b", 6379), "b:6379");
	assert_string_equal(mapped(map, "c", 1), "d:2");
	assert_string_equal(mapped(map, "c", 2), "e:2");
	assert_string_equal(mapped(map, "::1", 6379), "[::2]:7");
	assert_string_equal(mapped(map, "::1", 6380), "[::1]:6380");
	assert_string_equal(mapped(map, "f", 5), "[::3]:8");
	assert_string_equal(mapped("c=e,c:1=d:2", "c", 1), "d:2");
	assert_string_equal(mapped("", "a", 1), "a:1");
}

static void test_names_on_the_right(void **state)
{
	char host[LK__PLACE_SIZE];
	assert_false(lk__address_map_name("", host));
	assert_false(lk__address_map_name("name=127.0.0.1,other:1=[::1]:2", host));
	assert_true(lk__address_map_name("a=127.0.0.1,10.0.0.1=name,b=other", host));
	assert_string_equal(host, "name");
}

/* No text makes it read beyond its end, or take what it then does not understand. */
static void test_any_text(void **state)
{
	static const char letters[] = "a1:=,.[]";
	char text[9] = "", host[LK__PLACE_SIZE];
	int port;
	for (uint64_t seed = 0; seed < 2000000; seed++) {
		uint64_t left = seed * 0x9e3779b97f4a7c15u >> 24;
		size_t size = seed % sizeof(text);
		for (size_t i = 0; i < size; i++, left /= 8)
			text[i] = letters[left % 8];
		text[size] = '\0';
		if (lk__address_map_fault(text))
			continue;
		lk__address_map(text, "a", 1, host, &port);
		assert_true(*host && port > 0 && port <= 65535);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_a_map),
		cmocka_unit_test(test_where_it_leads),
		cmocka_unit_test(test_names_on_the_right),
		cmocka_unit_test(test_any_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
