/* SPDX-License-Identifier: MIT */
/*
 * The part that only the static command has (docs/building.md). It must run where the C library is
 * another one, or none: so it loads nothing. The loader's functions say so, which leaves TLS and
 * `top` without their libraries; and names are looked up by what the C library itself has.
 */
#include <dlfcn.h>
#include <nss.h>
#include <stddef.h>

void *dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

void *dlsym(void *restrict library, const char *restrict name)
{
	(void)library;
	(void)name;
	return NULL;
}

int dlclose(void *library)
{
	(void)library;
	return -1;
}

char *dlerror(void)
{
	static char reason[] = "this lockkeeper is static, and loads no libraries";
	return reason;
}

/* Whatever /etc/nsswitch.conf says, whose modules would have to be loaded. */
__attribute__((constructor)) static void names_begin(void)
{
	__nss_configure_lookup("hosts", "files dns");
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("services", "files");
}
