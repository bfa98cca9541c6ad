/* SPDX-License-Identifier: MIT */
/* The version. It is written only here; the build and the command read it from here. */
#ifndef LOCKKEEPER_VERSION_H
#define LOCKKEEPER_VERSION_H

#include <lockkeeper/export.h>

#define LK_VERSION_MAJOR 0
#define LK_VERSION_MINOR 2
#define LK_VERSION_PATCH 0
#define LK_VERSION "0.2.0"

LK_BEGIN_DECLS

/*
 * Returns the version of the loaded library as text ("0.2.0"); LK_VERSION is the version of the
 * headers. Does not block. Static memory. Since 0.2.
 */
LK_API const char *lk_version(void);

LK_END_DECLS

#endif
