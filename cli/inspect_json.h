/* SPDX-License-Identifier: MIT */
/* Locks as JSON. Bytes that are UTF-8 are strings; others stand in hexadecimal, under the same
 * name with "_hex", for JSON knows no other strings. */
#ifndef CLI_INSPECT_JSON_H
#define CLI_INSPECT_JSON_H

#include <jansson.h>

#include <lockkeeper/inspect.h>

/* As UTF-8, whatever the server says; NULL when out of memory. */
json_t *text_json(const char *text);

/* Sets bytes under one key where they are UTF-8, else under the other; 0, or -1. */
int bytes_set(json_t *object, const char *key, const char *key_hex, const void *bytes, size_t size);

/* One lock as an object, or NULL when out of memory; `scan` tells who its owners are. */
json_t *inspect_json(lk_scan *scan, const lk_lock_info *info);

/* Writes it with the server that says so, if it is one of several (else `node` is NULL). */
json_t *inspect_json_at(lk_scan *scan, const lk_lock_info *info, const char *node);

/* Instead of it, of a server that cannot be asked. */
json_t *silence_json(const char *node, const char *reason);

/* Writes the value to stdout; 0, or -1. */
int inspect_json_write(const json_t *value);

/* Prints the value to stdout and frees it; 0, or EXIT_TROUBLE (said; a NULL value too). */
int inspect_json_print(json_t *value);

#endif
