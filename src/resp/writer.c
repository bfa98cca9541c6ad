/* SPDX-License-Identifier: MIT */
#include "resp/writer.h"

#include <limits.h>

#include <hiredis/hiredis.h>

#include <lockkeeper/error.h>

int lk__write_command(struct lk__buffer *buffer, size_t argc, const char **argv,
		      const size_t *sizes)
{
	char *bytes = NULL;
	if (argc > INT_MAX)
		return LK_ENOMEM;
	/* int in hiredis 0.14, long long from 1.1 on; negative when out of memory */
	long long size = redisFormatCommandArgv(&bytes, (int)argc, argv, sizes);
	if (size < 0)
		return LK_ENOMEM;
	int status = lk__buffer_append(buffer, bytes, (size_t)size);
	redisFreeCommand(bytes);
	return status;
}
