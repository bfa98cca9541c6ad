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

/* One of an owner's own, held. */
static struct lk__entry *hold(lk_client *client, const struct lk__recipe *recipe, const char *owner,
			      const char *key)
{
	char *memory = calloc(1, sizeof(struct lk__holder) + sizeof(struct lk__entry) +
					 strlen(owner) + strlen(key) + 1);
	assert_non_null(memory);
	struct lk__entry *entry = (struct lk__entry *)(memory + sizeof(struct lk__holder));
	entry->client = client;
	entry->target.recipe = recipe;
	entry->target.key = strcpy(stpcpy(entry->words, owner), key);
	entry->target.key_size = (uint32_t)strlen(key);
	lk__holders_add(entry);
	return entry;
}

static void count_holder(void *context, struct lk__entry *entry)
{
	size_t *count = context;
	(void)entry;
	(*count)++;
}

static size_t holders_of(lk_client *client, const char *key, bool shared)
{
	size_t count = 0;
	lk__holders_each(&client->holders, key, strlen(key), shared, count_holder, &count);
	return count;
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

/* A grant looks for another kind's entry of its key only where there is another kind. */
static void test_a_second_kind_is_noted(void **state)
{
	(void)state;
	static const struct lk__recipe nobodys = {.sharing = LK__NO_HOLD};
	struct lk__entries entries = {.count = 0};
	char key[32];
	for (size_t i = 0; i < ENTRIES; i++) { /* it grows meanwhile */
		snprintf(key, sizeof(key), "name:%zu", i);
		add(&entries, make(&one, "", key));
		add(&entries, make(&nobodys, "", key));
	}
	assert_false(entries.mixed);
	struct lk__entry *other = make(&another, "", "name:0");
	add(&entries, other);
	assert_true(entries.mixed);
	lk__entries_remove(&entries, other);
	free(other);
	assert_true(entries.mixed);
	remove_all(&entries);
}

static void test_a_key_finds_who_holds_it(void **state)
{
	(void)state;
	static const struct lk__recipe alone = {.sharing = LK__EACH_OWNER};
	static const struct lk__recipe shared = {.sharing = LK__EACH_OWNER, .flags = LK__SHARES};
	static lk_client client;
	struct lk__entry *all[ENTRIES], *writer, *reader[2];
	char key[32];
	lk__holders_init(&client.holders);
	assert_int_equal(holders_of(&client, "name:7", false), 0);
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(key, sizeof(key), "name:%zu", i);
		all[i] = hold(&client, &alone, "owner", key);
	}
	writer = hold(&client, &alone, "owner", "both");
	reader[0] = hold(&client, &shared, "one", "both");
	reader[1] = hold(&client, &shared, "two", "both");
	for (size_t i = 0; i < ENTRIES; i++)
		assert_int_equal(holders_of(&client, all[i]->target.key, false), 1);
	assert_int_equal(holders_of(&client, "both", false), 1);
	assert_int_equal(holders_of(&client, "both", true), 2);
	assert_int_equal(holders_of(&client, "bot", true), 0);
	lk__holders_remove(reader[0]);
	lk__holders_remove(writer);
	assert_int_equal(holders_of(&client, "both", false), 0);
	assert_int_equal(holders_of(&client, "both", true), 1);
	lk__holders_remove(reader[1]);
	for (size_t i = 0; i < ENTRIES; i++) {
		lk__holders_remove(all[i]);
		free(lk__entry_holder(all[i]));
	}
	assert_int_equal(client.holders.count, 0);
	free(lk__entry_holder(writer));
	free(lk__entry_holder(reader[0]));
	free(lk__entry_holder(reader[1]));
	lk__holders_free(&client.holders);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kind_and_words_find_an_entry),
		cmocka_unit_test(test_a_second_kind_is_noted),
		cmocka_unit_test(test_a_key_finds_who_holds_it),
		cmocka_unit_test(test_a_walk_sees_each_entry_once_while_others_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
