/* SPDX-License-Identifier: MIT */
#include "web_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"

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

int web_address_parse(const char *text, struct web_address *address_out)
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

int web_address_listen(const struct web_address *address, char place_out[WEB_PLACE_SIZE])
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

int web_host_is_loopback(const char *host)
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
