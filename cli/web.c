/* SPDX-License-Identifier: MIT */
#include "web.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"
#include "web_address.h"

#define LIBRARY "libmicrohttpd.so.12" /* its interface is the same from 0.9.34 to 1.0 */

/* Nothing may be loaded, framed or sent anywhere: a page is text, links and one style sheet. */
#define POLICY                                                                                     \
	"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "              \
	"frame-ancestors 'none'"

static struct {
	__typeof__(MHD_start_daemon) *start;
	__typeof__(MHD_stop_daemon) *stop;
	__typeof__(MHD_create_response_from_buffer) *respond;
	__typeof__(MHD_add_response_header) *add_header;
	__typeof__(MHD_queue_response) *queue;
	__typeof__(MHD_destroy_response) *destroy;
	__typeof__(MHD_lookup_connection_value) *lookup;
} http;

struct web {
	web_handler handler;
	void *context;
	int is_loopback;
};

static int library_load(void)
{
	const struct {
		const char *name;
		void **place;
	} symbols[] = {
		{"MHD_start_daemon", (void **)&http.start},
		{"MHD_stop_daemon", (void **)&http.stop},
		{"MHD_create_response_from_buffer", (void **)&http.respond},
		{"MHD_add_response_header", (void **)&http.add_header},
		{"MHD_queue_response", (void **)&http.queue},
		{"MHD_destroy_response", (void **)&http.destroy},
		{"MHD_lookup_connection_value", (void **)&http.lookup},
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library && i < sizeof(symbols) / sizeof(*symbols); i++)
		if (!(*symbols[i].place = dlsym(library, symbols[i].name)))
			library = NULL;
	return library ? 0
		       : trouble("option --listen: libmicrohttpd cannot be loaded: %s", dlerror());
}

/* "" where there is none. */
static const char *value_of(struct MHD_Connection *connection, enum MHD_ValueKind kind,
			    const char *name)
{
	const char *value = http.lookup(connection, kind, name);
	return value ? value : "";
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
	return value_of(connection, MHD_GET_ARGUMENT_KIND, name);
}

static void headers_add(struct MHD_Response *response, const struct web_answer *answer)
{
	char refresh[16];
	http.add_header(response, "Content-Type", answer->type);
	http.add_header(response, "Content-Security-Policy", POLICY);
	http.add_header(response, "X-Content-Type-Options", "nosniff");
	http.add_header(response, "Referrer-Policy", "no-referrer");
	http.add_header(response, "Cache-Control", "no-store");
	if (answer->refresh_s > 0) {
		snprintf(refresh, sizeof(refresh), "%d", answer->refresh_s);
		http.add_header(response, "Refresh", refresh);
	}
}

static enum MHD_Result send_answer(struct MHD_Connection *connection,
				   const struct web_answer *answer)
{
	static char nothing[1];
	struct MHD_Response *response = http.respond(
		answer->body ? answer->size : 0, answer->body ? answer->body : nothing,
		answer->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!response) {
		free(answer->body);
		return MHD_NO;
	}
	headers_add(response, answer);
	enum MHD_Result result = http.queue(connection, (unsigned)answer->status, response);
	http.destroy(response);
	return result;
}

static enum MHD_Result answer_one(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **state)
{
	const struct web *web = context;
	struct web_answer answer = {.status = MHD_HTTP_METHOD_NOT_ALLOWED, .type = "text/plain"};
	(void)version, (void)upload, (void)upload_size, (void)state;
	const char *host = http.lookup(connection, MHD_HEADER_KIND, "Host");
	if (web->is_loopback && !web_host_is_loopback(host)) {
		answer.status = MHD_HTTP_FORBIDDEN;
	} else if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
		const struct web_request request = {
			.path = url,
			.accept = value_of(connection, MHD_HEADER_KIND, "Accept"),
			.sort = argument(connection, "sort"),
			.kind = argument(connection, "kind"),
			.q = argument(connection, "q"),
			.refresh = argument(connection, "refresh"),
		};
		web->handler(web->context, &request, &answer);
	}
	return send_answer(connection, &answer);
}

int web_serve(const char *address, web_handler handler, void *context, const sigset_t *ending,
	      int *signal_out)
{
	struct web web = {handler, context, 0};
	struct web_address where;
	char place[WEB_PLACE_SIZE];
	int code = web_address_parse(address, &where);
	if (code == 0)
		code = library_load();
	int fd = code ? -1 : web_address_listen(&where, place);
	if (fd < 0)
		return EXIT_TROUBLE;
	web.is_loopback = where.is_loopback;
	struct MHD_Daemon *daemon = http.start(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0,
		NULL, NULL, answer_one, &web, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)WEB_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WEB_IDLE_S, MHD_OPTION_END);
	if (!daemon) {
		close(fd);
		return trouble("option --listen: libmicrohttpd cannot serve %s", place);
	}
	message("serving http://%s/, /metrics and /healthz", place);
	sigwait(ending, signal_out);
	http.stop(daemon); /* which closes the socket */
	return 0;
}
