/* SPDX-License-Identifier: MIT */
#include "base/alive.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"

int lk__alive_new(const _Atomic int **alive_out, lk_error *error)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic int *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	if (page == MAP_FAILED)
		return lk__fail_errno(error, LK_ESYSTEM, errno, "mmap");
	*alive_out = page;
	if (madvise(page, size, MADV_WIPEONFORK) != 0)
		return lk__fail_errno(error, LK_ESYSTEM, errno, "madvise(MADV_WIPEONFORK)");
	atomic_store(page, 1);
	return 0;
}

void lk__alive_free(const _Atomic int *alive)
{
	if (alive)
		munmap((void *)(uintptr_t)alive, (size_t)sysconf(_SC_PAGESIZE));
}
