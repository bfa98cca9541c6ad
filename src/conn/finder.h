/* SPDX-License-Identifier: MIT */
/*
 * Where a node is, if that changes: the topology finds out, the node's connections ask it.
 *
 * `generation` is raised whenever the server that is believed changes. A connection remembers the
 * one with which it was found. What an older one still says is not believed: the topology calls
 * lk__conn_disown() after it has raised the generation, and a connection that is installed later
 * compares for itself.
 */
#ifndef LK__CONN_FINDER_H
#define LK__CONN_FINDER_H

#include <stdatomic.h>
#include <stdint.h>

#include <lockkeeper/error.h>

struct lk_config;
struct lk__finder;
struct lk__node;

struct lk__finder_ops {
	/* Writes host, port and url (for messages) into `config`, a copy of the caller's own.
	 * 1: it is not known yet; lk__node_found() tells when to look again. `asked` is 0 in the
	 * first call for an attempt, and then kept for the next. */
	int (*find)(struct lk__finder *finder, struct lk_config *config, uint64_t *generation_out,
		    uint64_t *asked, int64_t deadline_ns, lk_error *error);
	/* The server that was found says that it takes no writes: ask again soon. Under a
	 * connection's mutex. */
	void (*suspect)(struct lk__finder *finder);
	/* It says that another has the key, with these words: MOVED or ASK. Takes note of a MOVED.
	 * The node to ask instead; NULL: it is not known yet. `place`: of the server that
	 * says so. Under a connection's mutex. NULL: one node has all keys. */
	struct lk__node *(*redirect)(struct lk__finder *finder, const char *words,
				     const char *place);
	void (*unref)(struct lk__finder *finder);
};

struct lk__finder {
	const struct lk__finder_ops *ops;
	_Atomic int refs; /* the topology, and each connector */
	_Atomic uint64_t generation;
};

#endif
