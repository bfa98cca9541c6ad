/* SPDX-License-Identifier: MIT */
#include "lock/client.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conn/request.h"
#include "lock/loop.h"

int lk__client_check(lk_client *client, const char *operation, lk_error *error)
{
	int code = 0;
	if (lk__client_forked(client))
		code = LK_EFORKED;
	else if (atomic_load_explicit(&client->state, memory_order_relaxed) != LK__CLIENT_OPEN)
		code = LK_ECLOSED;
	return code ? lk__fail(error, code, "%s: %s", operation, lk_error_text(code)) : 0;
}

void lk__client_wake_waiters(lk_client *client)
{
	struct lk__thread *thread;
	const struct lk__guest *guest;
	pthread_mutex_lock(&client->mutex);
	LL_FOREACH(client->threads, thread)
	{
		atomic_store(&thread->looks, true);
		lk__thread_wake(thread);
	}
	DL_FOREACH(client->asyncs.guests, guest)
	lk__thread_wake(guest->thread);
	pthread_mutex_unlock(&client->mutex);
}

void lk__count_us(struct lk__histogram *histogram, int64_t duration_ns)
{
	uint64_t us = (uint64_t)(duration_ns > 0 ? duration_ns / LK__US : 0);
	int bucket = us < 2 ? 0 : 63 - __builtin_clzll(us);
	bucket = bucket < LK_HISTOGRAM_SIZE ? bucket : LK_HISTOGRAM_SIZE - 1;
	lk__count(&histogram->bucket[bucket], 1);
	lk__count(&histogram->sum_us, us);
}

/* ---- threads ---- */

static struct lk__thread *thread_new(lk_client *client)
{
	struct lk__thread *thread;
	LL_FOREACH(client->threads, thread)
	if (thread->ended)
		break;
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		pthread_mutex_init(&thread->mutex, NULL);
		thread->client = client;
		thread->callers = &client->callers;
		LL_PREPEND(client->threads, thread);
	}
	thread->ended = 0;
	thread->serial = atomic_fetch_add(&client->last_serial, 1) + 1;
	return thread;
}

struct lk__thread *lk__client_thread(lk_client *client)
{
	struct lk__thread *thread = lk__thread_get(client->key);
	if (thread) {
		lk__callers_note(&client->callers, thread);
		return thread;
	}
	pthread_mutex_lock(&client->mutex);
	thread = thread_new(client);
	if (thread && lk__thread_set(client->key, thread) != 0) {
		thread->ended = 1;
		thread = NULL;
	}
	pthread_mutex_unlock(&client->mutex);
	if (thread)
		lk__callers_note(&client->callers, thread);
	return thread;
}

/* ---- references ---- */

void lk__client_ref(lk_client *client)
{
	atomic_fetch_add(&client->refs, 1);
}

void lk__client_unref(lk_client *client)
{
	size_t before = atomic_fetch_sub(&client->refs, 1);
	assert(before > 0);
	if (before == 1)
		client->ops->free(client);
}

/* ---- the key that says who the client is ---- */

#define TTL_PARTS 3 /* watchdog leases that it outlives a client which died */
#define HOST_SIZE 65
#define USER_SIZE 65
#define PROGRAM_SIZE 257
#define USERS_MAX 10000 /* lines of the file of users that are looked at */
#define NOTES_MAX 64    /* of holds, as <lockkeeper/lock.h> says */
#define NOTES_SIZE (NOTES_MAX * (LK__NOTE_MAX + 32))
#define RECORD_SIZE (HOST_SIZE + USER_SIZE + PROGRAM_SIZE + LK__NOTE_MAX + 128)

struct record {
	char host[HOST_SIZE], user[USER_SIZE], program[PROGRAM_SIZE];
};

/* One line has one value: what would end it, or reach a terminal, is replaced. */
static void record_clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Whether a line of the file of users, "name:password:uid:…", is this user's: then it ends behind
 * the name. */
static bool user_is(char *line, uid_t uid)
{
	char *password = strchr(line, ':');
	char *number = password ? strchr(password + 1, ':') : NULL;
	if (!number || number[1] < '0' || number[1] > '9')
		return false;
	char *end;
	unsigned long value = strtoul(number + 1, &end, 10);
	*password = '\0';
	return *end == ':' && value == uid;
}

/*
 * The user's name from the local file alone: a name service may take minutes, and the thread that
 * asks renews leases.
 */
static void record_user(char user_out[USER_SIZE])
{
	uid_t uid = getuid();
	FILE *file = fopen("/etc/passwd", "re");
	char line[1024];
	bool begins = true; /* not in the middle of a line that is longer */
	snprintf(user_out, USER_SIZE, "%lu", (unsigned long)uid);
	for (int i = 0; file && i < USERS_MAX && fgets(line, sizeof(line), file); i++) {
		bool begun = begins;
		begins = strchr(line, '\n') != NULL;
		if (begun && user_is(line, uid)) {
			snprintf(user_out, USER_SIZE, "%.*s", USER_SIZE - 1, line);
			break;
		}
	}
	if (file)
		fclose(file);
}

/* The process' command line, words parted by blanks. False when it cannot be read. */
static bool record_command_line(char program_out[PROGRAM_SIZE])
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	if (!file)
		return false;
	size_t size = fread(program_out, 1, PROGRAM_SIZE - 1, file);
	fclose(file);
	while (size > 0 && program_out[size - 1] == '\0')
		size--;
	for (size_t i = 0; i < size; i++)
		if (program_out[i] == '\0')
			program_out[i] = ' ';
	program_out[size] = '\0';
	return size > 0;
}

static void record_make(struct record *record, const struct lk_config *config)
{
	const char *program = config->client_program;
	bool told = *program;
	if (gethostname(record->host, sizeof(record->host)) < 0)
		strcpy(record->host, "?");
	record->host[sizeof(record->host) - 1] = '\0';
	record_user(record->user);
	if (!told && config->chosen.records == LK__RECORDS_ARGUMENTS)
		told = record_command_line(record->program);
	else if (told)
		snprintf(record->program, sizeof(record->program), "%s", program);
	if (!told)
		snprintf(record->program, sizeof(record->program), "%s",
			 program_invocation_short_name);
	record_clean(record->host);
	record_clean(record->user);
	record_clean(record->program);
}

/* Has the loop write the record at once. */
static void record_hasten(lk_client *client)
{
	atomic_store(&client->record.due_ns, 0);
	lk__client_record_want(client);
	lk__loop_wake(client);
}

void lk__note_begin(lk_client *client, struct lk__note *note, uint64_t number)
{
	struct lk__client_record *record = &client->record;
	if (!note && !atomic_load_explicit(&record->stale, memory_order_relaxed))
		return;
	if (note) {
		assert(!note->number && number);
		pthread_mutex_lock(&record->mutex);
		note->number = number;
		DL_APPEND(record->notes, note);
		pthread_mutex_unlock(&record->mutex);
	}
	record_hasten(client);
}

void lk__note_end(lk_client *client, struct lk__note *note)
{
	struct lk__client_record *record = &client->record;
	if (!note || !note->number)
		return;
	pthread_mutex_lock(&record->mutex);
	DL_DELETE(record->notes, note);
	if (note->shown)
		atomic_store(&record->stale, true);
	pthread_mutex_unlock(&record->mutex);
}

/* Adds the notes of the newest holds that have one. With the record's mutex. */
static void record_add_notes(char *text, size_t size, lk_client *client)
{
	struct lk__note *note;
	size_t count = 0, used = strlen(text);
	DL_FOREACH(client->record.notes, note)
	{
		count++;
		note->shown = false;
	}
	DL_FOREACH(client->record.notes, note)
	{
		if (count-- > NOTES_MAX)
			continue;
		used += (size_t)snprintf(text + used, size - used, "note:%" PRIu64 "=%s\n",
					 note->number, note->text);
		note->shown = true;
	}
	atomic_store(&client->record.stale, false);
}

/* The text of the record. `since` is the client's start by the server's clock, in ms. */
static void record_write(char text_out[RECORD_SIZE], const lk_client *client,
			 const struct lk__node *node)
{
	struct record record = {.program = ""};
	record_make(&record, client->config);
	long pid = client->config->client_pid ? (long)client->config->client_pid : (long)getpid();
	int64_t since_ms = lk__node_server_us(node, client->record.since_ns) / 1000;
	int size = snprintf(text_out, RECORD_SIZE, "id=%s\nhost=%s\npid=%ld\nsince=%" PRId64 "\n",
			    client->id, record.host, pid, since_ms);
	if (client->config->chosen.records != LK__RECORDS_SHORT)
		size += snprintf(text_out + size, RECORD_SIZE - (size_t)size,
				 "user=%s\nprogram=%s\n", record.user, record.program);
	if (*client->config->note)
		snprintf(text_out + size, RECORD_SIZE - (size_t)size, "note=%s\n",
			 client->config->note);
}

char *lk__client_record_key(const lk_client *client)
{
	char *key = NULL;
	if (asprintf(&key, "%s" LK__CLIENT_RECORD_PREFIX "%.*s", client->config->key_prefix,
		     LK__CLIENT_HALF, client->id) < 0)
		return NULL;
	return key;
}

static void record_finish(struct lk__request *request)
{
	lk_client *client = request->owner;
	if (request->code == LK_EDENIED)
		atomic_store(&client->record.denied, true);
	lk__request_free(request);
}

/* The connection for the record, or NULL while there is none: `near` where that can be. */
static struct lk__conn *record_conn(lk_client *client, const char *key, struct lk__conn *near,
				    struct lk__node **node_out)
{
	struct lk__node *node = *node_out = lk__topo_node_of(client->topo, key, strlen(key));
	if (near && near->node == node && lk__conn_is_up(near))
		return near;
	size_t count = atomic_load(&node->script_count);
	for (size_t i = 0; i < count; i++)
		if (lk__conn_is_up(node->scripts[i]))
			return node->scripts[i];
	if (client->topo->slotted) /* no lock may ever need this node */
		lk__conn_open(lk__node_scripts(node));
	return NULL;
}

/* Sends a command about the record, and waits for nothing: false when it was not sent. */
static bool record_send(lk_client *client, struct lk__conn *conn, size_t argc, const char **argv)
{
	size_t sizes[5];
	for (size_t i = 0; i < argc; i++)
		sizes[i] = strlen(argv[i]);
	struct lk__request *request = lk__request_new(argc, argv, sizes);
	if (!request)
		return false;
	request->owner = client;
	request->finish = record_finish;
	request->deadline_ns = lk__after_ms(lk__now_ns(), client->config->command_timeout_ms);
	lk__conn_submit(conn, request);
	return true;
}

static bool record_set(lk_client *client, struct lk__conn *near, int64_t ttl_ms)
{
	size_t size = RECORD_SIZE + (client->record.notes ? NOTES_SIZE : 0);
	char ttl[24], *text = malloc(size);
	struct lk__node *node;
	bool sent = false;
	char *key = text ? lk__client_record_key(client) : NULL;
	struct lk__conn *conn = key ? record_conn(client, key, near, &node) : NULL;
	if (conn) {
		record_write(text, client, node);
		record_add_notes(text, size, client);
		snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
		sent = record_send(client, conn, 5, (const char *[]){"SET", key, text, "PX", ttl});
	}
	free(key);
	free(text);
	return sent;
}

static void record_delete(lk_client *client)
{
	struct lk__node *node;
	char *key = lk__client_record_key(client);
	struct lk__conn *conn = key ? record_conn(client, key, NULL, &node) : NULL;
	if (conn)
		record_send(client, conn, 2, (const char *[]){"DEL", key});
	free(key);
}

static bool record_is_off(const lk_client *client)
{
	return atomic_load(&client->record.denied) ||
	       client->config->chosen.records == LK__RECORDS_OFF;
}

void lk__client_record_show(lk_client *client, struct lk__conn *near)
{
	struct lk__client_record *record = &client->record;
	int64_t now_ns = lk__now_ns();
	if (now_ns < atomic_load_explicit(&record->due_ns, memory_order_relaxed) ||
	    record_is_off(client))
		return;
	int64_t lease_ms = client->config->watchdog_ms;
	pthread_mutex_lock(&record->mutex);
	if (!record->ended && now_ns >= atomic_load(&record->due_ns) &&
	    record_set(client, near, TTL_PARTS * lease_ms)) {
		record->written = true;
		atomic_store(&record->wanted, false);
		atomic_store(&record->due_ns, lk__after_ms(now_ns, lease_ms));
	}
	pthread_mutex_unlock(&record->mutex);
}

int64_t lk__client_record_turn(lk_client *client)
{
	struct lk__client_record *record = &client->record;
	bool wanted = atomic_load(&record->wanted) || atomic_load(&client->counters.held) > 0 ||
		      atomic_load(&record->kept_until_ns) > lk__now_ns();
	if (!wanted || record_is_off(client))
		return LK__NEVER;
	lk__client_record_show(client, NULL);
	int64_t due_ns = atomic_load(&record->due_ns);
	/* Without a connection the loop is woken when there is one. */
	return lk__now_ns() < due_ns ? due_ns : LK__NEVER;
}

void lk__client_record_keep(lk_client *client, int64_t until_ns)
{
	struct lk__client_record *record = &client->record;
	int64_t kept_ns = atomic_load(&record->kept_until_ns);
	while (kept_ns < until_ns &&
	       !atomic_compare_exchange_weak(&record->kept_until_ns, &kept_ns, until_ns)) {}
}

void lk__client_record_end(lk_client *client, int64_t until_ns)
{
	struct lk__client_record *record = &client->record;
	int64_t now_ns = lk__now_ns();
	pthread_mutex_lock(&record->mutex);
	record->ended = true;
	if (until_ns < atomic_load(&record->kept_until_ns))
		until_ns = atomic_load(&record->kept_until_ns);
	if (!record_is_off(client) && until_ns > now_ns)
		record_set(client, NULL, (until_ns - now_ns) / LK__MS + 1);
	else if (record->written)
		record_delete(client);
	pthread_mutex_unlock(&record->mutex);
}
