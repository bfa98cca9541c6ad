/*
 * A thread of the test that is the program which drives threadless clients: the tests of clients
 * with a thread run over them as they are. Needs nothing else of the harness.
 */
#ifndef HARNESS_PROGRAM_H
#define HARNESS_PROGRAM_H

#include <stdbool.h>

#include <lockkeeper.h>

/* Whether LK_TEST_DRIVER=program asks for that. */
bool program_drives(void);

/* From now on a threadless client is driven. */
void program_add(lk_client *client);

/* lk_client_close() and lk_client_free(), of these clients and others. */
int program_close(lk_client *client, int how, lk_error *error);
lk_client *program_free(lk_client *client);

#endif
