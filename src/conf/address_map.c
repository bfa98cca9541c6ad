/* SPDX-License-Identifier: MIT */
#include "conf/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PORT_DIGITS 5

/* One side of an entry. */
struct side {
	char host[LK__PLACE_SIZE];
	int port; /* 0: it has none */
};

struct entry {
	struct side from, to;
};

static bool is_ipv6(const char *host)
{
	struct in6_addr address;
	return inet_pton(AF_INET6, host, &address) == 1;
}

/* Behind the colon. 0: it is not a port. */
static int port_of(const char *text, const char *end)
{
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > PORT_DIGITS || text + digits != end)
		return 0;
	int port = (int)strtol(text, NULL, 10);
	return port <= 65535 ? port : 0;
}

static bool side_read(struct side *side, const char *text, const char *end)
{
	bool bracket = *text == '[';
	const char *last = bracket ? memchr(text, ']', (size_t)(end - text))
				   : memchr(text, ':', (size_t)(end - text));
	if (!last && bracket)
		return false;
	last = last ? last : end;
	snprintf(side->host, sizeof(side->host), "%.*s", (int)(last - text) - bracket,
		 text + bracket);
	last += bracket;
	side->port = last < end && *last == ':' ? port_of(last + 1, end) : 0;
	if (last < end && side->port == 0)
		return false;
	return bracket ? is_ipv6(side->host) : lk__host_fault(side->host) == NULL;
}

/* Takes the first entry off; NULL when it is not one, else the rest. */
static const char *entry_next(struct entry *entry, const char *map)
{
	const char *end = strchrnul(map, ',');
	const char *equals = memchr(map, '=', (size_t)(end - map));
	if (!equals || !side_read(&entry->from, map, equals) ||
	    !side_read(&entry->to, equals + 1, end) || !entry->from.port != !entry->to.port)
		return NULL;
	return *end && end[1] ? end + 1 : *end ? NULL : end;
}

static bool side_is(const struct side *side, const char *host, int port)
{
	return side->port == port && strcasecmp(side->host, host) == 0;
}

/* The entry of just that host and port, up to `end`; port 0: of the host alone. */
static bool map_find(struct entry *entry, const char *map, const char *end, const char *host,
		     int port)
{
	while (map && map < end) {
		map = entry_next(entry, map);
		if (map && side_is(&entry->from, host, port))
			return true;
	}
	return false;
}

const char *lk__address_map_fault(const char *map)
{
	struct entry entry, other;
	for (const char *at = map; *at;) {
		const char *next = entry_next(&entry, at);
		if (!next)
			return "is not a list of host:port=host:port or host=host (IPv6 in "
			       "brackets)";
		if (map_find(&other, map, at, entry.from.host, entry.from.port))
			return "has an address twice on the left";
		at = next;
	}
	return NULL;
}

bool lk__address_map(const char *map, const char *host, int port, char *host_out, int *port_out)
{
	struct entry entry;
	const char *end = map + strlen(map);
	bool found = map_find(&entry, map, end, host, port) || map_find(&entry, map, end, host, 0);
	snprintf(host_out, LK__PLACE_SIZE, "%s", found ? entry.to.host : host);
	*port_out = found && entry.to.port ? entry.to.port : port;
	return found;
}

bool lk__address_map_name(const char *map, char *host_out)
{
	struct entry entry;
	while (map && *map) {
		map = entry_next(&entry, map);
		if (map && !lk__host_is_address(entry.to.host)) {
			snprintf(host_out, LK__PLACE_SIZE, "%s", entry.to.host);
			return true;
		}
	}
	return false;
}
