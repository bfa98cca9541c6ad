/* SPDX-License-Identifier: MIT */
/* lockkeeper sem: how many permits a semaphore has, which `run --permits` takes; deletes it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "inspect_json.h"
#include "kind.h"
#include "message.h"
#include "session.h"

const struct option_row sem_options[] = {
	{OPTION_JSON, "json", NULL, "show: print JSON"},
	{OPTION_FORCE, "force", NULL, "delete: even while permits are in use"},
	{OPTION_TTL, "ttl", "TIME",
	 "set: it goes when it was not changed for TIME (default: as before; a new one stays)"},
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

struct sem_state {
	int as_json;
	int force;
	int64_t ttl_ms;
};

static int sem_take(void *context, int id, const char *value)
{
	struct sem_state *state = context;
	if (id == OPTION_TTL)
		return option_duration("--ttl", value, 1, LK_LEASE_MAX_MS, &state->ttl_ms);
	*(id == OPTION_JSON ? &state->as_json : &state->force) = 1;
	return 0;
}

/* Tells of trouble with the semaphore that the second operand names. */
static int sem_trouble(const struct session *session, const lk_error *error)
{
	return trouble_name(session->client, session->argv[1], NULL, error);
}

/* A semaphore without permits, or a name that nothing has. */
static int is_none(const struct session *session)
{
	const char *name = session->argv[1];
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	int none = lk_scan_new(&scan, session->client, NULL, NULL) == 0 &&
		   lk_scan_show(scan, name, strlen(name), &info, NULL) == 0 &&
		   strcmp(info.type, "none") == 0;
	lk_scan_free(scan);
	return none;
}

static int sem_print(int64_t free_now, int64_t used, int as_json)
{
	if (as_json)
		return inspect_json_print(json_pack(
			"{s:I,s:I,s:I}", "permits", (json_int_t)free_now + (json_int_t)used, "free",
			(json_int_t)free_now, "used", (json_int_t)used));
	printf("%" PRId64 " permits, %" PRId64 " free, %" PRId64 " in use\n", free_now + used,
	       free_now, used);
	return output_finish();
}

static int sem_show(const struct session *session, lk_permit_semaphore *semaphore, int as_json)
{
	int64_t free_now, used;
	lk_error error = {0};
	if (lk_permit_semaphore_count(semaphore, &free_now, &used, &error))
		return sem_trouble(session, &error);
	session_did(session, "looked at", session->argv[1]);
	int code = sem_print(free_now, used, as_json);
	if (code || free_now + used || !is_none(session))
		return code;
	message("there is no semaphore %.200s (lockkeeper sem set makes one)", session->argv[1]);
	return EXIT_FREE;
}

static int sem_set(const struct session *session, lk_permit_semaphore *semaphore, int64_t count)
{
	lk_error error = {0};
	if (lk_permit_semaphore_set(semaphore, count, &error))
		return sem_trouble(session, &error);
	session_did(session, "set", session->argv[1]);
	return 0;
}

/* The count is asked first: it also tells whether this is a semaphore at all. */
static int sem_delete(const struct session *session, lk_permit_semaphore *semaphore, int force)
{
	const char *name = session->argv[1];
	int64_t free_now, used;
	lk_error error = {0};
	if (lk_permit_semaphore_count(semaphore, &free_now, &used, &error))
		return sem_trouble(session, &error);
	if (used > 0 && !force) {
		message("%s: permits in use: %" PRId64 " (--force deletes it anyway)", name, used);
		return EXIT_NOT_ACQUIRED;
	}
	int result = lk_permit_semaphore_delete(semaphore, &error);
	if (result == 0)
		message("%s was not set", name);
	else if (result > 0)
		session_did(session, "deleted", name);
	return result < 0 ? sem_trouble(session, &error) : 0;
}

static int sem_check(const struct command *command, const struct session *session, int64_t ttl_ms,
		     int64_t *count_out)
{
	const char *verb = session->argv[0];
	int is_set = strcmp(verb, "set") == 0;
	if (!is_set && strcmp(verb, "show") != 0 && strcmp(verb, "delete") != 0)
		return usage_error(command, "'%s' is unknown: use set, show or delete", verb);
	if (is_set && session->argc == 2)
		return usage_error(command, "COUNT is missing");
	if (!is_set && ttl_ms)
		return usage_error(command, "--ttl is for set");
	if (!is_set && session->argc == 3)
		return usage_error(command, "%s takes no COUNT", verb);
	if (session->argv[1][0] == '\0')
		return trouble("NAME is empty");
	return is_set ? operand_count("COUNT", session->argv[2], 0, LK_PERMITS_MAX, count_out) : 0;
}

int cmd_sem(const struct command *command, int argc, char **argv)
{
	struct session session;
	lk_permit_semaphore *semaphore = NULL;
	lk_error error = {0};
	struct sem_state state = {0, 0, 0};
	lk_permit_semaphore_options options = LK_PERMIT_SEMAPHORE_OPTIONS_INIT;
	int64_t count = 0;
	int result = session_begin(&session, command, argc, argv, sem_take, &state, 2, 3);
	if (result)
		return -1 - result;
	int code = sem_check(command, &session, state.ttl_ms, &count);
	options.ttl_ms = state.ttl_ms;
	if (code == 0)
		code = session_open(&session);
	const char *name = session.argv[1];
	if (code == 0 && lk_permit_semaphore_new(&semaphore, session.client, name, strlen(name),
						 &options, &error))
		code = trouble_library(&error);
	if (code == 0 && strcmp(session.argv[0], "delete") == 0)
		code = sem_delete(&session, semaphore, state.force);
	else if (code == 0 && session.argc == 2)
		code = sem_show(&session, semaphore, state.as_json);
	else if (code == 0)
		code = sem_set(&session, semaphore, count);
	lk_permit_semaphore_free(semaphore);
	return session_end(&session, code);
}
