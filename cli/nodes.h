/* SPDX-License-Identifier: MIT */
/*
 * The servers of a command: one, or several that are a quorum.
 *
 * What a URL sets beside the address is for its server alone, but for the lease, which all have in
 * common, and the program's name. On the command line the later prevails: a URL over each -o before
 * it, and an -o over the URLs before it; -o url=… names all servers anew. The environment's URLs
 * come before all others, and an option's own variable prevails over them.
 */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include <stddef.h>

#include <lockkeeper.h>

struct nodes {
	size_t count;
	const char *url[LK_RED_NODES_MAX];
	size_t after[LK_RED_NODES_MAX]; /* so many -o stand before it */
	const char **assigned;          /* the values of all -o, but for url */
	size_t assigned_count;
	char **base;  /* the value of each option without any of the URLs; NULL: not settled */
	char *listed; /* LOCKKEEPER_URL as it was, when it names several; else NULL */
	char *text;   /* its copy, into which `url` points */
	char *named[LK_RED_NODES_MAX]; /* copies of each --url, into which it points instead */
	size_t named_count;
	int is_assigned; /* they were named by -o url=… */
};

/* 1 when the value of LOCKKEEPER_URL (or NULL) names more than one server. */
int nodes_are_several(const char *list);

/*
 * LOCKKEEPER_URL may name several, with commas between them. The library, which wants one, is not
 * shown it until nodes_settle(). 0, or EXIT_TROUBLE (said).
 */
int nodes_from_environment(struct nodes *nodes);

/* One more --url, which stand instead of the environment's; it may name several too. 0, or
 * EXIT_TROUBLE (said). */
int nodes_add(struct nodes *nodes, const char *url);

/* The URL or the URLs of "url=…"; NULL for another option. */
const char *nodes_assigned_url(const char *assignment);

/* Notes an -o. The configuration has been given it already, unless it names several servers. 0, or
 * EXIT_TROUBLE (said). */
int nodes_note(struct nodes *nodes, const char *assignment);

/* 0, or EXIT_TROUBLE (said): two are no quorum. */
int nodes_check_quorum(const struct nodes *nodes);

/* Puts the environment back, and the first server, with the lease of all, into the configuration.
 * 0, or EXIT_TROUBLE (said): passwords are not for lists. */
int nodes_settle(struct nodes *nodes, lk_config *config);

/* Makes the clients of the others, with the configuration's lease; `count_out` of them are made
 * also when that fails. 0, or EXIT_TROUBLE (said). */
int nodes_open(const struct nodes *nodes, lk_config *config, lk_client **others_out,
	       size_t *count_out);

void nodes_free(struct nodes *nodes);

#endif
