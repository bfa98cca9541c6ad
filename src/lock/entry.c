/* SPDX-License-Identifier: MIT */
#include "lock/entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/containers.h"
#include "base/fail.h"
#include "base/probe.h"
#include "conf/config.h"
#include "lock/client.h"
#include "lock/loop.h"
#include "sync/foreign/foreign.h"
#include "sync/recipes.h"

/* ---- memory for compensations ---- */

#define SPARES 2 /* kept ready by an entry: for a hold that goes, and for a try */

static int spares_count(const struct lk__entry *entry)
{
	int count = 0;
	for (const struct lk__compensation *spare = entry->spares; spare; spare = spare->next_due)
		count++;
	return count;
}

bool lk__compensation_reserve(struct lk__entry *entry)
{
	for (int count = spares_count(entry); count < SPARES; count++) {
		struct lk__compensation *spare = calloc(1, sizeof(*spare));
		if (!spare)
			return false;
		spare->next_due = entry->spares;
		entry->spares = spare;
	}
	return true;
}

struct lk__compensation *lk__compensation_spare(struct lk__entry *entry)
{
	struct lk__compensation *spare = entry->spares;
	if (!spare)
		return calloc(1, sizeof(*spare));
	entry->spares = spare->next_due;
	*spare = (struct lk__compensation){0};
	return spare;
}

static void compensation_unreserve(struct lk__entry *entry)
{
	while (entry->spares)
		free(lk__compensation_spare(entry));
}

/* ---- the table of entries ---- */

/*
 * The entries of a client, by kind and words. A chain of one pointer each, where uthash takes 56
 * bytes: a program that holds 100,000 locks has as many entries. The client's mutex is held.
 */

#define ROOM_LEAST 64
#define CHAIN 2 /* entries a chain, on average, when the table grows */

/* The chain that starts with these words, whose first link is returned. */
static struct lk__entry **entries_chain(const struct lk__entries *entries, const char *words,
					size_t size)
{
	unsigned hash;
	HASH_VALUE(words, size, hash);
	return &entries->chain[hash & (entries->room - 1)];
}

static struct lk__entry **entries_chain_of(const struct lk__entries *entries,
					   const struct lk__entry *entry)
{
	return entries_chain(entries, entry->words, lk__entry_words_size(entry));
}

/* The one of the same kind with the same words; NULL where there is none. */
static struct lk__entry *entries_find(const struct lk__entries *entries,
				      const struct lk__entry *like)
{
	size_t size = lk__entry_words_size(like);
	struct lk__entry *entry = entries->count ? *entries_chain_of(entries, like) : NULL;
	while (entry && (entry->target.recipe != like->target.recipe ||
			 lk__entry_words_size(entry) != size ||
			 memcmp(entry->words, like->words, size) != 0))
		entry = entry->next;
	return entry;
}

static void entries_put(struct lk__entries *entries, struct lk__entry *entry)
{
	struct lk__entry **chain = entries_chain_of(entries, entry);
	entry->next = *chain;
	*chain = entry;
	entries->count++;
}

/* False when out of memory: then the chains that are there grow longer. */
static bool entries_grow(struct lk__entries *entries)
{
	struct lk__entries grown = {.room = entries->room ? 2 * entries->room : ROOM_LEAST};
	grown.chain = calloc(grown.room, sizeof(struct lk__entry *));
	if (!grown.chain)
		return false;
	for (size_t i = 0; i < entries->room; i++)
		for (struct lk__entry *entry = entries->chain[i], *next; entry; entry = next) {
			next = entry->next;
			entries_put(&grown, entry);
		}
	free(entries->chain);
	entries->chain = grown.chain;
	entries->room = grown.room;
	return true;
}

static void entries_note_recipe(struct lk__entries *entries, const struct lk__recipe *recipe)
{
	if (recipe->sharing == LK__NO_HOLD)
		return;
	if (!entries->recipe)
		entries->recipe = recipe;
	else if (entries->recipe != recipe)
		atomic_store(&entries->mixed, true);
}

static bool entries_add(struct lk__entries *entries, struct lk__entry *entry)
{
	if (entries->count >= CHAIN * entries->room && !entries_grow(entries) && !entries->room)
		return false;
	entries_put(entries, entry);
	entries_note_recipe(entries, entry->target.recipe);
	return true;
}

static void entries_remove(struct lk__entries *entries, struct lk__entry *entry)
{
	struct lk__entry **link = entries_chain_of(entries, entry);
	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	entries->count--;
}

struct lk__entry *lk__entries_next(const struct lk__entries *entries, const struct lk__entry *entry)
{
	size_t next = 0;
	if (entry && entry->next)
		return entry->next;
	if (entry)
		next = (size_t)(entries_chain_of(entries, entry) - entries->chain) + 1;
	while (next < entries->room && !entries->chain[next])
		next++;
	return next < entries->room ? entries->chain[next] : NULL;
}

static bool is_of_key(const struct lk__entry *entry, const char *key, size_t size)
{
	return entry->target.key_size == size && memcmp(entry->target.key, key, size) == 0;
}

/* The next entry of a key after `entry`, the first after NULL, of the kinds whose owners have one
 * entry in common. NULL at the end. */
static struct lk__entry *entries_next_of(const struct lk__entries *entries,
					 const struct lk__entry *entry, const char *key,
					 size_t size)
{
	struct lk__entry *next;
	if (entry)
		next = entry->next;
	else
		next = entries->count ? *entries_chain(entries, key, size) : NULL;
	while (next && (lk__entry_words_size(next) != size || !is_of_key(next, key, size)))
		next = next->next;
	return next;
}

/* ---- who holds a key, where each owner has an entry ---- */

/*
 * Where each owner has an entry, a key may have thousands of them, and a table by words does not
 * find them by their key. Those that are held have their place in a second table: of a key, the
 * kinds that exclude all others, and those that several owners hold at once (LK__SHARES).
 *
 * A hold begins and ends without memory, so the table grows if it can, and else its chains do.
 * Nothing is changed where all owners share an entry.
 */

static struct lk__entry *entry_of(struct lk__holder *holder)
{
	return (struct lk__entry *)(holder + 1);
}

static bool is_shared(const struct lk__entry *entry)
{
	return entry->target.recipe->flags & LK__SHARES;
}

static struct lk__holder **holders_chain(struct lk__holders *holders, const char *key, size_t size,
					 bool shared)
{
	unsigned hash;
	if (!holders->room)
		return &holders->only;
	HASH_VALUE(key, size, hash);
	return &holders->chain[(hash + shared) & (holders->room - 1)];
}

static void holders_put(struct lk__holders *holders, struct lk__holder *holder)
{
	const struct lk__entry *entry = entry_of(holder);
	struct lk__holder **chain = holders_chain(holders, entry->target.key,
						  entry->target.key_size, is_shared(entry));
	holder->next = *chain;
	holder->link = chain;
	if (holder->next)
		holder->next->link = &holder->next;
	*chain = holder;
}

static void holders_move(struct lk__holders *grown, struct lk__holder *first)
{
	for (struct lk__holder *next; first; first = next) {
		next = first->next;
		holders_put(grown, first);
	}
}

static void holders_grow(struct lk__holders *holders)
{
	struct lk__holders grown = {.room = holders->room ? 2 * holders->room : ROOM_LEAST};
	grown.chain = calloc(grown.room, sizeof(struct lk__holder *));
	if (!grown.chain)
		return;
	holders_move(&grown, holders->only);
	for (size_t i = 0; i < holders->room; i++)
		holders_move(&grown, holders->chain[i]);
	free(holders->chain);
	holders->chain = grown.chain;
	holders->room = grown.room;
	holders->only = NULL;
}

void lk__holders_add(struct lk__entry *entry)
{
	struct lk__holders *holders = &entry->client->holders;
	if (entry->target.recipe->sharing != LK__EACH_OWNER)
		return;
	pthread_mutex_lock(&holders->mutex);
	if (holders->count >= CHAIN * holders->room)
		holders_grow(holders);
	holders_put(holders, lk__entry_holder(entry));
	holders->count++;
	pthread_mutex_unlock(&holders->mutex);
}

static void holders_remove(struct lk__entry *entry)
{
	struct lk__holders *holders = &entry->client->holders;
	if (entry->target.recipe->sharing != LK__EACH_OWNER)
		return;
	struct lk__holder *holder = lk__entry_holder(entry);
	pthread_mutex_lock(&holders->mutex);
	*holder->link = holder->next;
	if (holder->next)
		holder->next->link = holder->link;
	*holder = (struct lk__holder){.next = NULL};
	holders->count--;
	pthread_mutex_unlock(&holders->mutex);
}

/* Calls `visit` with each entry of the key that is held, under the mutex of the table: it may take
 * note. `shared`: of the kinds that several hold at once, or of the others. */
static void holders_each(struct lk__holders *holders, const char *key, size_t size, bool shared,
			 void (*visit)(void *context, struct lk__entry *entry), void *context)
{
	if (atomic_load(&holders->count) == 0)
		return;
	pthread_mutex_lock(&holders->mutex);
	for (struct lk__holder *holder = *holders_chain(holders, key, size, shared); holder;
	     holder = holder->next) {
		struct lk__entry *entry = entry_of(holder);
		if (is_shared(entry) == shared && is_of_key(entry, key, size))
			visit(context, entry);
	}
	pthread_mutex_unlock(&holders->mutex);
}

/* ---- the heap of deadlines ---- */

/* Makes room for the deadlines of so many entries: noting one of theirs then needs no memory. 0 or
 * LK_ENOMEM. */
static int watch_reserve(lk_client *client, size_t count)
{
	pthread_mutex_lock(&client->watch.mutex);
	int rc = lk__heap_reserve(&client->watch.heap, count);
	pthread_mutex_unlock(&client->watch.mutex);
	return rc;
}

void lk__watch_at(struct lk__entry *entry, int64_t at_ns)
{
	lk_client *client = entry->client;
	struct lk__watch *watch = &client->watch;
	bool sooner = false;
	pthread_mutex_lock(&watch->mutex);
	if (at_ns < lk__heap_key(&watch->heap, &entry->watch)) {
		lk__heap_put(&watch->heap, &entry->watch, at_ns);
		sooner = at_ns < watch->armed_ns;
		if (sooner)
			watch->armed_ns = at_ns;
	}
	pthread_mutex_unlock(&watch->mutex);
	if (sooner)
		lk__loop_wake(client);
}

static void watch_forget(lk_client *client, struct lk__entry *entry)
{
	pthread_mutex_lock(&client->watch.mutex);
	lk__heap_remove(&client->watch.heap, &entry->watch);
	pthread_mutex_unlock(&client->watch.mutex);
}

/* ---- entries ---- */

/* Where each owner has an entry, its place among those that are held is in front of it. */
static size_t entry_front_size(const struct lk__recipe *recipe)
{
	return recipe->sharing == LK__EACH_OWNER ? sizeof(struct lk__holder) : 0;
}

/* One that has nothing but its names. */
static void entry_drop(struct lk__entry *entry)
{
	free((char *)entry - entry_front_size(entry->target.recipe));
}

/* One without holds that is not in its client's table any more. */
static void entry_free(struct lk__entry *entry)
{
	assert(!entry->hold && !entry->lost);
	if (lk__entry_quorum(entry)) {
		lk__entry_quorum(entry)->parts->free(entry);
		watch_forget(entry->client, entry); /* a node may have been lost until now */
	}
	free(lk__entry_reds(entry));
	if (entry->waiting)
		lk__request_free(entry->waiting->answered);
	free(entry->waiting);
	compensation_unreserve(entry);
	lk__notify_free(atomic_load(&entry->target.notify));
	pthread_mutex_destroy(&entry->mutex);
	entry_drop(entry);
}

/* One that has its names and nothing else: those by which entries of a kind are found are its
 * owner, where each has one, and its key. NULL when out of memory. */
static struct lk__entry *entry_named(lk_client *client, const struct lk__recipe *recipe,
				     const void *name, size_t size, const struct lk__owner *owner)
{
	const char *prefix = client->config->key_prefix;
	size_t prefix_size = strlen(prefix);
	size_t front_size = entry_front_size(recipe);
	bool owned = recipe->sharing == LK__EACH_OWNER;
	size_t owner_size = owned ? sizeof(owner->serial) + sizeof(owner->name_size) +
					    owner->name_size
				  : 0;
	size_t memory_size = front_size + sizeof(struct lk__entry) + owner_size + prefix_size +
			     size + 1;
	/* Not calloc(), which passes over the thread's own free memory in glibc. */
	char *memory = malloc(memory_size);
	if (!memory)
		return NULL;
	memset(memory, 0, memory_size);
	struct lk__entry *entry = (struct lk__entry *)(memory + front_size);
	char *end = entry->words;
	if (owned) {
		end = mempcpy(end, &owner->serial, sizeof(owner->serial));
		end = mempcpy(end, &owner->name_size, sizeof(owner->name_size));
		if (owner->name)
			end = mempcpy(end, owner->name, owner->name_size);
	}
	entry->client = client;
	entry->target.recipe = recipe;
	entry->target.key = end;
	entry->target.key_size = (uint32_t)(prefix_size + size);
	entry->name = mempcpy(end, prefix, prefix_size);
	memcpy(end + prefix_size, name, size);
	return entry;
}

struct lk__node *lk__entry_node(const struct lk__entry *entry)
{
	return lk__topo_at_slot(entry->client->topo, entry->target.slot);
}

struct lk__conn *lk__entry_messages(const struct lk__entry *entry)
{
	return &entry->target.node->messages;
}

bool lk__entry_route(struct lk__entry *entry)
{
	struct lk__node *node = lk__entry_node(entry);
	if (node == entry->target.node)
		return false;
	lk__entry_unsubscribe(entry);
	entry->target.node = node;
	atomic_store(&entry->conn_index, 0);
	return true;
}

void lk__entry_note_red_lease(struct lk__entry *entry, int64_t lease_ms)
{
	if (entry->reds->lease_ms < lease_ms)
		entry->reds->lease_ms = lease_ms;
}

/* Where a lock of this name is counted beside its client; NULL: nowhere. */
static struct lk__counters *declared_find(const lk_client *client, const char *name, size_t size)
{
	const struct lk__declareds *declared = atomic_load(&client->declared);
	if (!declared)
		return NULL;
	for (size_t i = 1; i < atomic_load(&declared->count); i++) {
		const struct lk__declared *one = &declared->of[i];
		if ((one->is_prefix ? size >= one->size : size == one->size) &&
		    memcmp(name, one->name, one->size) == 0)
			return one->counters;
	}
	return declared->of[0].counters;
}

/* Makes of its names an entry of its client, whose mutex is held. False when out of memory: it is
 * gone. */
static bool entry_make(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	entry->counters = declared_find(client, entry->name, lk__entry_name_size(entry));
	pthread_mutex_init(&entry->mutex, NULL);
	if (!lk__compensation_reserve(entry) ||
	    watch_reserve(client, client->entries.count + 1) < 0 ||
	    !entries_add(&client->entries, entry)) {
		entry_free(entry);
		return false;
	}
	entry->target.slot = lk__topo_slot(client->topo, entry->target.key, entry->target.key_size);
	lk__entry_route(entry);
	return true;
}

static int entry_find(struct lk__entry **entry_out, lk_client *client,
		      const struct lk__recipe *recipe, const void *name, size_t size,
		      const struct lk__owner *owner, bool makes)
{
	struct lk__entry *named = entry_named(client, recipe, name, size, owner);
	if (!named)
		return LK_ENOMEM;
	pthread_mutex_lock(&client->mutex);
	struct lk__entry *entry = entries_find(&client->entries, named);
	if (entry || !makes)
		entry_drop(named);
	else if (entry_make(named))
		entry = named;
	if (entry)
		atomic_fetch_add(&entry->refs, 1);
	pthread_mutex_unlock(&client->mutex);
	*entry_out = entry;
	return entry || !makes ? 0 : LK_ENOMEM;
}

int lk__entry_get(struct lk__entry **entry_out, lk_client *client, const struct lk__recipe *recipe,
		  const void *name, size_t size, const struct lk__owner *owner, lk_error *error)
{
	int rc = entry_find(entry_out, client, recipe, name, size, owner, true);
	return rc ? lk__fail(error, rc, "%s: out of memory", recipe->type) : 0;
}

int lk__entry_look(struct lk__entry **entry_out, lk_client *client, const struct lk__recipe *recipe,
		   const void *name, size_t size, const struct lk__owner *owner)
{
	return entry_find(entry_out, client, recipe, name, size, owner, false);
}

bool lk__entry_is_of(const struct lk__entry *entry, const struct lk__owner *owner)
{
	uint64_t serial;
	assert(entry->target.recipe->sharing == LK__EACH_OWNER);
	memcpy(&serial, entry->words, sizeof(serial)); /* as entry_named() has it */
	return serial && serial == owner->serial;
}

void lk__entry_ref(struct lk__entry *entry)
{
	uint32_t before = atomic_fetch_add(&entry->refs, 1);
	assert(before > 0 && before < UINT32_MAX);
	(void)before;
}

bool lk__entry_ref_if_alive(struct lk__entry *entry)
{
	uint32_t refs = atomic_load(&entry->refs);
	while (refs > 0)
		if (atomic_compare_exchange_weak(&entry->refs, &refs, refs + 1))
			return true;
	return false;
}

void lk__entry_unref(struct lk__entry *entry)
{
	uint32_t refs = atomic_load(&entry->refs);
	assert(refs > 0);
	while (refs > 1)
		if (atomic_compare_exchange_weak(&entry->refs, &refs, refs - 1))
			return;
	lk_client *client = entry->client;
	pthread_mutex_lock(&client->mutex);
	bool last = atomic_fetch_sub(&entry->refs, 1) == 1;
	if (last) {
		watch_forget(client, entry); /* those that are left have room for their own */
		entries_remove(&client->entries, entry);
	}
	pthread_mutex_unlock(&client->mutex);
	if (last)
		entry_free(entry);
}

bool lk__entries_each(lk_client *client, void (*visit)(void *context, struct lk__entry *entry),
		      void *context)
{
	struct lk__entry *entry = NULL;
	size_t count = 0;
	pthread_mutex_lock(&client->mutex);
	struct lk__entry **entries = calloc(client->entries.count + 1, sizeof(struct lk__entry *));
	while (entries && (entry = lk__entries_next(&client->entries, entry)))
		if (lk__entry_ref_if_alive(entry))
			entries[count++] = entry;
	pthread_mutex_unlock(&client->mutex);
	for (size_t i = 0; i < count; i++) {
		visit(context, entries[i]);
		lk__entry_unref(entries[i]);
	}
	bool listed = entries != NULL;
	free(entries);
	return listed;
}

void lk__entries_init(lk_client *client)
{
	pthread_mutex_init(&client->holders.mutex, NULL);
	pthread_mutex_init(&client->watch.mutex, NULL);
	client->watch.armed_ns = LK__NEVER;
}

static void entries_drop(lk_client *client, struct lk__entry *entry)
{
	entries_remove(&client->entries, entry);
	entry_free(entry);
}

/* One whose lock is on several nodes; it has references of others, which go with it. */
static struct lk__entry *entries_quorum(lk_client *client)
{
	struct lk__entry *entry = NULL;
	while ((entry = lk__entries_next(&client->entries, entry)) && !entry->is_quorum)
		continue;
	return entry;
}

void lk__entries_free(lk_client *client)
{
	struct lk__entry *entry, *next;
	while ((entry = entries_quorum(client)))
		entries_drop(client, entry);
	for (entry = lk__entries_next(&client->entries, NULL); entry; entry = next) {
		next = lk__entries_next(&client->entries, entry);
		entries_drop(client, entry);
	}
	free(client->entries.chain);
	free(client->holders.chain);
	pthread_mutex_destroy(&client->holders.mutex);
	lk__heap_free(&client->watch.heap);
	pthread_mutex_destroy(&client->watch.mutex);
}

void lk__entry_keep(struct lk__entry *entry)
{
	lk__client_ref(entry->client);
	lk__entry_ref(entry);
}

void lk__entry_let_go(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	lk__entry_unref(entry);
	lk__client_unref(client);
}

void lk__field(const struct lk__entry *entry, uint64_t number, char field_out[LK__FIELD_SIZE])
{
	if (entry->target.recipe->field)
		entry->target.recipe->field(entry->client->id, number, field_out);
	else
		lk__field_of(entry->client->id, number, field_out);
}

/* ---- its connection ---- */

/*
 * On which of its node's connections for scripts an entry is (conn/node.c).
 *
 * It stays on one while anything of it is under way there: a try, a release, a number that is
 * compensated, an acquire of which a copy may still run. So no release overtakes its acquire, and
 * no acquire a release that nobody waits for. Else each caller that waits for an answer takes it
 * along to the connection that it chooses.
 *
 * Where each owner has an entry, or several kinds share a key, what one of them sends comes before
 * what the next one sends: all are on the first connection. An entry that red locks have in common
 * with callers of its own stays where it is, since nothing here tells what of those is under way.
 */

#define EXTRA_MOST 16 /* connections of a client beside the first of each node */

static bool entry_may_move(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	return recipe->sharing == LK__ONE_QUEUE && !recipe->other_side && !entry->is_quorum &&
	       !lk__entry_reds(entry);
}

static bool entry_is_under_way(const struct lk__entry *entry)
{
	const struct lk__waiting *waiting = entry->waiting;
	int64_t repeated_until_ns = entry->grant.repeated_until_ns;
	return entry->passing || atomic_load(&entry->releasing) > 0 ||
	       atomic_load(&entry->compensating) > 0 ||
	       (waiting && (waiting->request || waiting->answered)) ||
	       (repeated_until_ns && repeated_until_ns > lk__now_ns());
}

/* The client has found all connections of the node taken, for a while. One caller at a time counts
 * and opens: two nodes may not both take the last that is free. */
static void client_grow(lk_client *client, struct lk__node *node)
{
	struct lk__topo *topo = client->topo;
	struct lk__node *each;
	size_t extra = 0;
	if (atomic_exchange(&client->growing, true))
		return;
	for (size_t i = 0; (each = topo->ops->node_at(topo, i)); i++)
		extra += lk__node_extra(each);
	if (extra < EXTRA_MOST)
		lk__node_grow(node);
	atomic_store(&client->growing, false);
}

struct lk__conn *lk__entry_join(struct lk__entry *entry, struct lk__node *node)
{
	bool crowded = false;
	struct lk__conn *conn;
	if (node->config->connections > 1 && entry_may_move(entry) && !entry_is_under_way(entry)) {
		conn = lk__node_join(node, &crowded);
		atomic_store(&entry->conn_index, conn->index);
	} else {
		conn = lk__node_scripts_at(node, atomic_load(&entry->conn_index));
		lk__conn_join(conn);
	}
	if (crowded)
		client_grow(entry->client, node);
	return conn;
}

void lk__entry_rejoin_first(struct lk__entry *entry)
{
	if (atomic_load(&entry->conn_index) > 0 && !lk__entry_reds(entry) &&
	    !entry_is_under_way(entry))
		atomic_store(&entry->conn_index, 0);
}

void lk__entry_return(struct lk__entry *entry, const struct lk__node *node)
{
	unsigned index = atomic_load(&entry->conn_index);
	if (index > 0 && lk__node_scripts_at(node, index)->state != LK__CONN_UP)
		lk__entry_rejoin_first(entry);
}

struct lk__conn *lk__entry_scripts(const struct lk__entry *entry)
{
	return lk__node_scripts_at(lk__entry_node(entry), atomic_load(&entry->conn_index));
}

struct lk__conn *lk__entry_conn(const struct lk__entry *entry)
{
	return lk__node_scripts_at(entry->target.node, atomic_load(&entry->conn_index));
}

/* ---- holds ---- */

int64_t lk__hold_deadline(const struct lk__hold *hold)
{
	return hold->lost ? hold->own_until_ns
			  : lk__earlier(hold->entry->grant.valid_until_ns, hold->own_until_ns);
}

bool lk__entry_in_doubt(const struct lk__entry *entry)
{
	const struct lk__grant *grant = &entry->grant;
	return atomic_load(&entry->doubt) ||
	       (grant->node &&
		grant->epoch != atomic_load_explicit(&grant->node->epoch, memory_order_relaxed));
}

uint64_t lk__entry_begin_try(struct lk__entry *entry)
{
	atomic_store(&entry->doubt, false);
	return atomic_load(&entry->target.node->epoch);
}

void lk__entry_take_hold(struct lk__entry *entry)
{
	entry->hold = NULL;
	if (entry->counted)
		atomic_fetch_sub(&entry->client->tracked, 1);
	entry->counted = false;
	entry->tracked = 0;
	holders_remove(entry);
}

int64_t lk__entry_lease_ms(const struct lk__entry *entry, const struct lk__hold *hold)
{
	int64_t watchdog_ms = entry->client->config->watchdog_ms;
	bool elects = entry->target.recipe->flags & LK__ELECTS;
	if (hold->lease_ms)
		return hold->lease_ms;
	return elects ? watchdog_ms - watchdog_ms / LK__REST_PART : watchdog_ms;
}

/* ---- what contradicts a hold ---- */

/*
 * An answer or a message contradicts a hold of ours: the loop asks the server at once, by owner id.
 *
 * No such answer ends a hold by itself: it may be older than the grant, or be about something else
 * that has the same key. The holds of a key are found by the tables above, so a client that has
 * 100,000 of them finds those of one key as fast as one that has a few.
 */

void lk__doubt(struct lk__entry *entry)
{
	if (!atomic_exchange(&entry->doubt, true) && atomic_load(&entry->hold))
		lk__watch_at(entry, lk__now_ns());
}

void lk__doubt_fronts(const struct lk__entry *entry)
{
	struct lk__front *front;
	const struct lk__reds *reds = lk__entry_reds(entry);
	if (!reds)
		return;
	DL_FOREACH(reds->fronts, front)
	lk__doubt(front->entry);
}

struct channel_name {
	char *text;
	size_t size;
};

/* A lock's channel, or that of one of its waiters, whose name begins with it. */
static bool is_channel_of_lock(const void *context, const char *name, size_t size)
{
	const struct channel_name *lock = context;
	return size >= lock->size && memcmp(name, lock->text, lock->size) == 0;
}

/* Owners that have an entry each wait for a message, which nobody sends of what is simply gone:
 * they try now. */
static void wake_other_owners(struct lk__entry *entry)
{
	struct channel_name lock;
	lock.text = lk__target_channel(&entry->target, &lock.size);
	if (!lock.text)
		return; /* out of memory: they look again by themselves */
	pthread_mutex_lock(&entry->mutex);
	lk__channels_wake(lk__entry_messages(entry), is_channel_of_lock, &lock);
	pthread_mutex_unlock(&entry->mutex);
	free(lock.text);
}

/* `context`: the last of them, with a reference. */
static void doubt_owner(void *context, struct lk__entry *entry)
{
	struct lk__entry **owner = context;
	lk__doubt(entry);
	if (*owner)
		return;
	lk__entry_ref(entry);
	*owner = entry;
}

void lk__doubt_key(lk_client *client, const char *key, size_t key_size)
{
	struct lk__entry *entry = NULL, *owner = NULL;
	pthread_mutex_lock(&client->mutex);
	while ((entry = entries_next_of(&client->entries, entry, key, key_size))) {
		lk__doubt(entry);
		lk__doubt_fronts(entry);
	}
	pthread_mutex_unlock(&client->mutex);
	holders_each(&client->holders, key, key_size, true, doubt_owner, &owner);
	holders_each(&client->holders, key, key_size, false, doubt_owner, &owner);
	if (!owner)
		return;
	wake_other_owners(owner);
	lk__entry_unref(owner);
}

/* True of the other side of the same lock, which the same owner may have. */
static bool is_other_side(const struct lk__entry *entry, const struct lk__entry *other)
{
	size_t size = lk__entry_words_size(entry);
	return other->target.recipe == entry->target.recipe->other_side &&
	       lk__entry_words_size(other) == size && memcmp(other->words, entry->words, size) == 0;
}

static void doubt_other(void *context, struct lk__entry *other)
{
	const struct lk__entry *entry = context;
	if (other != entry && atomic_load(&other->hold) && !is_other_side(entry, other))
		lk__doubt(other);
}

void lk__doubt_others(struct lk__entry *entry)
{
	lk_client *client = entry->client;
	const struct lk__target *target = &entry->target;
	struct lk__entry *other = NULL;
	bool shares = target->recipe->flags & LK__SHARES;
	if (target->recipe->sharing == LK__NO_HOLD || entry->is_quorum)
		return; /* which excludes nobody, or not on this node */
	/* Where the owners of a kind have one entry in common, only another kind has a second entry
	 * of the key: a client with one kind does not look, nor take its mutex, for each grant. */
	if (atomic_load(&client->entries.mixed)) {
		pthread_mutex_lock(&client->mutex);
		while ((other = entries_next_of(&client->entries, other, target->key,
						target->key_size)))
			doubt_other(entry, other);
		pthread_mutex_unlock(&client->mutex);
	}
	holders_each(&client->holders, target->key, target->key_size, false, doubt_other, entry);
	if (!shares)
		holders_each(&client->holders, target->key, target->key_size, true, doubt_other,
			     entry);
}

/* ---- the wait queue ---- */

static struct lk__attempt_rules entry_rules(const struct lk__entry *entry)
{
	const struct lk_config *config = entry->client->config;
	unsigned flags = entry->target.recipe->flags;
	return (struct lk__attempt_rules){
		.numbers = &entry->client->last_number,
		.command_ns = config->command_timeout_ms * LK__MS,
		.retry_ns = config->retry_ms * LK__MS,
		.backoff_min_ns = config->backoff_min_ms * LK__MS,
		.backoff_max_ns = config->backoff_max_ms * LK__MS,
		.spins = entry->deaf || (flags & LK__SPINS) != 0,
		.takes = !(flags & LK__FOR_ALL),
		.queues = (flags & LK__QUEUES) != 0,
		.own_channel = (flags & LK__OWN_CHANNEL) != 0,
		.fans_out = entry->is_quorum,
	};
}

/* Tells whether a number of it may have to be compensated before its next try, release or
 * extension: when its hold is lost (lk__entry_lose()), or by others. */
static bool entry_needs_spares(const struct lk__entry *entry)
{
	const struct lk__recipe *recipe = entry->target.recipe;
	return lk__entry_reds(entry) || entry->is_quorum || recipe->other_side ||
	       recipe->sharing != LK__ONE_QUEUE || entry->grant.outlives_ns ||
	       entry->grant.repeated_until_ns;
}

bool lk__entry_begin_waiting(struct lk__entry *entry)
{
	if (!lk__compensation_reserve(entry))
		return false;
	if (!entry->waiting) {
		/* Not calloc(): see entry_named(). */
		entry->waiting = malloc(sizeof(*entry->waiting));
		if (!entry->waiting)
			return false;
		*entry->waiting = (struct lk__waiting){.attempt.rules = entry_rules(entry)};
	}
	entry->waiting->callers++;
	return true;
}

void lk__entry_end_waiting(struct lk__entry *entry)
{
	assert(entry->waiting && entry->waiting->callers > 0);
	entry->waiting->callers--;
	lk__entry_rest(entry);
}

void lk__entry_rest(struct lk__entry *entry)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!waiting || waiting->callers || waiting->request || waiting->answered ||
	    waiting->attempt.state != LK__ATTEMPT_IDLE)
		return;
	assert(!waiting->queue && !waiting->head && !waiting->channel && !waiting->tries);
	entry->deaf = waiting->attempt.rules.spins && !(entry->target.recipe->flags & LK__SPINS);
	free(waiting);
	entry->waiting = NULL;
}

void lk__entry_free_spares(struct lk__entry *entry)
{
	if (!entry->waiting && !entry->passing && !entry_needs_spares(entry))
		compensation_unreserve(entry);
}

static bool entry_drains(const struct lk__entry *entry, const struct lk__settings *settings)
{
	if (!atomic_load_explicit(&entry->client->draining, memory_order_relaxed))
		return false;
	return !(entry->target.recipe == &lk__barrier_recipe &&
		 settings->flags & LK__BARRIER_LEAVES);
}

int lk__entry_ends(const struct lk__entry *entry, const struct lk__settings *settings)
{
	if (atomic_load(&entry->client->state) != LK__CLIENT_OPEN)
		return LK_ECLOSED;
	return entry_drains(entry, settings) ? LK_EDRAINING : 0;
}

int lk__entry_refuses(const struct lk__entry *entry, const struct lk__settings *settings,
		      lk_error *error)
{
	int code = lk__entry_ends(entry, settings);
	return code ? lk__fail(error, code, "\"%.100s\": %s", entry->name, lk_error_text(code)) : 0;
}

/* `caller` looks next whether it is the head: it is not woken for that. NULL: none does. */
static void entry_promote(struct lk__entry *entry, const struct lk__caller *caller)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!waiting || !waiting->queue || waiting->head || entry->hold || entry->passing)
		return;
	waiting->head = waiting->queue;
	if (waiting->head != caller)
		lk__thread_wake(waiting->head->thread);
}

void lk__entry_promote(struct lk__entry *entry)
{
	entry_promote(entry, NULL);
}

void lk__entry_join_queue(struct lk__entry *entry, struct lk__caller *waiter)
{
	DL_APPEND(entry->waiting->queue, waiter);
	lk__entry_count(entry, waiting, 1);
	entry_promote(entry, waiter);
}

void lk__entry_unsubscribe(struct lk__entry *entry)
{
	struct lk__waiting *waiting = entry->waiting;
	if (!waiting || !waiting->channel)
		return;
	if (waiting->place.node)
		lk__tracker_end(&waiting->place.tracker, waiting->place.node);
	waiting->place.node = NULL;
	lk__channel_close(lk__entry_messages(entry), waiting->channel);
	waiting->channel = NULL;
	waiting->mark.listening = NULL;
}

int lk__entry_kept_out(const struct lk__entry *entry)
{
	const struct lk__attempt *attempt = entry->waiting ? &entry->waiting->attempt : NULL;
	if (entry->hold || (attempt && attempt->busy))
		return LK_EBUSY;
	int code = attempt ? attempt->code : 0;
	if (!lk_error_maybe_held(code))
		return code;
	return code == LK_ENOTDURABLE ? LK_EUNAVAILABLE : LK_EUNREACHABLE;
}

bool lk__entry_is_stale(const struct lk__entry *entry, const struct lk__caller *caller)
{
	const struct lk__attempt *attempt = &entry->waiting->attempt;
	return (entry->target.recipe->flags & LK__FOR_ALL) && attempt->busy &&
	       attempt->busy_sent_ns < caller->since_ns;
}

void lk__entry_wake_askers(const struct lk__entry *entry)
{
	const struct lk__caller *waiter;
	if (!entry->waiting || !entry->waiting->askers)
		return;
	DL_FOREACH(entry->waiting->queue, waiter)
	if (waiter->asks_until_ns)
		lk__thread_wake(waiter->thread);
}

void lk__entry_note_wait(const struct lk__entry *entry, struct lk__caller *waiter)
{
	if (!waiter->contended)
		lk__probe3(wait__start, entry->name, entry->client->id, waiter);
	waiter->contended = true;
}

void lk__entry_leave_queue(struct lk__entry *entry, struct lk__caller *waiter)
{
	struct lk__waiting *waiting = entry->waiting;
	assert(waiting && waiting->queue);
	DL_DELETE(waiting->queue, waiter);
	waiting->askers -= waiter->asks_until_ns != 0;
	waiter->asks_until_ns = 0;
	lk__entry_count(entry, waiting, (uint64_t)-1);
	if (waiter->contended)
		lk__probe3(wait__done, entry->name, entry->client->id, waiter);
	if (waiting->head == waiter)
		waiting->head = NULL;
	if (waiting->queue)
		return;
	lk__attempt_rest(&waiting->attempt);
	lk__entry_unsubscribe(entry);
}
