/* SPDX-License-Identifier: MIT */
/* Where libmicrohttpd was missing when the command was built. */
#include "message.h"
#include "web.h"

int web_serve(const char *address, web_handler handler, void *context, const sigset_t *ending,
	      int *signal_out)
{
	(void)address, (void)handler, (void)context, (void)ending, (void)signal_out;
	return trouble("option --listen: this lockkeeper was built without libmicrohttpd");
}
