/* SPDX-License-Identifier: MIT */
#include "run_settle.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connect.h"
#include "message.h"
#include "signals.h"

#define GRACE_DEFAULT_MS INT64_C(5000)
#define PROGRAM_SIZE 256                   /* of what is told of the command */
#define QUARANTINE_LEAST_MS INT64_C(30000) /* others may have the lease that is usual */

int run_take(struct keeper_options *keep, struct run_given *given, int id, const char *value)
{
	switch (id) {
	case 'l':
		return option_duration("-l", value, LK_LEASE_MIN_MS, LK_LEASE_MAX_MS,
				       &keep->lease_ms);
	case 'k':
		given->grace = 1;
		return option_duration("-k", value, 0, LK_LEASE_MAX_MS, &keep->grace_ms);
	case 's':
		keep->end_signal = signal_parse(value);
		return keep->end_signal < 0 ? trouble("option -s: '%s' is not a signal", value) : 0;
	case 'c':
		given->shell_line = value;
		return 0;
	default:
		return 0;
	}
}

/* -c may stand behind NAME too, as in flock(1). */
int run_operands(const struct command *command, struct keeper_options *keep,
		 const struct run_given *given, int argc, char **argv)
{
	static const char *shell[4];
	const char *shell_line = given->shell_line;
	if (argc < 1)
		return usage_error(command, "NAME is missing");
	keep->command = command->name;
	keep->name = argv[0];
	if (argv[0][0] == '\0')
		return usage_error(command, "NAME is empty");
	char **rest = argv + 1;
	if (!shell_line && rest[0] && strcmp(rest[0], "-c") == 0) {
		if (!rest[1])
			return usage_error(command, "option -c needs a value");
		shell_line = rest[1];
		rest += 2;
	} else if (rest[0] && strcmp(rest[0], "--") == 0) {
		rest++;
	}
	if (shell_line && rest[0])
		return usage_error(command, "COMMAND and -c exclude each other");
	if (!shell_line && !rest[0])
		return usage_error(command, "COMMAND is missing");
	shell[0] = "/bin/sh";
	shell[1] = "-c";
	shell[2] = shell_line;
	keep->argv = shell_line ? (char *const *)(void *)shell : rest;
	return 0;
}

/* The lease is the watchdog's: either -l sets it, or it is what the client is configured to. */
static int settle_lease(struct keeper_options *keep, const struct run_given *given,
			lk_config *config)
{
	char text[24];
	lk_error error = {0};
	if (keep->lease_ms == 0) {
		if (lk_config_get(config, "watchdog_ms", text, sizeof(text)) < 0)
			return trouble("the library has no option watchdog_ms");
		keep->lease_ms = atoll(text);
	} else {
		snprintf(text, sizeof(text), "%" PRId64, keep->lease_ms);
		if (lk_config_set(config, "watchdog_ms", text, &error))
			return trouble_library(&error);
	}
	int64_t lease_ms = keep->lease_ms;
	if (!given->quarantine)
		keep->quarantine_ms = lease_ms > QUARANTINE_LEAST_MS ? lease_ms
								     : QUARANTINE_LEAST_MS;
	if (keep->quarantine_ms < lease_ms)
		return trouble("option --quarantine: %" PRId64 " ms is less than the lease of "
			       "%" PRId64 " ms",
			       keep->quarantine_ms, lease_ms);
	if (!given->grace)
		keep->grace_ms = lease_ms / 3 < GRACE_DEFAULT_MS ? lease_ms / 3 : GRACE_DEFAULT_MS;
	if (keep->grace_ms > lease_ms / 2)
		return trouble("option -k: %" PRId64 " ms is more than half of the lease of "
			       "%" PRId64 " ms: there would be no time left to renew it",
			       keep->grace_ms, lease_ms);
	return 0;
}

/* The record of the client shows the command's name, not lockkeeper's; its arguments if allowed. */
static int settle_program(const struct keeper_options *keep, lk_config *config)
{
	char told[16], record[16], text[PROGRAM_SIZE] = "";
	lk_error error = {0};
	if (lk_config_get(config, "client_program", told, sizeof(told)) != 0 ||
	    lk_config_get(config, "client_record", record, sizeof(record)) < 0)
		return 0;
	const char *slash = strrchr(keep->argv[0], '/');
	size_t used = (size_t)snprintf(text, sizeof(text), "%s",
				       slash && slash[1] ? slash + 1 : keep->argv[0]);
	bool all = strcmp(record, "arguments") == 0;
	for (char *const *word = keep->argv + 1; all && *word && used < sizeof(text); word++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", *word);
	return lk_config_set(config, "client_program", text, &error) ? trouble_library(&error) : 0;
}

/* It prevails over LOCKKEEPER_NOTE; and where the client keeps no record, nobody would find it. */
static int settle_note(const struct run_given *given, lk_config *config)
{
	char record[16];
	lk_error error = {0};
	if (!given->note)
		return 0;
	if (lk_config_get(config, "client_record", record, sizeof(record)) < 0 ||
	    strcmp(record, "off") == 0)
		return trouble("option --note: the note stands in the client's record, and "
			       "client_record is off");
	return lk_config_set(config, "note", given->note, &error) ? trouble_library(&error) : 0;
}

/* The URL comes first: it is the last source of options. */
int run_settle(struct keeper_options *keep, const struct run_given *given, lk_config *config)
{
	int code = settle_lease(keep, given, config);
	if (code == 0)
		code = settle_program(keep, config);
	if (code == 0)
		code = settle_note(given, config);
	if (code == 0)
		code = config_settle(config);
	/* After the configuration has been read: the command must not see our secrets. */
	return code ? code : environment_drop_secrets();
}
