/* What every unit suite includes first: cmocka and what it needs. */
#ifndef UNIT_H
#define UNIT_H

#include <dlfcn.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Skips a test where the system has no OpenSSL for this C library. */
#define needs_openssl()                                                                            \
	do {                                                                                       \
		void *library_ = dlopen("libssl.so.3", RTLD_LAZY);                                 \
		if (!library_) {                                                                   \
			print_message("it needs an OpenSSL for this C library\n");                 \
			skip();                                                                    \
		}                                                                                  \
		dlclose(library_);                                                                 \
	} while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* With both ends. cmocka's own has another name in 1.1 than in 2. */
#define assert_between(value, least, most)                                                         \
	do {                                                                                       \
		int64_t value_ = (int64_t)(value);                                                 \
		int64_t least_ = (int64_t)(least), most_ = (int64_t)(most);                        \
		if (value_ < least_ || value_ > most_)                                             \
			fail_msg("%s is %" PRId64 ", not from %" PRId64 " to %" PRId64, #value,    \
				 value_, least_, most_);                                           \
	} while (0)

#endif
