/* SPDX-License-Identifier: MIT */
/*
 * The option address_map: what servers call each other, and where the client reaches them. As
 * behind a NAT, a tunnel or published ports of containers:
 *
 *     10.0.0.5:6379=192.0.2.1:7001,10.0.0.6=proxy.example
 *
 * Each entry is host:port=host:port, or host=host, which keeps the port. IPv6 is in brackets. An
 * entry with the port comes before one without. It is applied where a connection is opened; all
 * that compares addresses knows those of the servers alone.
 */
#ifndef LK__CONF_ADDRESS_MAP_H
#define LK__CONF_ADDRESS_MAP_H

#include <stdbool.h>

#include "conf/url.h"

/* What keeps the text from being a map; NULL: nothing. */
const char *lk__address_map_fault(const char *map);

/* Where to connect to for a host and port: `host_out` has LK__PLACE_SIZE bytes. False: it is not in
 * the map, and both are as they were. */
bool lk__address_map(const char *map, const char *host, int port, char *host_out, int *port_out);

/* The first host on the right that is a name, into LK__PLACE_SIZE bytes. False: there is none. */
bool lk__address_map_name(const char *map, char *host_out);

#endif
