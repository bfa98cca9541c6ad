/* SPDX-License-Identifier: MIT */
#include "conf/url.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/fail.h"
#include "conf/text.h"

#define HOST_MAX 253   /* of DNS */
#define MASTER_MAX 256 /* bytes of a master's name, as it is written */
#define PORT_DIGITS 5

/* A run of bytes of the text that is being parsed. */
struct span {
	const char *start;
	const char *end;
};

static int bad(lk_error *error, const char *reason)
{
	return lk__fail(error, LK_EINVAL, "url: %s", reason);
}

static int no_memory(lk_error *error)
{
	return lk__fail(error, LK_ENOMEM, "url: out of memory");
}

static bool span_empty(struct span span)
{
	return span.start == span.end;
}

/* The first of `bytes` in the span, or its end. */
static const char *span_find(struct span span, const char *bytes)
{
	const char *at = span.start;
	while (at < span.end && !strchr(bytes, *at))
		at++;
	return at;
}

static int hex_digit(char byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	if (byte >= 'a' && byte <= 'f')
		return byte - 'a' + 10;
	if (byte >= 'A' && byte <= 'F')
		return byte - 'A' + 10;
	return -1;
}

/* Escapes are checked for the whole URL at once, so that decoding cannot fail later. */
static int check_bytes(const char *text, lk_error *error)
{
	size_t length = strlen(text);
	if (length == 0)
		return bad(error, "is empty");
	if (length > LK__URL_MAX)
		return bad(error, "is too long");
	if (lk__text_edge(text))
		return lk__fail(error, LK_EINVAL, "url: %s: write the URL alone",
				lk__text_edge(text));
	for (const char *at = text; *at; at++) {
		if (*at == ' ' && at[-1] == ',')
			return bad(error, "has a blank behind a comma: write commas alone");
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return bad(error, "a blank or control byte must be written %XX");
		if (*at == '#')
			return bad(error, "a '#' must be written %23");
		if (*at != '%')
			continue;
		int high = hex_digit(at[1]);
		int low = high < 0 ? -1 : hex_digit(at[2]);
		if (low < 0)
			return bad(error, "a '%' is not followed by two hex digits (write %25)");
		if (high == 0 && low == 0)
			return bad(error, "a URL cannot contain %00");
	}
	return 0;
}

/* The span without its escapes, in memory of its own; NULL when there is none. */
static char *decode(struct span span)
{
	char *decoded = malloc((size_t)(span.end - span.start) + 1);
	char *to = decoded;
	if (!decoded)
		return NULL;
	for (const char *at = span.start; at < span.end; at++) {
		if (*at == '%') {
			*to++ = (char)(hex_digit(at[1]) * 16 + hex_digit(at[2]));
			at += 2;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
	return decoded;
}

static int decode_to(char **part, struct span span, lk_error *error)
{
	*part = decode(span);
	return *part ? 0 : no_memory(error);
}

/* Takes the text off the beginning of the span; false: it begins otherwise. */
static bool span_skip(struct span *span, const char *text)
{
	size_t size = strlen(text);
	bool skips = strncmp(span->start, text, size) == 0;
	span->start += skips ? size : 0;
	return skips;
}

/* redis or valkey, "s" for TLS, and what stands for the deployment. */
static int parse_scheme(struct lk__url *url, struct span *rest, lk_error *error)
{
	static const char *const deployments[] = {[LK__SINGLE] = "://",
						  [LK__REPLICAS] = "-replicas://",
						  [LK__SENTINEL] = "-sentinel://",
						  [LK__CLUSTER] = "-cluster://"};
	url->scheme = LK__SCHEME_UNIX;
	if (span_skip(rest, "unix://"))
		return 0;
	struct span at = *rest;
	bool known = span_skip(&at, "redis") || span_skip(&at, "valkey");
	url->scheme = span_skip(&at, "s") ? LK__SCHEME_TLS : LK__SCHEME_TCP;
	for (int i = LK__SINGLE; known && i <= LK__CLUSTER; i++) {
		if (!span_skip(&at, deployments[i]))
			continue;
		url->deployment = (enum lk__deployment)i;
		*rest = at;
		return 0;
	}
	if (!strstr(rest->start, "://"))
		return bad(error, *rest->start == '/'
					  ? "has no scheme: write unix:// before the path"
					  : "has no scheme: write redis:// before the host");
	return bad(error,
		   "the scheme is not one of redis://, rediss://, valkey://, valkeys://, "
		   "unix://, or redis-replicas://, redis-sentinel://, redis-cluster:// and their "
		   "like");
}

/* user[:password]@; an empty user means that AUTH takes the password alone. */
static int parse_userinfo(struct lk__url *url, struct span span, lk_error *error)
{
	struct span user = {span.start, span_find(span, ":")};
	if (!span_empty(user) && decode_to(&url->user, user, error) != 0)
		return LK_ENOMEM;
	if (user.end == span.end)
		return url->user ? 0 : bad(error, "the part before the '@' is empty");
	struct span password = {user.end + 1, span.end};
	if (span_empty(password))
		return bad(error, "the password is empty");
	return decode_to(&url->password, password, error);
}

/* The port that the text up to `end` is; 0: none. */
static int port_of(const char *text, const char *end)
{
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > PORT_DIGITS || text + digits != end)
		return 0;
	int port = (int)strtol(text, NULL, 10);
	return port <= 65535 ? port : 0;
}

static int parse_port(struct lk__url *url, struct span span, lk_error *error)
{
	url->port = *span.start == '0' ? 0 : port_of(span.start, span.end);
	return url->port ? 0 : bad(error, "the port is not a number from 1 to 65535");
}

const char *lk__host_fault(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct in_addr address;
	if (!*host)
		return "is empty";
	if (strlen(host) > HOST_MAX)
		return "is too long";
	if (strspn(host, "0123456789.") == strlen(host))
		return inet_pton(AF_INET, host, &address) == 1 ? NULL : "is not an IPv4 address";
	for (const char *at = host; *at; at++) {
		if (*at == '.' && (at == host || at[-1] == '.'))
			return "has an empty label";
		if (!strchr(letters, *at) && !strchr("0123456789-_.", *at))
			return "contains a byte that a host name cannot have";
	}
	return NULL;
}

static bool is_ipv6(const char *host)
{
	struct in6_addr address;
	return inet_pton(AF_INET6, host, &address) == 1;
}

bool lk__host_is_address(const char *host)
{
	struct in_addr address;
	return inet_pton(AF_INET, host, &address) == 1 || is_ipv6(host);
}

static int check_host(const char *host, lk_error *error)
{
	const char *fault = lk__host_fault(host);
	if (!fault)
		return 0;
	return lk__fail(error, LK_EINVAL, "url: the host %s%s", fault,
			strstr(fault, "byte") ? " (write IPv6 in brackets)" : "");
}

static int parse_ipv6(struct lk__url *url, struct span *rest, lk_error *error)
{
	struct span inside = {rest->start + 1, span_find(*rest, "]")};
	if (inside.end == rest->end)
		return bad(error, "the '[' of the host is not closed");
	url->host = strndup(inside.start, (size_t)(inside.end - inside.start));
	if (!url->host)
		return no_memory(error);
	if (!is_ipv6(url->host))
		return bad(error, "the host in brackets is not an IPv6 address");
	rest->start = inside.end + 1;
	return 0;
}

static int parse_host_port(struct lk__url *url, struct span span, lk_error *error)
{
	int status;
	if (!span_empty(span) && *span.start == '[') {
		status = parse_ipv6(url, &span, error);
	} else {
		struct span host = {span.start, span_find(span, ":")};
		url->host = strndup(host.start, (size_t)(host.end - host.start));
		if (!url->host)
			return no_memory(error);
		status = check_host(url->host, error);
		span.start = host.end;
	}
	url->port = url->deployment == LK__SENTINEL ? LK__URL_PORT_SENTINEL : LK__URL_PORT_DEFAULT;
	if (status != 0 || span_empty(span))
		return status;
	if (*span.start != ':')
		return bad(error, "unexpected text between the host and the port");
	return parse_port(url, (struct span){span.start + 1, span.end}, error);
}

static int parse_socket_path(struct lk__url *url, struct span span, lk_error *error)
{
	struct sockaddr_un address;
	if (span_empty(span))
		return bad(error, "the path of the socket is empty");
	if (decode_to(&url->host, span, error) != 0)
		return LK_ENOMEM;
	if (strlen(url->host) >= sizeof(address.sun_path))
		return lk__fail(error, LK_EINVAL,
				"url: the path of the socket is longer than %zu bytes",
				sizeof(address.sun_path) - 1);
	return 0;
}

static int set_database(struct lk__url *url, struct span span, lk_error *error)
{
	int64_t number;
	if (url->database)
		return bad(error, "the database is named twice");
	if (decode_to(&url->database, span, error) != 0)
		return LK_ENOMEM;
	if (lk__text_number(url->database, &number))
		return bad(error, "the database is not a plain decimal number");
	return 0;
}

static bool span_is(struct span span, const char *text)
{
	size_t length = (size_t)(span.end - span.start);
	return strlen(text) == length && memcmp(span.start, text, length) == 0;
}

static int add_option(struct lk__url *url, struct span name, struct span value, lk_error *error)
{
	if (url->option_count == LK__URL_OPTIONS_MAX)
		return bad(error, "the query has too many options");
	for (int i = 0; i < url->option_count; i++) {
		if (span_is(name, url->options[i].name))
			return bad(error, "the query sets an option twice");
	}
	struct lk__url_option *option = &url->options[url->option_count++];
	int status = decode_to(&option->name, name, error);
	return status == 0 ? decode_to(&option->value, value, error) : status;
}

static int parse_query(struct lk__url *url, struct span span, lk_error *error)
{
	while (!span_empty(span)) {
		struct span item = {span.start, span_find(span, "&")};
		struct span name = {item.start, span_find(item, "=")};
		if (span_empty(name) || name.end == item.end)
			return bad(error, "the query is not of the form name=value&name=value");
		struct span value = {name.end + 1, item.end};
		int status = span_is(name, "db") || span_is(name, "database")
				     ? set_database(url, value, error)
				     : add_option(url, name, value, error);
		if (status != 0)
			return status;
		span.start = item.end;
		if (!span_empty(span) && ++span.start == span.end)
			return bad(error, "the query ends in '&'");
	}
	return 0;
}

/* The URL as it was given, but for the password. */
static int make_shown(struct lk__url *url, const char *text, lk_error *error)
{
	const char *at = strchr(text, '@');
	const char *colon = strchr(strstr(text, "://") + 3, ':');
	size_t head = url->password ? (size_t)(colon + 1 - text) : strlen(text);
	size_t tail = url->password ? strlen(at) : 0;
	char *shown = malloc(head + 3 + tail + 1);
	if (!shown)
		return no_memory(error);
	memcpy(shown, text, head);
	if (url->password) {
		memcpy(shown + head, "***", 3);
		head += 3;
		memcpy(shown + head, at, tail);
	}
	shown[head + tail] = '\0';
	url->shown = shown;
	return 0;
}

static int parse_userinfo_if_any(struct lk__url *url, struct span *rest, lk_error *error)
{
	struct span authority = {rest->start, span_find(*rest, "/?")};
	const char *at = span_find(authority, "@");
	struct span behind = {at < authority.end ? at + 1 : authority.end, rest->end};
	if (span_find(behind, "@") != rest->end)
		return bad(error, "'@' in user, password, path or query must be written %40, "
				  "'/' and '?' in user and password %2F and %3F");
	if (at == authority.end)
		return 0;
	rest->start = at + 1;
	struct span userinfo = {authority.start, at};
	if (url->deployment != LK__SINGLE && span_find(userinfo, ",") < at)
		return bad(error, "user and password stand once, before the first address; a ',' "
				  "in them must be written %2C");
	return parse_userinfo(url, userinfo, error);
}

void lk__place_name(char *text_out, const char *host, int port)
{
	snprintf(text_out, LK__PLACE_SIZE, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}

bool lk__place_write(char *text_out, const char *host, int64_t port)
{
	if ((lk__host_fault(host) && !is_ipv6(host)) || port < 1 || port > 65535)
		return false;
	lk__place_name(text_out, host, (int)port);
	return true;
}

const char *lk__place_next(const char *places, char *host_out, int *port_out)
{
	if (!*places)
		return NULL;
	const char *end = strchrnul(places, ',');
	const char *colon = memrchr(places, ':', (size_t)(end - places));
	int brackets = *places == '[';
	*port_out = (int)strtol(colon + 1, NULL, 10);
	snprintf(host_out, LK__PLACE_SIZE, "%.*s", (int)(colon - places) - 2 * brackets,
		 places + brackets);
	return *end ? end + 1 : end;
}

static bool place_is_listed(const char *places, const char *host, int port)
{
	char other[LK__PLACE_SIZE];
	int other_port = 0;
	while ((places = lk__place_next(places, other, &other_port)))
		if (other_port == port && strcasecmp(other, host) == 0)
			return true;
	return false;
}

static int add_place(struct lk__url *url, const struct lk__url *place, lk_error *error)
{
	char name[LK__PLACE_SIZE], *places = NULL;
	const char *before = url->places ? url->places : "";
	if (place_is_listed(before, place->host, place->port))
		return bad(error, "lists an address twice");
	lk__place_name(name, place->host, place->port);
	if (asprintf(&places, "%s%s%s", before, *before ? "," : "", name) < 0)
		return no_memory(error);
	free(url->places);
	url->places = places;
	return 0;
}

/* host:port,host:port; the first is also where the URL points. */
static int parse_places(struct lk__url *url, struct span span, lk_error *error)
{
	int count = 0, status = 0;
	bool more = true;
	while (status == 0 && more) {
		struct lk__url place = {.deployment = url->deployment};
		struct span one = {span.start, span_find(span, ",")};
		more = one.end < span.end;
		span.start = one.end + more;
		if (++count > LK__PLACES_MAX)
			return bad(error, "lists more than 16 addresses");
		status = parse_host_port(&place, one, error);
		if (status == 0)
			status = add_place(url, &place, error);
		if (count > 1 || status != 0) {
			lk__text_wipe(place.host);
		} else {
			url->host = place.host;
			url->port = place.port;
		}
	}
	if (status == 0 && count == 1 && url->deployment == LK__REPLICAS)
		return bad(error, "lists one address; list those of master and replicas");
	return status;
}

/* host:port,host:port/name[/database] */
static int parse_sentinels(struct lk__url *url, struct span span, lk_error *error)
{
	struct span authority = {span.start, span_find(span, "/")};
	int status = parse_places(url, authority, error);
	if (status != 0)
		return status;
	bool named = authority.end < span.end;
	struct span rest = {authority.end + named, span.end};
	struct span name = {rest.start, span_find(rest, "/")};
	if (span_empty(name))
		return bad(error, "the name of the master is missing (…/name)");
	if (name.end - name.start > MASTER_MAX)
		return bad(error, "the name of the master is too long");
	status = decode_to(&url->master, name, error);
	if (status != 0 || name.end == span.end || name.end + 1 == span.end)
		return status;
	return set_database(url, (struct span){name.end + 1, span.end}, error);
}

static int parse_authority(struct lk__url *url, struct span span, lk_error *error)
{
	if (url->deployment != LK__SINGLE)
		return parse_places(url, span, error);
	if (span_find(span, ",") < span.end)
		return bad(error, "names one server; a quorum is several whole URLs");
	return parse_host_port(url, span, error);
}

/* Reads what stands behind user and password: host and port and database, or the path of a
 * socket. */
static int parse_place(struct lk__url *url, struct span span, lk_error *error)
{
	if (url->scheme == LK__SCHEME_UNIX)
		return parse_socket_path(url, span, error);
	if (url->deployment == LK__SENTINEL)
		return parse_sentinels(url, span, error);
	struct span authority = {span.start, span_find(span, "/")};
	int status = parse_authority(url, authority, error);
	if (status != 0 || authority.end == span.end || authority.end + 1 == span.end)
		return status;
	return set_database(url, (struct span){authority.end + 1, span.end}, error);
}

int lk__url_parse(struct lk__url *url, const char *text, lk_error *error)
{
	*url = (struct lk__url){0};
	int status = check_bytes(text, error);
	if (status != 0)
		return status;
	struct span rest = {text, text + strlen(text)};
	status = parse_scheme(url, &rest, error);
	if (status == 0)
		status = parse_userinfo_if_any(url, &rest, error);
	if (status != 0)
		return status;
	struct span place = {rest.start, span_find(rest, "?")};
	status = parse_place(url, place, error);
	if (status == 0 && place.end + 1 == rest.end)
		status = bad(error, "the query is empty");
	else if (status == 0 && place.end < rest.end)
		status = parse_query(url, (struct span){place.end + 1, rest.end}, error);
	return status == 0 ? make_shown(url, text, error) : status;
}

void lk__url_free(struct lk__url *url)
{
	lk__text_wipe(url->host);
	lk__text_wipe(url->places);
	lk__text_wipe(url->master);
	lk__text_wipe(url->user);
	lk__text_wipe(url->password);
	lk__text_wipe(url->database);
	lk__text_wipe(url->shown);
	for (int i = 0; i < url->option_count; i++) {
		lk__text_wipe(url->options[i].name);
		lk__text_wipe(url->options[i].value);
	}
	*url = (struct lk__url){0};
}

/* ---- other places ---- */

/* One side of an entry. */
struct side {
	char host[LK__PLACE_SIZE];
	int port; /* 0: it has none */
};

struct entry {
	struct side from, to;
};

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
