/* The entries of a client: a name is found, each is seen once in a walk, and a key finds whose
 * holds are in doubt. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "conf/config.h"
#include "lock/entry.h"

#define ENTRIES 1000

static const struct lk__recipe one = {.type = "one"}, another = {.type = "another"};
static const struct lk__recipe alone = {.type = "alone", .sharing = LK__EACH_OWNER};
static const struct lk__recipe shared = {
	.type = "shared", .sharing = LK__EACH_OWNER, .flags = LK__SHARES};

static struct lk__node node;
static lk_client client;

static struct lk__node *node_of(struct lk__topo *topo, uint16_t slot)
{
	return &node;
}

static const struct lk__topo_ops topo_ops = {.node_of = node_of};
static struct lk__topo topo = {.ops = &topo_ops};

static int set_up(void **state)
{
	memset(&client, 0, sizeof(client));
	assert_int_equal(lk_config_new(&client.config, NULL), 0);
	client.topo = &topo;
	pthread_mutex_init(&client.mutex, NULL);
	lk__entries_init(&client);
	return 0;
}

static int tear_down(void **state)
{
	lk__entries_free(&client);
	pthread_mutex_destroy(&client.mutex);
	client.config = lk_config_free(client.config);
	return 0;
}

static struct lk__owner owner_named(const char *name)
{
	return (struct lk__owner){.name = name, .name_size = strlen(name)};
}

static struct lk__entry *make(const struct lk__recipe *recipe, const char *owner, const char *name)
{
	struct lk__entry *entry;
	const struct lk__owner by = owner_named(owner);
	assert_int_equal(lk__entry_get(&entry, &client, recipe, name, strlen(name), &by, NULL), 0);
	return entry;
}

/* Without its reference: the one that made it has another. */
static struct lk__entry *find(const struct lk__recipe *recipe, const char *owner, const char *name)
{
	struct lk__entry *entry;
	const struct lk__owner by = owner_named(owner);
	assert_int_equal(lk__entry_look(&entry, &client, recipe, name, strlen(name), &by), 0);
	if (entry)
		lk__entry_unref(entry);
	return entry;
}

static size_t count(void)
{
	struct lk__entry *entry = NULL;
	size_t seen = 0;
	while ((entry = lk__entries_next(&client.entries, entry)))
		seen++;
	return seen;
}

static void test_kind_name_and_owner_find_an_entry(void **state)
{
	assert_null(find(&one, "", "name"));
	assert_int_equal(count(), 0);
	struct lk__entry *plain = make(&one, "", "name");
	assert_ptr_equal(make(&one, "whoever", "name"), plain);
	lk__entry_unref(plain);
	assert_null(find(&another, "", "name"));
	struct lk__entry *other = make(&another, "", "name");
	struct lk__entry *owned = make(&alone, "owner", "name");
	assert_ptr_equal(find(&one, "", "name"), plain);
	assert_ptr_equal(find(&another, "", "name"), other);
	assert_ptr_equal(find(&alone, "owner", "name"), owned);
	assert_null(find(&alone, "other", "name"));
	assert_null(find(&one, "", "nam"));
	assert_int_equal(count(), 3);
	lk__entry_unref(plain);
	assert_null(find(&one, "", "name"));
	assert_ptr_equal(find(&another, "", "name"), other);
}

static void test_a_walk_sees_each_entry_once_while_others_go(void **state)
{
	struct lk__entry *all[ENTRIES], *entry, *next;
	size_t seen = 0;
	char name[32];
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "name:%zu", i);
		all[i] = make(&one, "", name);
	}
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "name:%zu", i);
		assert_ptr_equal(find(&one, "", name), all[i]);
	}
	assert_int_equal(count(), ENTRIES);
	for (entry = lk__entries_next(&client.entries, NULL); entry; entry = next) {
		next = lk__entries_next(&client.entries, entry);
		lk__entry_unref(entry);
		seen++;
	}
	assert_int_equal(seen, ENTRIES);
	assert_int_equal(count(), 0);
}

/* A grant looks for another kind's entry of its key only where there is another kind. */
static void test_a_second_kind_is_noted(void **state)
{
	static const struct lk__recipe nobodys = {.type = "nobodys", .sharing = LK__NO_HOLD};
	char name[32];
	for (size_t i = 0; i < ENTRIES; i++) { /* it grows meanwhile */
		snprintf(name, sizeof(name), "name:%zu", i);
		make(&one, "", name);
		make(&nobodys, "", name);
	}
	assert_false(client.entries.mixed);
	struct lk__entry *other = make(&another, "", "name:0");
	assert_true(client.entries.mixed);
	lk__entry_unref(other);
	assert_true(client.entries.mixed);
}

/* Tells whether a grant of the entry has put the other in doubt. */
static bool doubts(struct lk__entry *granted, struct lk__entry *other)
{
	atomic_store(&other->doubt, false);
	lk__doubt_others(granted);
	return atomic_exchange(&other->doubt, false);
}

static struct lk__entry *hold(const struct lk__recipe *recipe, const char *owner, const char *name)
{
	static struct lk__hold held;
	struct lk__entry *entry = make(recipe, owner, name);
	atomic_store(&entry->hold, &held);
	lk__holders_add(entry);
	return entry;
}

static void test_a_grant_doubts_whom_it_excludes(void **state)
{
	struct lk__entry *all[ENTRIES], *writer, *reader[2];
	char name[32];
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "name:%zu", i);
		all[i] = hold(&alone, "owner", name);
	}
	writer = hold(&alone, "owner", "both");
	reader[0] = hold(&shared, "one", "both");
	reader[1] = hold(&shared, "two", "both");
	for (size_t i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "name:%zu", i);
		struct lk__entry *other = make(&alone, "other", name);
		assert_true(doubts(other, all[i]));
		assert_false(doubts(other, all[(i + 1) % ENTRIES]));
		lk__entry_unref(other);
	}
	assert_true(doubts(writer, reader[0]));
	assert_true(doubts(writer, reader[1]));
	assert_true(doubts(reader[0], writer));
	assert_false(doubts(reader[0], reader[1]));
	assert_false(doubts(writer, all[0]));
	lk__entry_take_hold(reader[0]);
	lk__entry_take_hold(writer);
	assert_false(doubts(reader[1], writer));
	assert_false(doubts(writer, reader[0]));
	assert_true(doubts(writer, reader[1]));
	lk__entry_take_hold(reader[1]);
	for (size_t i = 0; i < ENTRIES; i++)
		lk__entry_take_hold(all[i]);
	assert_int_equal(client.holders.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kind_name_and_owner_find_an_entry, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_second_kind_is_noted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_grant_doubts_whom_it_excludes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_walk_sees_each_entry_once_while_others_go,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
