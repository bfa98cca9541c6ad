/* SPDX-License-Identifier: MIT */
#include "base/identity.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lockkeeper/error.h>

#include "base/door.h"
#include "base/fail.h"

int lk__alive_new(const _Atomic int **alive_out, lk_error *error)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic int *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	if (page == MAP_FAILED)
		return lk__fail_system(error, errno, "mmap");
	*alive_out = page;
	if (madvise(page, size, MADV_WIPEONFORK) != 0)
		return lk__fail_system(error, errno, "madvise(MADV_WIPEONFORK)");
	atomic_store(page, 1);
	return 0;
}

void lk__alive_free(const _Atomic int *alive)
{
	if (alive)
		munmap((void *)(uintptr_t)alive, (size_t)sysconf(_SC_PAGESIZE));
}

int lk__random_uuid(char uuid[LK__UUID_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[16];
	if (lk__random_bytes(bytes, sizeof(bytes)) != 0)
		return LK_ESYSTEM;
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* RFC 4122 variant */
	char *at = uuid;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[bytes[i] >> 4];
		*at++ = digits[bytes[i] & 15];
	}
	*at = '\0';
	return 0;
}
