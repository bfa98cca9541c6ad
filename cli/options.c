/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "connect.h"
#include "exit_code.h"
#include "message.h"
#include "nodes.h"

/* ---- durations, as timeout(1) reads them, made strict ---- */

static const struct {
	const char *suffix;
	int64_t ms;
} units[] = {
	{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
};

/* More digits of a fraction than these only decide whether to round up. */
#define FRACTION_DIGITS 9

struct number {
	int64_t whole;
	int64_t fraction; /* in units of 10^-FRACTION_DIGITS, rounded up */
	int overflow;
};

static int is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

static const char *whole_read(const char *text, struct number *number)
{
	for (; is_digit(*text); text++) {
		if (__builtin_mul_overflow(number->whole, 10, &number->whole) ||
		    __builtin_add_overflow(number->whole, *text - '0', &number->whole))
			number->overflow = 1;
	}
	return text;
}

static const char *fraction_read(const char *text, struct number *number)
{
	int digits = 0, more = 0;
	for (; is_digit(*text); text++) {
		if (digits < FRACTION_DIGITS) {
			number->fraction = number->fraction * 10 + (*text - '0');
			digits++;
		} else {
			more |= *text != '0';
		}
	}
	for (; digits < FRACTION_DIGITS; digits++)
		number->fraction *= 10;
	number->fraction += more;
	return text;
}

static int64_t unit_find(const char *suffix)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(units[i].suffix, suffix) == 0)
			return units[i].ms;
	}
	return 0;
}

int duration_parse(const char *text, int64_t *ms_out)
{
	const int64_t scale = INT64_C(1000000000);
	struct number number = {0, 0, 0};
	const char *end = whole_read(text, &number);
	int any = end > text;
	if (*end == '.') {
		const char *fraction = end + 1;
		end = fraction_read(fraction, &number);
		any |= end > fraction;
	}
	int64_t unit = unit_find(end);
	if (!any || unit == 0)
		return -EINVAL;
	int64_t whole_ms, ms;
	/* At most 86,400,000 × 10^9 here: the product cannot overflow. */
	int64_t fraction_ms = (number.fraction * unit + scale - 1) / scale;
	if (number.overflow || __builtin_mul_overflow(number.whole, unit, &whole_ms) ||
	    __builtin_add_overflow(whole_ms, fraction_ms, &ms))
		return -ERANGE;
	*ms_out = ms;
	return 0;
}

/* ---- the table ---- */

const struct option_row common_options[] = {
	{'o', "option", "NAME=VALUE", "set an option of the client"},
	{OPTION_URL, "url", "URL", "the server, instead of LOCKKEEPER_URL"},
	{OPTION_PRIVATE, "private", NULL,
	 "where no server is named, use the private one and say nothing"},
	{OPTION_NO_PRIVATE, "no-private", NULL, "where no server is named, fail"},
	{OPTION_LOG_FORMAT, "log-format", "FORMAT",
	 "what is said on stderr: text, or json, an object a line"},
	{'h', "help", NULL, "print this help"},
	{0, NULL, NULL, NULL},
};

const struct option_row *row_find(const struct option_row *table, int id)
{
	for (; table && table->id; table++)
		if (table->id == id)
			return table;
	return NULL;
}

int command_takes_several(const struct command *command)
{
	const struct option_row *row = row_find(command->options, OPTION_URL);
	return row && row->help;
}

static size_t rows_append(const struct option_row **rows, size_t count,
			  const struct option_row *table, const struct option_row *but)
{
	for (; table && table->id && count < OPTIONS_MAX; table++)
		if (table->help && !row_find(but, table->id))
			rows[count++] = table;
	return count;
}

static size_t rows_collect(const struct command *command, const struct option_row **rows)
{
	size_t count = rows_append(rows, 0, command->options, NULL);
	return rows_append(rows, count, common_options, command->options);
}

/* Fills in what getopt_long() wants: "+" stops at the first operand, ":" tells a missing value
 * apart. */
static void getopt_fill(const struct option_row **rows, size_t count, int stops, char *letters,
			struct option *longs)
{
	if (stops)
		*letters++ = '+';
	*letters++ = ':';
	for (size_t i = 0; i < count; i++) {
		longs[i] = (struct option){rows[i]->name,
					   rows[i]->argument ? required_argument : no_argument,
					   NULL, rows[i]->id};
		if (rows[i]->id > 255)
			continue;
		*letters++ = (char)rows[i]->id;
		if (rows[i]->argument)
			*letters++ = ':';
	}
	*letters = '\0';
	longs[count] = (struct option){NULL, 0, NULL, 0};
}

int usage_error(const struct command *command, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return trouble("%s: %s (see lockkeeper %s --help)", command->name, text, command->name);
}

/* getopt leaves the culprit in optopt (a letter, or the id of a long option that is known) or in
 * argv, behind which it stands then. */
static int option_refuse(const struct command *command, int result, char **argv)
{
	const char *reason = result == ':' ? "needs a value" : "takes no value";
	int is_known = row_find(command->options, optopt) || row_find(common_options, optopt);
	if (optopt == 0)
		reason = "is unknown, or short for several";
	else if (!is_known)
		reason = "is unknown";
	if (strncmp(argv[optind - 1], "--", 2) != 0 && optopt > 0 && optopt < 256)
		return usage_error(command, "option -%c %s", optopt, reason);
	return usage_error(command, "option %s %s", argv[optind - 1], reason);
}

struct parse {
	const struct command *command;
	lk_config *config;
	int loaded; /* the environment was */
	int urls;   /* named so far */
};

/* The environment comes before the options, which prevail; but a variable that is wrong must not
 * keep --help away. */
static int environment_load(struct parse *parse)
{
	lk_error error = {0};
	if (parse->loaded)
		return 0;
	parse->loaded = 1;
	int code = conf_settle(parse->config);
	if (code == 0 && lk_config_load_environment(parse->config, &error))
		code = trouble_library(&error);
	return code;
}

static int several_refuse(const struct parse *parse, const char *option)
{
	return usage_error(parse->command,
			   "several servers (%s) are a quorum, on which it does not work", option);
}

static int url_take(struct parse *parse, const char *url)
{
	if (parse->urls++ || nodes_are_several(url))
		return several_refuse(parse, "--url");
	return config_assign_url(parse->config, url);
}

/* Who takes several servers has to know which options stand behind them. */
static int assignment_take(struct parse *parse, option_taker take, void *state, const char *value)
{
	int takes_several = command_takes_several(parse->command);
	int is_list = nodes_are_several(nodes_assigned_url(value));
	if (is_list && !takes_several)
		return several_refuse(parse, "-o url");
	int code = is_list ? 0 : config_assign(parse->config, value);
	return code == 0 && takes_several ? take(state, 'o', value) : code;
}

static int option_take(struct parse *parse, option_taker take, void *state, int id)
{
	int code = row_find(common_options, id) ? environment_load(parse) : 0;
	if (code)
		return code;
	if (row_find(parse->command->options, id))
		return take(state, id, optarg);
	switch (id) {
	case 'o':
		return assignment_take(parse, take, state, optarg);
	case OPTION_URL:
		return url_take(parse, optarg);
	case OPTION_LOG_FORMAT:
		return message_format_set(optarg);
	case OPTION_PRIVATE:
		return config_assign(parse->config, "private=on");
	case OPTION_NO_PRIVATE:
		return config_assign(parse->config, "private=off");
	default:
		return take(state, id, optarg);
	}
}

int options_parse(const struct command *command, int argc, char **argv, lk_config *config,
		  option_taker take, void *state)
{
	const struct option_row *rows[OPTIONS_MAX];
	char letters[2 * OPTIONS_MAX + 3];
	struct option longs[OPTIONS_MAX + 1];
	getopt_fill(rows, rows_collect(command, rows), command->stops, letters, longs);
	optind = 1;
	opterr = 0;
	int id, code;
	struct parse parse = {command, config, 0, 0};
	while ((id = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (id == 'h') {
			usage_print(command);
			return -1 - output_finish();
		}
		if (id == '?' || id == ':')
			code = option_refuse(command, id, argv);
		else
			code = option_take(&parse, take, state, id);
		if (code)
			return -1 - code;
	}
	code = environment_load(&parse);
	return code ? -1 - code : optind;
}

#define HELP_COLUMN 26

static void row_print(const struct option_row *row)
{
	char left[64];
	int used = row->id < 256 ? snprintf(left, sizeof(left), "-%c, ", row->id)
				 : snprintf(left, sizeof(left), "    ");
	used += snprintf(left + used, sizeof(left) - (size_t)used, "--%s%s%s", row->name,
			 row->argument ? " " : "", row->argument ? row->argument : "");
	if (used > HELP_COLUMN)
		printf("  %s\n  %-*s %s\n", left, HELP_COLUMN, "", row->help);
	else
		printf("  %-*s %s\n", HELP_COLUMN, left, row->help);
}

void usage_print(const struct command *command)
{
	const struct option_row *rows[OPTIONS_MAX];
	size_t count = rows_collect(command, rows);
	printf("usage: lockkeeper %s [OPTION…]%s%s\n%s\n\n", command->name,
	       *command->operands ? " " : "", command->operands, command->summary);
	for (size_t i = 0; i < count; i++)
		row_print(rows[i]);
}

int option_duration(const char *option, const char *value, int64_t least_ms, int64_t most_ms,
		    int64_t *ms_out)
{
	int64_t ms = 0;
	int result = duration_parse(value, &ms);
	if (result == -EINVAL)
		return trouble("option %s: '%s' is not a duration (seconds, or ms, s, m, h, d)",
			       option, value);
	if (result == -ERANGE || ms < least_ms || ms > most_ms)
		return trouble("option %s: '%s' is not from %" PRId64 " ms to %" PRId64 " ms",
			       option, value, least_ms, most_ms);
	*ms_out = ms;
	return 0;
}

int option_number(const char *option, const char *value, int least, int most, int *number_out)
{
	char *end;
	errno = 0;
	long number = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : -1;
	if (number < 0 || *end != '\0' || errno || number < least || number > most)
		return trouble("option %s: '%s' is not a whole number from %d to %d", option, value,
			       least, most);
	*number_out = (int)number;
	return 0;
}

int operand_count(const char *what, const char *value, int64_t least, int64_t most,
		  int64_t *count_out)
{
	char *end;
	errno = 0;
	long long count = *value >= '0' && *value <= '9' ? strtoll(value, &end, 10) : -1;
	if (count < 0 || *end != '\0' || errno || count < least || count > most)
		return trouble("%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, what,
			       value, least, most);
	*count_out = count;
	return 0;
}
