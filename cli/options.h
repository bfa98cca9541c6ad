/* SPDX-License-Identifier: MIT */
/*
 * The tables of commands and options: what is parsed, what --help prints, and what the shell
 * completes all come from them.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdint.h>

#include <lockkeeper/config.h>

/* Ids of options without a letter; those with one have the letter as id. */
enum option_id {
	OPTION_URL = 256,
	OPTION_JSON,
	OPTION_YES,
	OPTION_FORCE,
	OPTION_FAIR,
	OPTION_FENCE,
	OPTION_SHARED,
	OPTION_EXCLUSIVE,
	OPTION_PERMITS,
	OPTION_PLAIN,
	OPTION_ALSO,
	OPTION_QUARANTINE,
	OPTION_PRIVATE,
	OPTION_NO_PRIVATE,
	OPTION_POLL,
	OPTION_HOLD_AT_LEAST,
	OPTION_NO_PREFER_WRITERS,
	OPTION_WHILE,
	OPTION_TTL,
	OPTION_ALL,
	OPTION_NOTIFY,
	OPTION_METRICS_FILE,
	OPTION_PREFIX,
	OPTION_LIMIT,
	OPTION_NAMES,
	OPTION_LISTEN,
	OPTION_LOG_FORMAT,
	OPTION_ON,
	OPTION_NOTE,
	OPTION_VALUE,
	OPTION_PRIORITY,
	OPTION_STANDBY,
	OPTION_ONCE,
	OPTION_CANDIDATES,
	OPTION_READY_FILE,
	OPTION_RETIRE,
	OPTION_DRAIN_SIGNAL,
	OPTION_PROGRESS_FILE,
	OPTION_PROGRESS_WITHIN,
	OPTION_TRANSFER,
	OPTION_RESIGN,
	OPTION_CHECK,
	OPTION_WATCH,
	OPTION_REASON,
	OPTION_REPLACE,
	OPTION_YIELD,
	OPTION_UNTIL,
	OPTION_RENEWALS,
	OPTION_NO_INITIAL,
};

/* The option of the commands that take several servers; it stands instead of the common one. */
#define SEVERAL_ROW                                                                                \
	{                                                                                          \
		OPTION_URL, "url", "URL",                                                          \
			"the server, instead of LOCKKEEPER_URL; three or more are a quorum"        \
	}

#define OPTIONS_MAX 48 /* rows of one command, the common ones included */

struct option_row {
	int id;               /* letter, or enum option_id; 0 ends a table */
	const char *name;     /* long name */
	const char *argument; /* what it is called in the usage; NULL: it takes none */
	const char *help;     /* NULL: the command has no such option, though others have */
};

struct command {
	const char *name;
	const char *operands; /* as in the usage */
	const char *words;    /* what the shell offers as operand, or "" */
	const char *summary;
	const struct option_row *options;
	int stops; /* 1: options end at the first operand; what follows is another program's */
	int (*run)(const struct command *command, int argc, char **argv);
};

/* The row of an id; NULL when the table, which may be NULL, has none. */
const struct option_row *row_find(const struct option_row *table, int id);

/* Tells whether its servers may be a quorum: its table has SEVERAL_ROW. */
int command_takes_several(const struct command *command);

/* All commands, ended by a row without a name. */
extern const struct command commands[];

/* The options that every command takes; a row of its own with the same id prevails. */
extern const struct option_row common_options[];

/* Takes one option that is not common; 0, or an exit code when the value is wrong (said). A command
 * that takes several servers is shown each -o too, which is in the configuration already. */
typedef int (*option_taker)(void *state, int id, const char *value);

/*
 * Parses the options, and moves the operands behind them (not with `stops`). Common options go
 * into `config`, behind what the environment says, the others to `take`.
 * Returns the index of the first operand; or, when the program should end now, -1 - exit code
 * (after --help, or wrong use, which is said).
 */
int options_parse(const struct command *command, int argc, char **argv, lk_config *config,
		  option_taker take, void *state);

/* Says what is wrong with the use of a command, and returns EXIT_TROUBLE. */
__attribute__((format(printf, 2, 3))) int usage_error(const struct command *command,
						      const char *format, ...);

/* Prints usage and options of one command to stdout. */
void usage_print(const struct command *command);

/* Reads a duration from `least_ms` to `most_ms`; 0, or EXIT_TROUBLE (said, naming the option). */
int option_duration(const char *option, const char *value, int64_t least_ms, int64_t most_ms,
		    int64_t *ms_out);

/* Reads a whole number from `least` to `most`; 0, or EXIT_TROUBLE (said). */
int option_number(const char *option, const char *value, int least, int most, int *number_out);

/* Reads a whole number called `what`; 0, or EXIT_TROUBLE (said). */
int operand_count(const char *what, const char *value, int64_t least, int64_t most,
		  int64_t *count_out);

/*
 * Reads the whole text as a number of seconds, with or without a fraction, or with a unit: ms, s,
 * m, h or d. What is smaller than a millisecond is rounded up. Writes ms and returns 0, or returns
 * -EINVAL (not a duration: sign, space, exponent, hexadecimal, rest) or -ERANGE (over int64_t).
 */
int duration_parse(const char *text, int64_t *ms_out);

#endif
