/* SPDX-License-Identifier: MIT */
#include "kinds.h"

#include <string.h>

#include "common.h"

static int make_lock(lk_lock **lock_out, lk_client *client, const char *name, lk_error *error)
{
	return lk_lock_new(lock_out, client, name, strlen(name), error);
}

static int make_fair(lk_lock **lock_out, lk_client *client, const char *name, lk_error *error)
{
	return lk_fair_lock_new(lock_out, client, name, strlen(name), error);
}

/* The kinds whose constructors take options, by default ones. */
#define MAKE(function, constructor)                                                                \
	static int function(lk_lock **lock_out, lk_client *client, const char *name,               \
			    lk_error *error)                                                       \
	{                                                                                          \
		return constructor(lock_out, client, name, strlen(name), NULL, error);             \
	}
MAKE(make_fenced, lk_fenced_lock_new)
MAKE(make_plain, lk_plain_lock_new)
MAKE(make_read, lk_read_lock_new)
MAKE(make_spin, lk_spin_lock_new)
MAKE(make_write, lk_write_lock_new)
#undef MAKE

static const struct {
	const char *kind;
	int (*make)(lk_lock **lock_out, lk_client *client, const char *name, lk_error *error);
} kinds[] = {
	{"lock", make_lock},        {"fair-lock", make_fair}, {"fenced-lock", make_fenced},
	{"plain-lock", make_plain}, {"read-lock", make_read}, {"spin-lock", make_spin},
	{"write-lock", make_write},
};

lk_lock *bench_lock(lk_client *client, const char *kind, const char *name)
{
	lk_error error;
	lk_lock *lock;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].kind, kind) != 0)
			continue;
		if (kinds[i].make(&lock, client, name, &error))
			bench_die("%s", error.message);
		return lock;
	}
	bench_die("no kind is called %s", kind);
}
