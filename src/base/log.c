/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void lk__log(const struct lk__log *log, int level, const char *format, ...)
{
	if (!log->callback || level > log->level)
		return;
	char line[LK__LOG_LINE_MAX];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (length < 0)
		return;
	for (char *at = line; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
	log->callback(log->context, level, line);
}
