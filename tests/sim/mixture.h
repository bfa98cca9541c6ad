/*
 * Which deployment the nodes of a quorum are: each a single server, or the first of them a master
 * with replicas, which are listed or watched by sentinels, or a cluster. The servers of the first
 * node come first.
 */
#ifndef SIM_MIXTURE_H
#define SIM_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many nodes. `mixed`: the first is no single server; of which deployment it is, is drawn. The
 * key is that whose slot moves in a cluster. */
void sim_mixture_begin(unsigned nodes, bool mixed, bool durable, const char *key);

bool sim_is_mixed(void);

/* What leads to the node, without options. */
void sim_mixture_url(char *url, size_t size, unsigned node);

/* The server that has the key on that node, or would. */
unsigned sim_mixture_server(unsigned node, const char *key);

/* Single servers have outages (outages.h), and may start without their data. */
void sim_mixture_outages(bool forget);

/* All troubles cease; behind it all servers do what they should. */
void sim_mixture_settle(void);

/* Runs the world from its first thread on until all is over, and takes it apart: behind
 * sim_door_begin(), sim_network_begin() and sim_mixture_begin(). */
void sim_mixture_run(void *(*main)(void *));

#endif
