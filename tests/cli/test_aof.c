/* SPDX-License-Identifier: MIT */
/* How much of an append-only file is whole: cut at every byte, and with rubbish from every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../cli/aof.h"

/* Of Redis 7.0, without a key. */
static const unsigned char image[] = {
	0x52, 0x45, 0x44, 0x49, 0x53, 0x30, 0x30, 0x31, 0x30, 0xfa, 0x09, 0x72, 0x65, 0x64, 0x69,
	0x73, 0x2d, 0x76, 0x65, 0x72, 0x06, 0x37, 0x2e, 0x30, 0x2e, 0x31, 0x35, 0xfa, 0x0a, 0x72,
	0x65, 0x64, 0x69, 0x73, 0x2d, 0x62, 0x69, 0x74, 0x73, 0xc0, 0x40, 0xfa, 0x05, 0x63, 0x74,
	0x69, 0x6d, 0x65, 0xc2, 0xaa, 0xa1, 0x0a, 0x6b, 0xfa, 0x08, 0x75, 0x73, 0x65, 0x64, 0x2d,
	0x6d, 0x65, 0x6d, 0xc2, 0x10, 0x60, 0x0d, 0x00, 0xfa, 0x08, 0x61, 0x6f, 0x66, 0x2d, 0x62,
	0x61, 0x73, 0x65, 0xc0, 0x01, 0xff, 0x5d, 0xe0, 0xbe, 0x3a, 0x59, 0x46, 0x7a, 0xd2,
};

/* Of Redis 7.0, with one lock in it: its data end with FF, as the image does, and its checksum with
 * a zero. */
static const unsigned char ambiguous[] = {
	0x52, 0x45, 0x44, 0x49, 0x53, 0x30, 0x30, 0x31, 0x30, 0xfa, 0x09, 0x72, 0x65, 0x64, 0x69,
	0x73, 0x2d, 0x76, 0x65, 0x72, 0x06, 0x37, 0x2e, 0x30, 0x2e, 0x31, 0x35, 0xfa, 0x0a, 0x72,
	0x65, 0x64, 0x69, 0x73, 0x2d, 0x62, 0x69, 0x74, 0x73, 0xc0, 0x40, 0xfa, 0x05, 0x63, 0x74,
	0x69, 0x6d, 0x65, 0xc2, 0x25, 0xa2, 0x0a, 0x6b, 0xfa, 0x08, 0x75, 0x73, 0x65, 0x64, 0x2d,
	0x6d, 0x65, 0x6d, 0xc2, 0x48, 0xaf, 0x0f, 0x00, 0xfa, 0x08, 0x61, 0x6f, 0x66, 0x2d, 0x62,
	0x61, 0x73, 0x65, 0xc0, 0x01, 0xfe, 0x00, 0xfb, 0x01, 0x01, 0xfc, 0xe1, 0x51, 0xc0, 0x21,
	0xa2, 0x01, 0x00, 0x00, 0x10, 0x05, 0x66, 0x69, 0x72, 0x73, 0x74, 0x31, 0x31, 0x00, 0x00,
	0x00, 0x02, 0x00, 0xa6, 0x66, 0x64, 0x33, 0x37, 0x35, 0x37, 0x32, 0x61, 0x2d, 0x33, 0x64,
	0x39, 0x38, 0x2d, 0x34, 0x37, 0x64, 0x36, 0x2d, 0x61, 0x62, 0x30, 0x30, 0x2d, 0x39, 0x36,
	0x33, 0x30, 0x31, 0x30, 0x65, 0x32, 0x63, 0x37, 0x36, 0x32, 0x3a, 0x31, 0x27, 0x01, 0x01,
	0xff, 0xff, 0xe2, 0x98, 0x56, 0x1c, 0x80, 0xc4, 0xdb, 0x00,
};

static const char commands[] = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
			       "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n*1\r\n\r\n"
			       "*1\r\n$5\r\nMULTI\r\n"
			       "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"
			       "*3\r\n$7\r\npexpire\r\n$1\r\nk\r\n$0\r\n\r\n"
			       "*1\r\n$4\r\nEXEC\r\n"
			       "#TS:1764321123\r\n"
			       "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
#define COMMANDS_SIZE (sizeof(commands) - 1)

/* The ends of what is whole, in order. */
static size_t ends[8];

static void ends_find(void)
{
	static const char *const starts[] = {"*3\r\n$3\r\nSET", "*1\r\n$5", "#TS", "*2\r\n$4"};
	size_t count = 0;
	ends[count++] = 0;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		ends[count++] = (size_t)(strstr(commands, starts[i]) - commands);
	ends[count] = COMMANDS_SIZE;
}

/* What must be whole when the first `size` bytes of the commands are as they were. */
static size_t whole_of(size_t size)
{
	size_t whole = 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (ends[i] <= size && ends[i] > whole)
			whole = ends[i];
	}
	return whole;
}

static size_t measure(const void *bytes, size_t size)
{
	off_t whole = -1;
	FILE *file = tmpfile();
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	rewind(file);
	assert_int_equal(aof_measure(file, &whole), 0);
	fclose(file);
	return (size_t)whole;
}

/* Of bytes of which the first `size` are commands, and all others the same. */
static size_t measure_filled(size_t size, int filler, size_t more)
{
	char bytes[1024];
	memset(bytes, filler, sizeof(bytes));
	memcpy(bytes, commands, size);
	return measure(bytes, size + more);
}

static void test_commands_cut_anywhere(void **state)
{
	for (size_t size = 0; size <= COMMANDS_SIZE; size++)
		assert_int_equal(measure(commands, size), whole_of(size));
}

static void test_commands_and_rubbish(void **state)
{
	static const unsigned char fillers[] = {0, 0xFF, '*', '$', '1', '\r', '\n', ' ', 'A'};
	for (size_t size = 0; size <= COMMANDS_SIZE; size++) {
		for (size_t i = 0; i < sizeof(fillers); i++) {
			size_t whole = measure_filled(size, fillers[i], 300);
			/* A filler may be the byte that stood there, or end the line of a time. */
			assert_true(whole >= whole_of(size) && whole <= size + 1);
		}
	}
}

/* The lengths are right, the words are gone. */
static void test_a_zeroed_name(void **state)
{
	static const char zeroed[] = "*1\r\n$4\r\n\0\0\0\0\r\n";
	assert_int_equal(measure(zeroed, sizeof(zeroed) - 1), 0);
}

static void test_absurd_numbers(void **state)
{
	static const char *const words[] = {
		"*0\r\n",          "*-1\r\n",
		"*\r\n",           "*99999999999999999999\r\n$4\r\nPING\r\n",
		"*1\r\n$-1\r\n",   "*1\r\n$99999999999999999999\r\nPING\r\n",
		"*1 \r\n$4\r\n",   "*1\n$4\nPING\n",
		"*9999999999\r\n", "*1\r\n$9999999999\r\nPING\r\n",
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(measure(words[i], strlen(words[i])), 0);
}

static void test_an_image_cut_anywhere(void **state)
{
	assert_int_equal(measure(image, sizeof(image)), sizeof(image));
	for (size_t size = 0; size < sizeof(image); size++)
		assert_int_equal(measure(image, size), 0);
}

static void test_an_image_with_one_other_bit(void **state)
{
	unsigned char bytes[sizeof(image)];
	for (size_t bit = 0; bit < 8 * sizeof(image); bit++) {
		memcpy(bytes, image, sizeof(image));
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_int_equal(measure(bytes, sizeof(bytes)), 0);
	}
}

static void test_an_image_and_commands(void **state)
{
	unsigned char bytes[sizeof(image) + COMMANDS_SIZE];
	memcpy(bytes, image, sizeof(image));
	memcpy(bytes + sizeof(image), commands, COMMANDS_SIZE);
	for (size_t size = 0; size <= COMMANDS_SIZE; size++)
		assert_int_equal(measure(bytes, sizeof(image) + size),
				 sizeof(image) + whole_of(size));
}

static void test_an_image_and_rubbish(void **state)
{
	static const unsigned char fillers[] = {0, 0xFF, 'x', '*', '#', '\n'};
	unsigned char bytes[sizeof(image) + 100];
	for (size_t i = 0; i < sizeof(fillers); i++) {
		memset(bytes, fillers[i], sizeof(bytes));
		memcpy(bytes, image, sizeof(image));
		assert_int_equal(measure(bytes, sizeof(bytes)), sizeof(image));
	}
}

/* A lock's data are such that one image of 256 is like this one. */
static void test_an_image_that_seems_to_end_twice(void **state)
{
	unsigned char bytes[sizeof(ambiguous) + COMMANDS_SIZE] = {0};
	assert_int_equal(measure(ambiguous, sizeof(ambiguous)), sizeof(ambiguous));
	memcpy(bytes, ambiguous, sizeof(ambiguous));
	assert_int_equal(measure(bytes, sizeof(bytes)), 0); /* of zeros, which belongs to it? */
	memcpy(bytes + sizeof(ambiguous), commands, COMMANDS_SIZE);
	assert_int_equal(measure(bytes, sizeof(bytes)), sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands_cut_anywhere),
		cmocka_unit_test(test_commands_and_rubbish),
		cmocka_unit_test(test_a_zeroed_name),
		cmocka_unit_test(test_absurd_numbers),
		cmocka_unit_test(test_an_image_cut_anywhere),
		cmocka_unit_test(test_an_image_with_one_other_bit),
		cmocka_unit_test(test_an_image_and_commands),
		cmocka_unit_test(test_an_image_and_rubbish),
		cmocka_unit_test(test_an_image_that_seems_to_end_twice),
	};
	ends_find();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
