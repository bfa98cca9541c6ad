/* Starting the private server's process. */
#ifndef CLI_SERVER_START_H
#define CLI_SERVER_START_H

struct server_place;

/*
 * Writes the configuration and starts the server, detached: a session of its own, no terminal, none
 * of our descriptors. Returns a descriptor that becomes readable when the server ends: the errno
 * (an int) when it could not be executed, else nothing. Or -1 (said).
 */
int server_start(const struct server_place *place);

#endif
