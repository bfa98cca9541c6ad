/* The version: the one place it is written; the build and the command read it from here. */
#ifndef LOCKKEEPER_VERSION_H
#define LOCKKEEPER_VERSION_H

#include <lockkeeper/export.h>

#define LK_VERSION_MAJOR 0
#define LK_VERSION_MINOR 1
#define LK_VERSION_PATCH 0
#define LK_VERSION "0.1.0"

LK_BEGIN_DECLS

/*
 * The version of the library that is loaded, as text ("0.1.0"); LK_VERSION is that of the
 * headers. Does not block; static memory. Since 0.1.
 */
LK_API const char *lk_version(void);

LK_END_DECLS

#endif
