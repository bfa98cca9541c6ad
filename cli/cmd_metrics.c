/* SPDX-License-Identifier: MIT */
/* lockkeeper metrics: what is on a server, as text for Prometheus, and as a page for people. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "exit_code.h"
#include "exposition.h"
#include "message.h"
#include "server_page.h"
#include "server_series.h"
#include "session.h"
#include "signals.h"
#include "web.h"

#define OWNERS_MOST 500 /* that are looked up for the page */
#define HTTP_OK 200
#define HTTP_NOT_FOUND 404
#define HTTP_UNAVAILABLE 503

const struct option_row metrics_options[] = {
	{OPTION_PREFIX, "prefix", "PREFIX", "only locks whose name begins so"},
	{OPTION_LIMIT, "limit", "N", "look at so many locks at most (default 10000)"},
	{OPTION_NAMES, "names", NULL, "series for single locks too, 1000 at most"},
	{OPTION_LISTEN, "listen", "ADDRESS",
	 "serve them, and a page, at PORT of the loopback or ADDRESS:PORT"},
	VERBOSE_ROW,
	{0, NULL, NULL, NULL},
};

struct metrics {
	const char *prefix, *address;
	int limit;
	struct series_wish wish;
	pthread_mutex_t mutex; /* of the look */
	struct server_look look;
};

static int metrics_take(void *state, int id, const char *value)
{
	struct metrics *metrics = state;
	switch (id) {
	case OPTION_PREFIX:
		metrics->prefix = value;
		return 0;
	case OPTION_LIMIT:
		return option_number("--limit", value, 1, ROWS_LIMIT, &metrics->limit);
	case OPTION_NAMES:
		metrics->wish.names = 1;
		return 0;
	default:
		metrics->address = value;
		return 0;
	}
}

/* A pattern of names that begin so; to be freed, NULL when out of memory. */
static char *pattern_make(const char *prefix)
{
	char *pattern = malloc(2 * strlen(prefix) + 2), *end = pattern;
	for (; pattern && *prefix; *end++ = *prefix++)
		if (strchr("*?[]\\^", *prefix))
			*end++ = '\\';
	if (pattern)
		memcpy(end, "*", 2);
	return pattern;
}

static int metrics_print(struct metrics *metrics)
{
	if (server_look(&metrics->look))
		return trouble_library(&metrics->look.error);
	server_series_print(stdout, &metrics->look, &metrics->wish);
	return output_finish();
}

/* ---- the server of pages ---- */

static void series_answer(struct metrics *metrics, const struct web_request *request, FILE *stream)
{
	(void)request;
	server_look(&metrics->look);
	server_series_print(stream, &metrics->look, &metrics->wish);
}

static void page_answer(struct metrics *metrics, const struct web_request *request, FILE *stream)
{
	server_look(&metrics->look);
	server_page_print(stream, &metrics->look, request);
}

static void style_answer(struct metrics *metrics, const struct web_request *request, FILE *stream)
{
	(void)metrics, (void)request;
	fputs(server_page_style, stream);
}

static const struct {
	const char *path, *type; /* NULL: the one that the reader asks for */
	void (*answer)(struct metrics *metrics, const struct web_request *request, FILE *stream);
} paths[] = {
	{"/", "text/html; charset=utf-8", page_answer},
	{"/metrics", NULL, series_answer},
	{"/style.css", "text/css; charset=utf-8", style_answer},
};

/* Finds out whether the server answers; asked each time, beside a look that may be under way. */
static void health_answer(struct metrics *metrics, FILE *stream, struct web_answer *answer_out)
{
	lk_error error = {0};
	answer_out->status = HTTP_OK;
	if (lk_client_ping(metrics->look.client, &error)) {
		answer_out->status = HTTP_UNAVAILABLE;
		fprintf(stream, "the store does not answer: %s\n", lk_error_text(error.code));
	} else {
		fputs("the store answers\n", stream);
	}
}

static void path_answer(struct metrics *metrics, const struct web_request *request, FILE *stream,
			struct web_answer *answer_out)
{
	answer_out->status = HTTP_NOT_FOUND;
	if (strcmp(request->path, "/healthz") == 0)
		health_answer(metrics, stream, answer_out);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (strcmp(request->path, paths[i].path) != 0)
			continue;
		answer_out->status = HTTP_OK;
		answer_out->type = paths[i].type ? paths[i].type : exposition_type(request->accept);
		answer_out->refresh_s = paths[i].answer == page_answer
						? server_page_refresh_s(request)
						: 0;
		pthread_mutex_lock(&metrics->mutex);
		paths[i].answer(metrics, request, stream);
		pthread_mutex_unlock(&metrics->mutex);
	}
}

static void answer(void *context, const struct web_request *request, struct web_answer *answer_out)
{
	FILE *stream = open_memstream(&answer_out->body, &answer_out->size);
	answer_out->type = "text/plain; charset=utf-8";
	answer_out->status = HTTP_UNAVAILABLE;
	if (!stream)
		return;
	path_answer(context, request, stream, answer_out);
	if (fclose(stream) == 0)
		return;
	answer_out->status = HTTP_UNAVAILABLE;
	free(answer_out->body);
	answer_out->body = NULL;
}

/* The signals that end the server, but those that nohup(1) ignores. */
static void signals_block(sigset_t *kill_rounds_out)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;
	sigemptyset(kill_rounds_out);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(kill_rounds_out, numbers[i]);
	pthread_sigmask(SIG_BLOCK, kill_rounds_out, NULL);
}

/* The library's threads block all signals, so these come to web_serve() alone. */
static int metrics_serve(struct metrics *metrics, int *signal_out)
{
	sigset_t ending;
	signals_block(&ending);
	return web_serve(metrics->address, answer, metrics, &ending, signal_out);
}

int cmd_metrics(const struct command *command, int argc, char **argv)
{
	struct session session;
	struct metrics metrics = {.prefix = "", .limit = ROWS_DEFAULT};
	int ended_by = 0;
	int result = session_begin(&session, command, argc, argv, metrics_take, &metrics, 0, 0);
	if (result)
		return -1 - result;
	char *pattern = pattern_make(metrics.prefix);
	int code = pattern ? 0 : trouble("out of memory");
	if (code == 0)
		code = session_open(&session);
	metrics.wish.watches = metrics.address != NULL;
	metrics.look.client = session.client;
	metrics.look.wanted = (struct look){.pattern = pattern,
					    .rows_most = (size_t)metrics.limit,
					    .owners_most = metrics.address ? OWNERS_MOST : 0,
					    .limit_ms = LOOK_LIMIT_MS};
	pthread_mutex_init(&metrics.mutex, NULL);
	if (code == 0)
		code = metrics.address ? metrics_serve(&metrics, &ended_by)
				       : metrics_print(&metrics);
	server_look_free(&metrics.look);
	pthread_mutex_destroy(&metrics.mutex);
	free(pattern);
	code = session_end(&session, code);
	if (ended_by)
		signal_die(ended_by);
	return code;
}
