/* The table of a client's entries: what is in it is found, each once in a walk. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/entry.h"
#include "lock/entry_table.h"

#define ENTRIES 1000

static const struct lk__recipe one, another;

/* One of a kind with words of an owner's part and a key. */
static struct lk__entry *make(const struct lk__recipe *recipe, const char *owner, const char *key)
{
	struct lk__entry *entry = calloc(1, sizeof(*entry) + strlen(owner) + strlen(key) + 1);
	assert_non_null(entry);
	entry->target.recipe = recipe;
	entry->target.key = strcpy(stpcpy(entry->words, owner), key);
	entry->target.key_size = (uint32_t)strlen(key);
	return entry;
}

static struct lk__entry *find(const struct lk__entries *entries, const struct lk__recipe *recipe,
			      const char *words)
{
	return lk__entries_find(entries, recipe, words, strlen(words));
}

static void add(struct lk__entries *entries, struct lk__entry *entry)
{
	assert_true(lk__entries_add(entries, entry));
}

static void remove_all(struct lk__entries *entries)
{
	struct lk__entry *entry;
	while ((entry = lk__entries_next(entries, NULL))) {
		lk__entries_remove(entries, entry);
		free(entry);
	}
	lk__entries_free(entries);
}

static void test_kind_and_words_find_an_entry(void **state)
{
	(void)state;
	struct lk__entries entries = {.count = 0};
	struct lk__entry *plain = make(&one, "", "name"), *other = make(&another, "", "name");
	struct lk__entry *owned = make(&one, "owner", "name");
	assert_null(find(&entries, &one, "name"));
	assert_null(lk__entries_next(&entries, NULL));
	add(&entries, plain);
	assert_null(find(&entries, &another, "name"));
	add(&entries, other);
	add(&entries, owned);
	assert_ptr_equal(find(&entries, &one, "name"), plain);
	assert_ptr_equal(find(&entries, &another, "name"), other);
	assert_ptr_equal(find(&entries, &one, "ownername"), owned);
	assert_null(find(&entries, &one, "nam"));
	lk__entries_remove(&entries, plain);
	free(plain);
	assert_null(find(&entries, &one, "name"));
	assert_ptr_equal(find(&entries, &another, "name"), other);
	remove_all(&entries);
}

static void test_a_walk_sees_each_entry_once_while_others_go(void **state)
{
	(void)state;
	struct lk__entries entries = {.count = 0};
	struct lk__entry *all[ENTRIES], *entry = NULL, *next;
	size_t seen = 0;
	char key[32];
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(key, sizeof(key), "name:%zu", i);
		add(&entries, all[i] = make(&one, "", key));
	}
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(key, sizeof(key), "name:%zu", i);
		assert_ptr_equal(find(&entries, &one, key), all[i]);
	}
	while ((entry = lk__entries_next(&entries, entry)))
		seen++;
	assert_int_equal(seen, ENTRIES);
	for (entry = lk__entries_next(&entries, NULL); entry; entry = next) {
		next = lk__entries_next(&entries, entry);
		lk__entries_remove(&entries, entry);
		free(entry);
		seen--;
	}
	assert_int_equal(seen, 0);
	lk__entries_free(&entries);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kind_and_words_find_an_entry),
		cmocka_unit_test(test_a_walk_sees_each_entry_once_while_others_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
