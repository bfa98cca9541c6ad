/*
 * Connections to the simulated servers: bytes that take their time, in order, and faults.
 *
 * With SIM_LOSSES connections are refused, end with bytes under way in either direction,
 * or fall silent: the server still runs what arrives, but its replies are lost.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sim_link;

void sim_network_begin(void);
void sim_network_end(void);

/* The client's end. Connecting ends later. */
struct sim_link *sim_link_new(unsigned server);
unsigned sim_link_server(const struct sim_link *link);
bool sim_link_connecting(const struct sim_link *link);
int sim_link_failure(const struct sim_link *link); /* an errno */
bool sim_link_readable(const struct sim_link *link);
bool sim_link_writable(const struct sim_link *link);
bool sim_link_ended(const struct sim_link *link);

/* As recv() and send() that do not block. */
ssize_t sim_link_read(struct sim_link *link, void *bytes, size_t size);
ssize_t sim_link_write(struct sim_link *link, const void *bytes, size_t size);
void sim_link_shutdown(struct sim_link *link);

/* What is under way there may not arrive. */
void sim_link_discard(struct sim_link *link);

/* The server's end: its bytes go on their way. */
void sim_link_reply(struct sim_link *link, const void *bytes, size_t size);

/* The server ends it. */
void sim_link_cut(struct sim_link *link);

/* Whoever is in between has forgotten its connections: nothing passes in one direction, or in both,
 * and nobody is told. New ones work. */
void sim_network_forget(unsigned server);

/* The connections of a process that has died end. */
void sim_network_die(unsigned process);

/* The process reaches no server until another one is named, or 0. */
void sim_network_isolate(unsigned process);

/* The server is down: its connections end, or, where its host vanishes, tell nothing. */
void sim_network_lose(unsigned server, bool vanishes);

#endif
