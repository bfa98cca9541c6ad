/* SPDX-License-Identifier: MIT */
/*
 * The URL of a node, taken apart. Strict: what is not understood is refused, and a message names
 * the part that is wrong but never repeats it, since it may be a piece of a password.
 *
 * One '@' at most, behind user and password, and no '#': elsewhere they are written %40 and %23.
 * So a password with a reserved character in it is refused, not cut in two.
 */
#ifndef LK__CONF_URL_H
#define LK__CONF_URL_H

#include <lockkeeper/error.h>

#include "conf/config.h"

#define LK__URL_MAX 16384
#define LK__URL_OPTIONS_MAX 32
#define LK__URL_PORT_DEFAULT 6379
#define LK__URL_PORT_SENTINEL 26379
#define LK__PLACE_SIZE 264 /* of host:port, with its NUL */

struct lk__url_option {
	char *name;
	char *value;
};

/* Decoded; NULL (database: too) is what the URL does not name. */
struct lk__url {
	enum lk__scheme scheme;
	enum lk__deployment deployment;
	char *host; /* of unix://: the path; of several: the first */
	int port;
	char *places; /* of several: as in struct lk_config */
	char *master; /* of sentinels */
	char *user;
	char *password;
	char *database;
	char *shown;                                        /* the URL with the password as *** */
	struct lk__url_option options[LK__URL_OPTIONS_MAX]; /* of the query, in order */
	int option_count;
};

/* Parses into `url`, to be freed by lk__url_free(), also after a failure. LK_EINVAL, LK_ENOMEM. */
int lk__url_parse(struct lk__url *url, const char *text, lk_error *error);

/* The fault that keeps the text from being a host name or an IPv4 address; NULL: none. Letters,
 * digits, '-' and '_' stand in labels, none of which is empty. */
const char *lk__host_fault(const char *host);

/* Tells whether it is an IPv4 or IPv6 address, without brackets: then nobody looks it up. */
bool lk__host_is_address(const char *host);

/*
 * Takes the first place off a list as `places` has it: host (without brackets, LK__PLACE_SIZE
 * bytes) and port. NULL at the end of the list, else the rest.
 */
const char *lk__place_next(const char *places, char *host_out, int *port_out);

/* Writes host:port, with IPv6 in brackets, into LK__PLACE_SIZE bytes. */
void lk__place_name(char *text_out, const char *host, int port);

/* Writes a place that a server names; false, and nothing written: its host is neither a name nor an
 * address, or its port is none. */
bool lk__place_write(char *text_out, const char *host, int64_t port);

/* Frees the parts and wipes them. */
void lk__url_free(struct lk__url *url);

/*
 * ---- other places ----
 *
 * The option address_map: what servers call each other, and where the client reaches them. As
 * behind a NAT, a tunnel or published ports of containers:
 *
 *     10.0.0.5:6379=192.0.2.1:7001,10.0.0.6=proxy.example
 *
 * Each entry is host:port=host:port, or host=host, which keeps the port. IPv6 is in brackets. An
 * entry with the port comes before one without. It is applied where a connection is opened; all
 * that compares addresses knows those of the servers alone.
 */

/* The fault that keeps the text from being a map; NULL: none. */
const char *lk__address_map_fault(const char *map);

/* Where to connect to for a host and port: `host_out` has LK__PLACE_SIZE bytes. False: it is not in
 * the map, and both are as they were. */
bool lk__address_map(const char *map, const char *host, int port, char *host_out, int *port_out);

/* The first host on the right that is a name, into LK__PLACE_SIZE bytes. False: there is none. */
bool lk__address_map_name(const char *map, char *host_out);

#endif
