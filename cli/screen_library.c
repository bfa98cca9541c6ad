/* SPDX-License-Identifier: MIT */
#include "screen_library.h"

#include <dlfcn.h>
#include <stddef.h>

#include "message.h"

/* The one that the header belongs to. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define LIBRARY "libncursesw.so." TEXT(NCURSES_VERSION_MAJOR)

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
#define ROW(name) {#name, offsetof(struct screen_library, name)},
	SCREEN_FUNCTIONS(ROW)
#undef ROW
		{"stdscr", offsetof(struct screen_library, screen)},
};

int screen_library_load(struct screen_library *library_out)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return trouble("top: ncurses cannot be loaded: %s", dlerror());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name); /* libtinfo's, too */
		if (!symbol)
			return trouble("top: ncurses cannot be loaded: %s", dlerror());
		*(void **)((char *)library_out + symbols[i].offset) = symbol;
	}
	return 0;
}
