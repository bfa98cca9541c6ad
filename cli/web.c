/* SPDX-License-Identifier: MIT */
#include "web.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"

/* ---- where it listens, and by which names it is asked for ---- */

#define WEB_PLACE_SIZE 80

struct web_address {
	struct sockaddr_storage socket;
	socklen_t size;
	int is_loopback;
};

#define BACKLOG 16
#define PORT_MOST 65535

static int refuse(const char *text)
{
	return trouble("option --listen: '%s' is not PORT, ADDRESS:PORT or [ADDRESS]:PORT, with "
		       "an IP address",
		       text);
}

/* Splits at the last colon; the address without its brackets. 0, or -1. */
static int text_split(const char *text, char host_out[INET6_ADDRSTRLEN], const char **port_out)
{
	const char *colon = strrchr(text, ':');
	size_t size = colon ? (size_t)(colon - text) : 0;
	*port_out = colon ? colon + 1 : text;
	snprintf(host_out, INET6_ADDRSTRLEN, "127.0.0.1");
	if (!colon)
		return 0;
	int has_brackets = size > 2 && text[0] == '[' && text[size - 1] == ']';
	if (!has_brackets && memchr(text, ':', size))
		return -1;
	text += has_brackets;
	size -= has_brackets ? 2 : 0;
	if (size == 0 || size >= INET6_ADDRSTRLEN)
		return -1;
	if (size == strlen("localhost") && memcmp(text, "localhost", size) == 0)
		return 0;
	memcpy(host_out, text, size);
	host_out[size] = '\0';
	return 0;
}

static int is_loopback(const struct sockaddr_storage *socket)
{
	if (socket->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)socket)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)socket)->sin_addr.s_addr) >> 24 == 127;
}

/* Reads PORT, ADDRESS:PORT or [ADDRESS]:PORT. 0, or EXIT_TROUBLE (said, naming the option). */
static int web_address_parse(const char *text, struct web_address *address_out)
{
	char host[INET6_ADDRSTRLEN], *end;
	const char *port;
	struct addrinfo *found,
		hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	if (text_split(text, host, &port) < 0 || *port < '0' || *port > '9')
		return refuse(text);
	errno = 0;
	long number = strtol(port, &end, 10);
	if (errno || *end || number > PORT_MOST || getaddrinfo(host, port, &hints, &found) != 0)
		return refuse(text);
	memcpy(&address_out->socket, found->ai_addr, found->ai_addrlen);
	address_out->size = found->ai_addrlen;
	address_out->is_loopback = is_loopback(&address_out->socket);
	freeaddrinfo(found);
	return 0;
}

static void place_text(int fd, char place_out[WEB_PLACE_SIZE])
{
	struct sockaddr_storage socket = {.ss_family = AF_INET};
	socklen_t size = sizeof(socket);
	char host[INET6_ADDRSTRLEN] = "?";
	getsockname(fd, (struct sockaddr *)&socket, &size);
	int is_v6 = socket.ss_family == AF_INET6;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&socket;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&socket;
	inet_ntop(socket.ss_family,
		  is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, host,
		  sizeof(host));
	snprintf(place_out, WEB_PLACE_SIZE, "%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
		 ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
}

/* A socket that listens there, and the place as it stands in a URL; -1 (said). */
static int web_address_listen(const struct web_address *address, char place_out[WEB_PLACE_SIZE])
{
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address->socket, address->size) == 0 &&
	    listen(fd, BACKLOG) == 0) {
		place_text(fd, place_out);
		return fd;
	}
	trouble_errno(errno, "option --listen: cannot listen there");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Tells whether a Host header (NULL: there is none) names the loopback: by its name or an
 * address. */
static int web_host_is_loopback(const char *host)
{
	char name[INET6_ADDRSTRLEN];
	struct in_addr v4;
	if (!host)
		return 1; /* no browser */
	const char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');
	size_t size = end ? (size_t)(end - host) : strlen(host);
	if (size == strlen("localhost") && strncasecmp(host, "localhost", size) == 0)
		return 1;
	if (size >= sizeof(name))
		return 0;
	memcpy(name, host, size);
	name[size] = '\0';
	if (*host == '[')
		return strcmp(name, "[::1") == 0;
	return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* ---- answers ---- */

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
