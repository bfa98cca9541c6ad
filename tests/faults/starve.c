/*
 * Memory that runs out for the library alone, when another process says so: loaded before it by
 * LD_PRELOAD. LOCKKEEPER_STARVE names a file of four bytes, which is mapped: not zero in the first
 * of them makes every allocation fail that liblockkeeper itself asks for.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static const volatile char *starving;

__attribute__((constructor)) static void prepare(void)
{
	const char *path = getenv("LOCKKEEPER_STARVE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (page != MAP_FAILED)
		starving = page;
}

static int fails(const void *caller)
{
	Dl_info info;
	if (!starving || !*starving)
		return 0;
	if (!dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, "liblockkeeper"))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}
