/* SPDX-License-Identifier: MIT */
/* Visibility and linkage of what the library exports; nothing here is for users. */
#ifndef LOCKKEEPER_EXPORT_H
#define LOCKKEEPER_EXPORT_H

#ifdef __GNUC__
#define LK_API __attribute__((visibility("default")))
#else
#define LK_API
#endif

#ifdef __cplusplus
#define LK_BEGIN_DECLS extern "C" {
#define LK_END_DECLS }
#else
#define LK_BEGIN_DECLS
#define LK_END_DECLS
#endif

#endif
