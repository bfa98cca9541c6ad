/* Slots, as CLUSTER KEYSLOT of a Redis 7.0 server has answered for these keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"

static uint16_t slot(const char *key)
{
	return lk__slot_of(key, strlen(key));
}

static void test_the_specification(void **state)
{
	assert_int_equal(slot("123456789"), 0x31c3);
	assert_int_equal(slot(""), 0);
}

static void test_hash_tags(void **state)
{
	assert_int_equal(slot("redisson_lock__channel:{some}"), slot("some"));
	assert_int_equal(slot("{user1000}.following"), slot("{user1000}.followers"));
	assert_int_equal(slot("foo{{bar}}zap"), slot("{bar"));
	assert_int_equal(slot("foo{bar}{zap}"), slot("bar"));
	assert_int_not_equal(slot("foo{}{bar}"), slot("bar"));
	assert_int_not_equal(slot("}some{"), slot("some"));
}

static void test_bytes(void **state)
{
	assert_int_not_equal(lk__slot_of("a\0b", 3), lk__slot_of("a\0c", 3));
	assert_int_equal(lk__slot_of("\0{\xff\xfe}\0", 6), lk__slot_of("\xff\xfe", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_specification),
		cmocka_unit_test(test_hash_tags),
		cmocka_unit_test(test_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
