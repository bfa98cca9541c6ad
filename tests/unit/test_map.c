/* What a node of a cluster tells of the slots, read: what is well formed, and what is not. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "topo/map.h"

#define ASKED "seed:7000"
#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ID_C "cccccccccccccccccccccccccccccccccccccccc"
#define NODE(size, host, port, id) "*3\r\n$" size "\r\n" host "\r\n:" port "\r\n$40\r\n" id "\r\n"

static redisReply *reply_of(const char *text)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;
	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

static struct lk__map *map_of(const char *text, const char **fault)
{
	redisReply *reply = reply_of(text);
	struct lk__map *map = lk__map_read(reply, ASKED, fault);
	freeReplyObject(reply);
	return map;
}

static struct lk__map *good_map(const char *text)
{
	const char *fault;
	struct lk__map *map = map_of(text, &fault);
	assert_null(fault);
	assert_non_null(map);
	return map;
}

/* Clients are told a name; its master knows a replica by its address. */
static void test_a_replica_with_a_name(void **state)
{
#define MORE "*4\r\n$8\r\nhostname\r\n$1\r\nx\r\n$2\r\nip\r\n$8\r\n10.0.0.4\r\n"
#define NAMED(more) "*4\r\n$1\r\nr\r\n:7004\r\n$40\r\n" ID_B "\r\n" more
	static const struct {
		const char *node, *place;
	} cases[] = {
		{NAMED(MORE), "10.0.0.4:7004"},
		{NAMED("*0\r\n"), "r:7004"},
		{NAMED("*1\r\n$2\r\nip\r\n"), "r:7004"},
		{NAMED("*2\r\n$2\r\nip\r\n:1\r\n"), "r:7004"},
		{NAMED("*2\r\n$2\r\nip\r\n$2\r\n..\r\n"), "r:7004"},
		{NAMED("$2\r\nip\r\n"), "r:7004"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[256];
		snprintf(text, sizeof(text), "*1\r\n*4\r\n:0\r\n:99\r\n%s%s",
			 NODE("1", "m", "7001", ID_A), cases[i].node);
		struct lk__map *map = good_map(text);
		assert_string_equal(map->master[0].node.place, "m:7001");
		assert_int_equal(map->master[0].replica_count, 1);
		assert_string_equal(map->master[0].replica[0].place, cases[i].place);
		lk__map_free(map);
	}
}

static void test_masters_and_replicas(void **state)
{
	struct lk__map *map = good_map(
		"*3\r\n*4\r\n:0\r\n:99\r\n" NODE("8", "10.0.0.1", "7001", ID_A)
			NODE("8", "10.0.0.3", "7003", ID_C) "*3\r\n:100\r\n:199\r\n" NODE(
				"9", "localhost", "7002",
				ID_B) "*4\r\n:300\r\n:300\r\n" NODE("8", "10.0.0.1", "7001", ID_A)
				NODE("8", "10.0.0.3", "7003", ID_C));
	assert_int_equal(map->count, 2);
	assert_string_equal(map->master[0].node.place, "10.0.0.1:7001");
	assert_string_equal(map->master[0].node.id, ID_A);
	assert_int_equal(map->master[0].replica_count, 1);
	assert_string_equal(map->master[0].replica[0].place, "10.0.0.3:7003");
	assert_string_equal(map->master[1].node.place, "localhost:7002");
	assert_int_equal(map->master[1].replica_count, 0);
	assert_int_equal(map->owner[0], 1);
	assert_int_equal(map->owner[99], 1);
	assert_int_equal(map->owner[100], 2);
	assert_int_equal(map->owner[199], 2);
	assert_int_equal(map->owner[200], 0);
	assert_int_equal(map->owner[300], 1);
	assert_int_equal(map->owner[LK__SLOTS - 1], 0);
	lk__map_free(map);
}

/* Two nodes agree on the masters; each has heard of one of two replicas. */
static void test_replicas_of_two_maps(void **state)
{
	struct lk__map *map = good_map("*1\r\n*4\r\n:0\r\n:99\r\n" NODE(
		"8", "10.0.0.1", "7001", ID_A) NODE("8", "10.0.0.2", "7002", ID_B));
	struct lk__map *other = good_map("*2\r\n*3\r\n:100\r\n:199\r\n" NODE(
		"8", "10.0.0.2", "7002", ID_B) "*5\r\n:0\r\n:99\r\n" NODE("8", "10.0.0.1", "7001",
									  ID_A)
						 NODE("8", "10.0.0.2", "7002", ID_B)
							 NODE("8", "10.0.0.3", "7003", ID_C));
	lk__map_add_replicas(map, other);
	lk__map_add_replicas(map, other);
	assert_int_equal(map->master[0].replica_count, 2);
	assert_string_equal(map->master[0].replica[0].id, ID_B);
	assert_string_equal(map->master[0].replica[1].id, ID_C);
	assert_string_equal(map->master[0].replica[1].place, "10.0.0.3:7003");
	lk__map_free(map);
	lk__map_free(other);
}

/* A node that does not know its own address stands where it was asked; IPv6 gets its brackets. */
static void test_endpoints(void **state)
{
	struct lk__map *map = good_map(
		"*3\r\n*3\r\n:0\r\n:0\r\n*3\r\n$-1\r\n:7001\r\n$40\r\n" ID_A
		"\r\n*3\r\n:1\r\n:1\r\n" NODE("0", "", "7002", ID_B) "*3\r\n:2\r\n:2\r\n" NODE(
			"3", "::1", "7003", ID_C));
	assert_string_equal(map->master[0].node.place, "seed:7001");
	assert_string_equal(map->master[1].node.place, "seed:7002");
	assert_string_equal(map->master[2].node.place, "[::1]:7003");
	lk__map_free(map);
}

/* "?" is a host name that is announced and not known: its slots are as if nobody had them. */
static void test_a_master_without_an_address(void **state)
{
	struct lk__map *map = good_map("*2\r\n*3\r\n:0\r\n:9\r\n" NODE(
		"1", "?", "7001", ID_A) "*3\r\n:10\r\n:19\r\n" NODE("4", "host", "7002", ID_B));
	assert_int_equal(map->count, 1);
	assert_int_equal(map->owner[0], 0);
	assert_int_equal(map->owner[10], 1);
	lk__map_free(map);
}

static uint64_t digest_of(const char *text)
{
	struct lk__map *map = good_map(text);
	uint64_t digest = map->digest;
	lk__map_free(map);
	return digest;
}

/* Nodes list ranges in any order, and know replicas at different times. */
static void test_alike(void **state)
{
	uint64_t one = digest_of("*2\r\n*3\r\n:0\r\n:9\r\n" NODE(
		"1", "a", "1", ID_A) "*3\r\n:10\r\n:19\r\n" NODE("1", "b", "2", ID_B));
	uint64_t turned = digest_of("*2\r\n*4\r\n:10\r\n:19\r\n" NODE("1", "b", "2", ID_B) NODE(
		"1", "c", "3", ID_C) "*3\r\n:0\r\n:9\r\n" NODE("1", "a", "1", ID_A));
	uint64_t parted = digest_of(
		"*3\r\n*3\r\n:0\r\n:4\r\n" NODE("1", "a", "1", ID_A) "*3\r\n:5\r\n:9\r\n" NODE(
			"1", "a", "1", ID_A) "*3\r\n:10\r\n:19\r\n" NODE("1", "b", "2", ID_B));
	uint64_t moved = digest_of("*2\r\n*3\r\n:0\r\n:8\r\n" NODE(
		"1", "a", "1", ID_A) "*3\r\n:9\r\n:19\r\n" NODE("1", "b", "2", ID_B));
	assert_true(one == turned);
	assert_true(one == parted);
	assert_true(one != moved);
}

/* All slots, and a digit of the id. */
static void test_similar_ids_are_told_apart(void **state)
{
	uint64_t digests[10];
	for (size_t i = 0; i < COUNT(digests); i++) {
		char text[160], id[41];
		snprintf(id, sizeof(id), "%040zx", i);
		snprintf(text, sizeof(text),
			 "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$1\r\na\r\n:1\r\n$40\r\n%s\r\n", id);
		digests[i] = digest_of(text);
		for (size_t j = 0; j < i; j++)
			assert_true(digests[i] != digests[j]);
	}
}

#define HALVES(last, next)                                                                         \
	good_map("*2\r\n*3\r\n:0\r\n:" last "\r\n" NODE(                                           \
		"1", "a", "1", ID_A) "*3\r\n:" next "\r\n:99\r\n" NODE("1", "b", "2", ID_B))

/* A slot belongs to whom more than half of the votes name; they may disagree about some. */
static void test_a_vote_on_each_slot(void **state)
{
	struct lk__map *one = HALVES("49", "50"), *other = HALVES("50", "51");
	struct lk__map_vote votes[] = {{one, 1}, {other, 1}};
	struct lk__map *map = lk__map_merge(votes, 2, 2);
	assert_int_equal(map->count, 2);
	assert_string_equal(map->master[0].node.id, ID_A);
	assert_string_equal(map->master[1].node.place, "b:2");
	assert_int_equal(map->owner[49], 1);
	assert_int_equal(map->owner[50], LK__MAP_OPEN);
	assert_int_equal(map->owner[51], 2);
	assert_int_equal(map->owner[100], 0);
	lk__map_free(map);
	votes[1].votes = 2;
	map = lk__map_merge(votes, 2, 3);
	assert_int_equal(map->owner[50], 1);
	lk__map_free(map);
	map = lk__map_merge(votes, 2, 4); /* of those who say something else again, or nothing */
	assert_int_equal(map->owner[49], 1);
	assert_int_equal(map->owner[50], LK__MAP_OPEN);
	lk__map_free(map);
	map = lk__map_merge(votes, 2, 6);
	assert_int_equal(map->count, 0);
	assert_int_equal(map->owner[49], LK__MAP_OPEN);
	lk__map_free(map);
	lk__map_free(one);
	lk__map_free(other);
}

/* Nobody is the master of a slot with as good a right as somebody; and each replica counts. */
static void test_what_merged_maps_keep(void **state)
{
	struct lk__map *one = good_map("*1\r\n*4\r\n:0\r\n:99\r\n" NODE("1", "a", "1", ID_A)
					       NODE("1", "b", "2", ID_B));
	struct lk__map *other = good_map("*1\r\n*4\r\n:10\r\n:99\r\n" NODE("1", "a", "1", ID_A)
						 NODE("1", "c", "3", ID_C));
	struct lk__map_vote votes[] = {{one, 1}, {other, 1}};
	struct lk__map *map = lk__map_merge(votes, 2, 2);
	assert_int_equal(map->count, 1);
	assert_int_equal(map->owner[0], LK__MAP_OPEN);
	assert_int_equal(map->owner[10], 1);
	assert_int_equal(map->owner[100], 0);
	assert_int_equal(map->master[0].replica_count, 2);
	lk__map_free(map);
	votes[1].votes = 2;
	map = lk__map_merge(votes, 2, 3);
	assert_int_equal(map->owner[0], 0);
	lk__map_free(map);
	lk__map_free(one);
	lk__map_free(other);
}

static void test_malformed(void **state)
{
	static const char *const texts[] = {
		"*0\r\n",
		"+OK\r\n",
		"*1\r\n*2\r\n:0\r\n:9\r\n",
		"*1\r\n*3\r\n:-1\r\n:9\r\n" NODE("1", "a", "1", ID_A),
		"*1\r\n*3\r\n:9\r\n:0\r\n" NODE("1", "a", "1", ID_A),
		"*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("1", "a", "1", ID_A),
		"*1\r\n*3\r\n$1\r\n0\r\n:9\r\n" NODE("1", "a", "1", ID_A),
		"*1\r\n*3\r\n:0\r\n:9\r\n:7\r\n",
		"*1\r\n*3\r\n:0\r\n:9\r\n*1\r\n$1\r\na\r\n",
		"*1\r\n*3\r\n:0\r\n:9\r\n" NODE("1", "a", "0", ID_A),
		"*1\r\n*3\r\n:0\r\n:9\r\n" NODE("1", "a", "65536", ID_A),
		"*1\r\n*3\r\n:0\r\n:9\r\n" NODE("3", "a b", "1", ID_A),
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *fault;
		assert_null(map_of(texts[i], &fault));
		assert_non_null(fault);
	}
}

static void test_redirects(void **state)
{
	char place[LK__PLACE_SIZE];
	uint16_t slot;
	assert_true(lk__redirect_read("MOVED 3999 127.0.0.1:6381", ASKED, &slot, place));
	assert_int_equal(slot, 3999);
	assert_string_equal(place, "127.0.0.1:6381");
	assert_true(lk__redirect_read("ASK 0 host.example:1", ASKED, &slot, place));
	assert_string_equal(place, "host.example:1");
	assert_true(lk__redirect_read("MOVED 16383 :6381", ASKED, &slot, place));
	assert_string_equal(place, "seed:6381");
	assert_true(lk__redirect_read("MOVED 1 ::1:6381", ASKED, &slot, place));
	assert_string_equal(place, "[::1]:6381");
}

static void test_malformed_redirects(void **state)
{
	static const char *const words[] = {
		"MOVED",
		"MOVED ",
		"MOVED 1",
		"MOVED 1 ",
		"MOVED 1 host",
		"MOVED 1 host:",
		"MOVED -1 host:1",
		"MOVED 16384 host:1",
		"MOVED x host:1",
		"MOVED 1 host:0",
		"MOVED 1 host:65536",
		"MOVED 1 ?:1",
		"MOVED 1 a b:1",
	};
	char place[LK__PLACE_SIZE];
	uint16_t slot;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_false(lk__redirect_read(words[i], ASKED, &slot, place));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masters_and_replicas),
		cmocka_unit_test(test_a_replica_with_a_name),
		cmocka_unit_test(test_replicas_of_two_maps),
		cmocka_unit_test(test_endpoints),
		cmocka_unit_test(test_a_master_without_an_address),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_similar_ids_are_told_apart),
		cmocka_unit_test(test_a_vote_on_each_slot),
		cmocka_unit_test(test_what_merged_maps_keep),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_redirects),
		cmocka_unit_test(test_malformed_redirects),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
