/* Starting the private server's process. */
#ifndef CLI_SERVER_START_H
#define CLI_SERVER_START_H

struct server_place;

/*
 * Writes the configuration and starts the server, detached: a session of its own, no terminal, none
 * of our descriptors. It need not answer yet. 0, or EXIT_TROUBLE (said).
 */
int server_start(const struct server_place *place);

/* 1 while a server process lives in this place, answering or not, else 0. */
int server_is_alive(const struct server_place *place);

#endif
