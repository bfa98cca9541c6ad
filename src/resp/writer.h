/* SPDX-License-Identifier: MIT */
/* Commands as bytes: hiredis' formatter appended to a buffer of ours. */
#ifndef LK__RESP_WRITER_H
#define LK__RESP_WRITER_H

#include <stddef.h>

#include "base/buffer.h"

/* Appends one command of `argc` length-counted arguments. 0 or LK_ENOMEM. */
int lk__write_command(struct lk__buffer *buffer, size_t argc, const char **argv,
		      const size_t *sizes);

#endif
