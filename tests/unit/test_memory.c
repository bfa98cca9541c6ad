/*
 * Memory that runs out at any point: an error, nothing changed, nothing leaked (the address
 * sanitizer looks), never the end of the process. The allocations of the library are wrapped.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "base/containers.h"
#include "conf/config.h"
#include "conn/request.h"
#include "lock/entry.h"
#include "resp/reply.h"
#include "sync/recipes.h"

#define TRIES_MOST 1000

/* How many allocations still succeed; negative: all. */
static int allocations_left = -1;

static bool runs_out(void)
{
	if (allocations_left < 0)
		return false;
	if (allocations_left == 0)
		return true;
	allocations_left--;
	return false;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size)
{
	return runs_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return runs_out() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return runs_out() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return runs_out() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
	return runs_out() ? NULL : __real_strndup(text, size);
}

/* Calls with no memory, then with one allocation more each time, until it succeeds. */
static void sweep(int (*call)(void))
{
	int code = LK_ENOMEM;
	int tries = 0;
	while (code != 0 && tries < TRIES_MOST) {
		allocations_left = tries++;
		code = call();
		allocations_left = -1;
		assert_true(code == 0 || code == LK_ENOMEM);
	}
	assert_int_equal(code, 0);
	assert_true(tries > 1); /* it did allocate */
}

static lk_config *config;

static int call_new(void)
{
	lk_config *made = NULL;
	int code = lk_config_new(&made, NULL);
	assert_int_equal(made == NULL, code != 0);
	lk_config_free(made);
	return code;
}

static int call_set_url(void)
{
	lk_error error = {0};
	int code = lk_config_set(config, "url",
				 "rediss://u:new%40@[::1]:7/3?spin_us=1&tls_ca_file=x", &error);
	assert_int_equal(error.code, code);
	assert_string_equal(config->host, code == 0 ? "::1" : "before");
	assert_string_equal(config->password, code == 0 ? "new@" : "old");
	assert_int_equal(config->spin_us, code == 0 ? 1 : 50);
	return code;
}

static int call_set_socket(void)
{
	return lk_config_set(config, "url", "unix://u:p@/x?db=3", NULL);
}

static int call_environment(void)
{
	int code = lk_config_load_environment(config, NULL);
	assert_int_equal(config->term_ms, code == 0 ? 7 : 10);
	return code;
}

static int call_copy(void)
{
	lk_config *copy = lk__config_copy(config);
	lk_config_free(copy);
	return copy ? 0 : LK_ENOMEM;
}

static int call_words(void)
{
	struct lk__words words = {0};
	for (int i = 0; i < 3; i++) {
		char *key = strdup("key");
		lk__words_own(&words, key, 3);
	}
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_RENEW, 3);
	lk__request_free(request);
	return request ? 0 : LK_ENOMEM;
}

static int call_reader(void)
{
	struct lk__reader *reader = lk__reader_new();
	lk__reader_free(reader);
	return reader ? 0 : LK_ENOMEM;
}

static int call_buffer(void)
{
	struct lk__buffer buffer = {0};
	char bytes[1000] = "";
	int code = 0;
	size_t size = 0;
	for (int i = 0; i < 10 && code == 0; i++) {
		code = lk__buffer_append(&buffer, bytes, sizeof(bytes));
		size += code == 0 ? sizeof(bytes) : 0;
		assert_int_equal(lk__buffer_size(&buffer), size);
	}
	lk__buffer_free(&buffer);
	return code;
}

#define NODES 200

static int call_heap(void)
{
	static struct lk__heap_node nodes[NODES];
	struct lk__heap heap = {0};
	memset(nodes, 0, sizeof(nodes));
	int code = lk__heap_reserve(&heap, NODES);
	if (code == 0) {
		allocations_left = 0; /* what was promised needs none */
		for (int i = 0; i < NODES; i++)
			assert_int_equal(lk__heap_put(&heap, &nodes[i], NODES - i), 0);
		assert_ptr_equal(lk__heap_first(&heap, 1), &nodes[NODES - 1]);
	}
	lk__heap_free(&heap);
	return code;
}

static lk_client client;

static struct lk__node *node_of(struct lk__topo *topo, uint16_t slot)
{
	static struct lk__node node;
	return &node;
}

static int get_entry(struct lk__entry **entry_out, int number)
{
	static const struct lk__owner nobody;
	char name[16];
	int size = snprintf(name, sizeof(name), "%d", number);
	return lk__entry_get(entry_out, &client, &lk__lock_recipe, name, (size_t)size, &nobody,
			     NULL);
}

/* One more entry than there are: all, or nothing. */
static int call_entry(void)
{
	struct lk__entry *entry = NULL;
	size_t before = client.entries.count;
	int code = get_entry(&entry, NODES);
	assert_int_equal(client.entries.count, before + (code == 0));
	if (code == 0)
		lk__entry_unref(entry);
	return code;
}

/* The table of entries needs memory for its first one. Later its chains may grow instead of it. */
static void sweep_entries(void)
{
	static const struct lk__topo_ops ops = {.node_of = node_of};
	static struct lk__topo topo = {.ops = &ops};
	struct lk__entry *entry;
	assert_int_equal(lk_config_new(&client.config, NULL), 0);
	client.topo = &topo;
	pthread_mutex_init(&client.mutex, NULL);
	lk__entries_init(&client);
	sweep(call_entry);
	for (int i = 0; i < NODES; i++) {
		assert_int_equal(get_entry(&entry, i), 0);
		sweep(call_entry);
	}
	lk__entries_free(&client);
	pthread_mutex_destroy(&client.mutex);
	client.config = lk_config_free(client.config);
}

static void test_configurations(void **state)
{
	sweep(call_new);
	assert_int_equal(lk_config_new(&config, NULL), 0);
	assert_int_equal(lk_config_set(config, "url", "redis://u:old@before", NULL), 0);
	sweep(call_copy);
	sweep(call_set_url);
	sweep(call_set_socket);
	setenv("LOCKKEEPER_TERM_MS", "7", 1);
	setenv("LOCKKEEPER_CLIENT_NAME", "x", 1);
	sweep(call_environment);
	config = lk_config_free(config);
}

static void test_bytes(void **state)
{
	sweep(call_reader);
	sweep(call_words);
	sweep(call_buffer);
	sweep(call_heap);
	sweep_entries();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_configurations),
		cmocka_unit_test(test_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
