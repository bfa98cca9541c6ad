/* SPDX-License-Identifier: MIT */
/* Where a web server listens, and by which names it is asked for. */
#ifndef CLI_WEB_ADDRESS_H
#define CLI_WEB_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

#define WEB_PLACE_SIZE 80

struct web_address {
	struct sockaddr_storage socket;
	socklen_t size;
	int is_loopback;
};

/* Reads PORT, ADDRESS:PORT or [ADDRESS]:PORT. 0, or EXIT_TROUBLE (said, naming the option). */
int web_address_parse(const char *text, struct web_address *address_out);

/* A socket that listens there, and the place as it stands in a URL; -1 (said). */
int web_address_listen(const struct web_address *address, char place_out[WEB_PLACE_SIZE]);

/* Tells whether a Host header (NULL: there is none) names the loopback: by its name or an
 * address. */
int web_host_is_loopback(const char *host);

#endif
