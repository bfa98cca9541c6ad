/* The verbs on locks, clients and events: each a call of the library. */
#include "driver.h"
#include "program.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call on one lock. */
struct call {
	const struct command *command;
	struct answer *answer;
	lk_client *client;
	lk_lock *lock;
	const char *owner;
	const char *token; /* or NULL: cancels it */
	int queued;        /* queue=1: asynchronous, and its owner is the thread's name */
	lk_acquire_options options;
	lk_error error;
};

static int call_acquire(struct call *call)
{
	return call->queued
		       ? queued_acquire(call->lock, -1, &call->options, call->token, &call->error)
		       : lk_lock_acquire(call->lock, -1, &call->options, &call->error);
}

static int call_within(struct call *call)
{
	int64_t wait_ms = command_number(call->command, "wait", 0);
	return call->queued ? queued_acquire(call->lock, wait_ms, &call->options, call->token,
					     &call->error)
			    : lk_lock_acquire(call->lock, wait_ms, &call->options, &call->error);
}

static int call_try(struct call *call)
{
	return call->queued
		       ? queued_acquire(call->lock, 0, &call->options, call->token, &call->error)
		       : lk_lock_acquire(call->lock, 0, &call->options, &call->error);
}

static int call_release(struct call *call)
{
	lk_release_options options = LK_RELEASE_OPTIONS_INIT;
	options.owner = call->owner;
	options.no_wait = (int)command_number(call->command, "no_wait", 0);
	options.keep_ms = command_number(call->command, "keep", 0);
	return call->queued ? queued_release(call->lock, &options, &call->error)
			    : lk_lock_release(call->lock, &options, &call->error);
}

static int call_force(struct call *call)
{
	return lk_lock_force_release(call->lock, &call->error);
}

static int call_extend(struct call *call)
{
	int64_t lease_ms = command_number(call->command, "lease", 0);
	return call->queued
		       ? queued_extend(call->lock, lease_ms, call->owner, &call->error)
		       : lk_lock_extend(call->lock, lease_ms, extend_by(call->owner), &call->error);
}

static int call_export(struct call *call)
{
	char field[LK_FIELD_SIZE];
	int result = lk_lock_export(call->lock, call->owner, field, sizeof(field), &call->error);
	if (result >= 0)
		answer_string(call->answer, "field", field);
	return result;
}

static int call_release_field(struct call *call)
{
	const char *field = command_text(call->command, "field", NULL);
	return lk_lock_release(call->lock, release_of(field), &call->error);
}

static int call_extend_field(struct call *call)
{
	const char *field = command_text(call->command, "field", NULL);
	int64_t lease_ms = command_number(call->command, "lease", 0);
	return lk_lock_extend(call->lock, lease_ms, extend_of(field), &call->error);
}

static int call_is_locked(struct call *call)
{
	int locked = 0;
	int result = lk_lock_is_locked(call->lock, &locked, &call->error);
	return result < 0 ? result : locked;
}

static int call_is_held(struct call *call)
{
	return lk_lock_is_held(call->lock, call->owner, &call->error);
}

static int call_is_held_by(struct call *call)
{
	const char *field = command_text(call->command, "field", NULL);
	int held = 0;
	int result = lk_lock_is_held_by(call->lock, field, &held, &call->error);
	return result < 0 ? result : held;
}

static int call_fence(struct call *call)
{
	uint64_t token = 0; /* told with the answer */
	return lk_lock_fence(call->lock, call->owner, &token, &call->error);
}

static int call_hold_count(struct call *call)
{
	return lk_lock_hold_count(call->lock, call->owner, &call->error);
}

static int call_remaining(struct call *call)
{
	int64_t ms = 0;
	int result = lk_lock_remaining_ms(call->lock, call->owner, &ms, &call->error);
	answer_int(call->answer, "value", ms);
	return result;
}

static int call_ttl(struct call *call)
{
	int64_t ms = 0;
	int result = lk_lock_server_ttl_ms(call->lock, &ms, &call->error);
	answer_int(call->answer, "value", ms);
	return result;
}

static const struct {
	const char *verb;
	int (*run)(struct call *call);
} lock_verbs[] = {
	{"acquire", call_acquire},
	{"within", call_within},
	{"try", call_try},
	{"release", call_release},
	{"force", call_force},
	{"extend", call_extend},
	{"export", call_export},
	{"release_field", call_release_field},
	{"extend_field", call_extend_field},
	{"is_locked", call_is_locked},
	{"is_held", call_is_held},
	{"is_held_by", call_is_held_by},
	{"fence", call_fence},
	{"hold_count", call_hold_count},
	{"remaining", call_remaining},
	{"ttl", call_ttl},
};

const char *lock_verb_at(size_t index)
{
	return index < sizeof(lock_verbs) / sizeof(lock_verbs[0]) ? lock_verbs[index].verb : NULL;
}

/* Runs a verb on the lock `name`, with a handle of its own; adds deadline and token if held. */
static void lock_verb_run(size_t index, const struct command *command, struct answer *answer)
{
	size_t name_size = 0;
	const char *name = command_text(command, "name", &name_size);
	struct call call = {
		.command = command,
		.answer = answer,
		.client = handle_client(command),
		.owner = command_text(command, "owner", NULL),
		.token = command_text(command, "cancel", NULL),
		.queued = command_number(command, "queue", 0) != 0,
		.options = LK_ACQUIRE_OPTIONS_INIT,
	};
	call.options.lease_ms = command_number(command, "lease", 0);
	call.options.max_hold_ms = command_number(command, "max_hold", 0);
	call.options.margin_ms = command_number(command, "margin", 0);
	if (call.queued && !call.owner)
		call.owner = command->thread;
	call.options.owner = call.owner;
	call.options.tag = (uint64_t)command_number(command, "tag", 0);
	if (call.token && !call.queued)
		call.options.cancel = handle_cancel(call.token);
	int result = kind_make(&call.lock, command, call.client, name, name_size, &call.error);
	if (result == 0)
		result = lock_verbs[index].run(&call);
	int64_t deadline_ns = 0;
	if (call.lock && lk_lock_deadline_ns(call.lock, call.owner, &deadline_ns, NULL) == 0)
		answer_int(answer, "deadline_ns", deadline_ns);
	uint64_t fence = 0;
	if (call.lock && lk_lock_fence(call.lock, call.owner, &fence, NULL) == 0)
		answer_int(answer, "fence", (int64_t)fence);
	answer_result(answer, result, &call.error);
	lk_lock_free(call.lock);
}

static void log_line(void *context, int level, const char *line)
{
	struct answer answer;
	(void)context;
	answer_begin(&answer);
	answer_int(&answer, "log", level);
	answer_string(&answer, "line", line);
	answer_send(&answer);
}

/* Every argument but c, log_level and threadless is an option of the configuration. */
static int config_fill(lk_config *config, const struct command *command, lk_error *error)
{
	for (int i = 0; i < command->count; i++) {
		const struct argument *argument = &command->arguments[i];
		if (strcmp(argument->key, "c") == 0 || strcmp(argument->key, "log_level") == 0 ||
		    strcmp(argument->key, "threadless") == 0)
			continue;
		int result = lk_config_set(config, argument->key, argument->value, error);
		if (result)
			return result;
	}
	return 0;
}

static int client_open(const struct command *command, struct answer *answer, lk_error *error)
{
	lk_config *config = NULL;
	lk_client *client = NULL;
	const char *name = command_text(command, "c", NULL);
	int level = (int)command_number(command, "log_level", 0);
	int threadless = (int)command_number(command, "threadless", 0);
	int result = lk_config_new(&config, error);
	if (result == 0) /* tests compare what is in Redis with what the kinds describe */
		result = lk_config_set(config, "client_record", "off", error);
	if (result == 0)
		result = config_fill(config, command, error);
	if (result == 0 && level)
		lk_config_set_log(config, level, log_line, NULL);
	if (threadless)
		lk_config_set_threadless(config, NULL, NULL);
	if (result == 0)
		result = lk_client_new(&client, config, error);
	lk_config_free(config);
	if (result == 0 && threadless)
		program_add(client);
	if (result == 0) {
		handle_client_set(name ? name : "c", client);
		answer_string(answer, "uuid", lk_client_id(client));
		answer_string(answer, "node", lk_client_node(client));
	}
	return result;
}

static int client_close(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)answer;
	int how = (int)command_number(command, "how", LK_CLOSE_IF_IDLE);
	return program_close(handle_client(command), how, error);
}

static int client_free(const struct command *command, struct answer *answer, lk_error *error)
{
	const char *name = command_text(command, "c", NULL);
	(void)answer;
	(void)error;
	program_free(handle_client(command));
	handle_client_set(name ? name : "c", NULL);
	return 0;
}

static int client_ping(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)answer;
	return lk_client_ping(handle_client(command), error);
}

/* clang-format off */
#define STATS(X)                                                                                 \
	X(acquires) X(reentries) X(handovers) X(wire_grants) X(releases) X(busy) X(timeouts)     \
	X(cancels) X(failures) X(lost) X(renewals) X(compensations) X(commands) X(resent)        \
	X(connects) X(disconnects) X(messages) X(held) X(waiting)
/* clang-format on */

static int client_stats(const struct command *command, struct answer *answer, lk_error *error)
{
	lk_stats stats = {.struct_size = sizeof(stats)};
	int result = lk_client_stats(handle_client(command), &stats, error);
#define STATS_ANSWER(name) answer_int(answer, #name, (int64_t)stats.name);
	STATS(STATS_ANSWER)
#undef STATS_ANSWER
	return result;
}

static void event_answer(struct answer *answer, const lk_event *event)
{
	answer_int(answer, "event", event->type);
	answer_int(answer, "tag", (int64_t)event->tag);
	answer_int(answer, "deadline_ns", event->deadline_ns);
	answer_string(answer, "field", event->field);
	answer_int(answer, "fence", (int64_t)event->fence);
	answer_string(answer, "name", event->name);
	answer_string(answer, "node", event->node);
	answer_int(answer, "at_ns", now_ns());
}

/* Gives every event as a line of its own, until the client is closed. */
static int client_events(const struct command *command, struct answer *answer, lk_error *error)
{
	const char *name = command_text(command, "c", NULL);
	lk_event event = LK_EVENT_INIT;
	int result;
	(void)answer;
	while ((result = lk_event_wait(handle_client(command), &event, -1, NULL, error)) == 1) {
		struct answer line;
		answer_begin(&line);
		event_answer(&line, &event);
		answer_string(&line, "c", name ? name : "c");
		answer_send(&line);
	}
	return result;
}

/* One event by the descriptor: poll, then take it. */
static int client_event(const struct command *command, struct answer *answer, lk_error *error)
{
	lk_client *client = handle_client(command);
	lk_event event = LK_EVENT_INIT;
	int fd = lk_event_fd(client, error);
	if (fd < 0)
		return fd;
	struct pollfd descriptor = {.fd = fd, .events = POLLIN};
	int readable = poll(&descriptor, 1, (int)command_number(command, "wait", 0));
	answer_int(answer, "readable", readable);
	int result = lk_event_wait(client, &event, 0, NULL, error);
	if (result == 1)
		event_answer(answer, &event);
	return result;
}

static int cancel_now(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)answer;
	(void)error;
	const char *token = command_text(command, "token", NULL);
	lk_cancel_now(handle_cancel(token));
	queued_cancel(token);
	return 0;
}

static int cancel_reset(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)answer;
	(void)error;
	lk_cancel_reset(handle_cancel(command_text(command, "token", NULL)));
	return 0;
}

/* A child calls what a child may not, frees the client, and ends: its exit code is the verdict. */
static int fork_child(const struct command *command)
{
	lk_client *client = handle_client(command);
	size_t size = 0;
	const char *name = command_text(command, "name", &size);
	lk_lock *lock = NULL;
	int created = lk_lock_new(&lock, client, name, size, NULL);
	int pinged = lk_client_ping(client, NULL);
	lk_client_free(client);
	return created == LK_EFORKED && pinged == LK_EFORKED ? 0 : 1;
}

static int client_fork(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)error;
	int status = -1;
	pid_t child = fork();
	if (child == 0)
		_exit(fork_child(command));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return LK_ESYSTEM;
	answer_int(answer, "status", status);
	return 0;
}

static int fence_check(const struct command *command, struct answer *answer, lk_error *error)
{
	size_t size = 0;
	const char *name = command_text(command, "name", &size);
	uint64_t newest = 0, token = (uint64_t)command_number(command, "token", 0);
	(void)answer;
	return lk_fence_check(handle_client(command), name, size, token, NULL, &newest, error);
}

static int fence_write(const struct command *command, struct answer *answer, lk_error *error)
{
	size_t size = 0, value_size = 0;
	const char *name = command_text(command, "name", &size);
	const char *value = command_text(command, "value", &value_size);
	uint64_t newest = 0, token = (uint64_t)command_number(command, "token", 0);
	(void)answer;
	return lk_fence_write(handle_client(command), name, size, token, value, value_size, NULL,
			      &newest, error);
}

/* "result": how many holders the lock has. */
static int scan_show(const struct command *command, struct answer *answer, lk_error *error)
{
	size_t size = 0;
	const char *name = command_text(command, "name", &size);
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	(void)answer;
	int result = lk_scan_new(&scan, handle_client(command), NULL, error);
	if (result == 0)
		result = lk_scan_show(scan, name, size, &info, error);
	if (result == 0)
		result = (int)info.holder_count;
	lk_scan_free(scan);
	return result;
}

/* "result": how many locks there are. */
static int scan_all(const struct command *command, struct answer *answer, lk_error *error)
{
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	int count = 0;
	(void)answer;
	int result = lk_scan_new(&scan, handle_client(command), NULL, error);
	while (result == 0 && (result = lk_scan_next(scan, &info, error)) == 1) {
		count++;
		result = 0;
	}
	lk_scan_free(scan);
	return result < 0 ? result : count;
}

static int thread_end(const struct command *command, struct answer *answer, lk_error *error)
{
	(void)command;
	(void)answer;
	(void)error;
	return 0;
}

static const struct {
	const char *verb;
	int (*run)(const struct command *command, struct answer *answer, lk_error *error);
} client_verbs[] = {
	{"open", client_open},        {"close", client_close}, {"free", client_free},
	{"ping", client_ping},        {"stats", client_stats}, {"events", client_events},
	{"event", client_event},      {"cancel", cancel_now},  {"reset", cancel_reset},
	{"fork", client_fork},        {"end", thread_end},     {"fence_check", fence_check},
	{"fence_write", fence_write}, {"show", scan_show},     {"scan", scan_all},
};

const char *client_verb_at(size_t index)
{
	size_t count = sizeof(client_verbs) / sizeof(client_verbs[0]);
	return index < count ? client_verbs[index].verb : NULL;
}

void call_run(const struct command *command, struct answer *answer)
{
	lk_error error = {0};
	if (synchronizer_run(command, answer))
		return;
	for (size_t i = 0; i < sizeof(lock_verbs) / sizeof(lock_verbs[0]); i++) {
		if (strcmp(lock_verbs[i].verb, command->verb) == 0) {
			lock_verb_run(i, command, answer);
			return;
		}
	}
	for (size_t i = 0; i < sizeof(client_verbs) / sizeof(client_verbs[0]); i++) {
		if (strcmp(client_verbs[i].verb, command->verb) == 0) {
			int result = client_verbs[i].run(command, answer, &error);
			answer_result(answer, result, &error);
			return;
		}
	}
	if (strcmp(command->verb, "stress") == 0)
		stress_run(command, answer);
	else if (strcmp(command->verb, "list") == 0)
		list_run(answer);
	else if (strcmp(command->verb, "stop") == 0)
		stress_stop_all(command);
	else
		answer_string(answer, "code", "unknown verb");
}
