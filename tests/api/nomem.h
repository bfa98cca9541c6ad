/*
 * Memory, descriptors and threads that run out at one request of the library, or from there on. The
 * library is linked statically with the calls wrapped that ask for them; those of the libraries
 * under it are not.
 */
#ifndef API_NOMEM_H
#define API_NOMEM_H

#include <stdbool.h>

#define REQUESTS_MAX 20000 /* of one run, far more than any has */

extern _Atomic long countdown; /* requests until one fails; <= 0: that one is behind us */
extern _Atomic bool armed, for_good;

#endif
