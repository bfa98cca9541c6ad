/* SPDX-License-Identifier: MIT */
/* Preloaded: the name "moves.test" has the address that the file LK_TEST_NAMES says now. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int lookup(const char *host, const char *service, const struct addrinfo *hints,
		   struct addrinfo **result);

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		struct addrinfo **result)
{
	lookup *real;
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo"); /* as POSIX has it */
	const char *path = getenv("LK_TEST_NAMES");
	char address[64] = "";
	if (!path || !host || strcmp(host, "moves.test") != 0)
		return real(host, service, hints, result);
	FILE *file = fopen(path, "re");
	if (file && !fgets(address, sizeof(address), file))
		address[0] = '\0';
	if (file)
		fclose(file);
	address[strcspn(address, "\n")] = '\0';
	if (hints && hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	return *address ? real(address, service, hints, result) : EAI_AGAIN;
}
