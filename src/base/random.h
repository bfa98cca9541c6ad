/* Randomness from the kernel; there is no other source, and no fallback. */
#ifndef LK__BASE_RANDOM_H
#define LK__BASE_RANDOM_H

#include <stddef.h>

#define LK__UUID_SIZE 37 /* with its NUL */

/* Fills `bytes`. 0, or LK_ESYSTEM. May block early in the boot of a machine. */
int lk__random_bytes(void *bytes, size_t size);

/* Writes a random UUID (version 4, lower case) and a NUL. 0, or LK_ESYSTEM and nothing written. */
int lk__random_uuid(char uuid[LK__UUID_SIZE]);

#endif
