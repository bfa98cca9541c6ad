/*
 * Who drives the clients that open_driven() makes. With LK_TEST_DRIVER=program they are threadless,
 * and a thread of the test is the program that drives them all: the same tests, another driver.
 */
#ifndef API_DRIVER_H
#define API_DRIVER_H

#include <stdbool.h>

#include "check.h"

#include <lockkeeper.h>

bool program_drives(void);

/* First in a test that also makes blocking calls on the driven client. */
#define needs_a_thread()                                                                           \
	do {                                                                                       \
		if (program_drives())                                                              \
			skip();                                                                    \
	} while (0)

/* Between these a threadless client is driven. */
void driver_add(lk_client *client);
void driver_remove(lk_client *client);

/* lk_client_close() and lk_client_free(), whoever drives it. */
int driver_close(lk_client *client, int how, lk_error *error);
lk_client *driver_free(lk_client *client);

#endif
