/* SPDX-License-Identifier: MIT */
#include "sync/foreign/foreign.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_SIZE 160

static const struct lk__foreign rows[] = {
#define LK__FOREIGN(library, versions, kind, certainty, key, value, told, notify, both, ours,      \
		    theirs, beware)                                                                \
	{library, LK__FOREIGN_##kind, LK__FOREIGN_##certainty, key, value, told, notify},
#define LK__FOREIGN_ALSO(library, kind, certainty, key, value, told)                               \
	{library, LK__FOREIGN_##kind, LK__FOREIGN_##certainty, key, value, told, ""},
#include "sync/foreign/foreign.def"
#undef LK__FOREIGN
#undef LK__FOREIGN_ALSO
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_like(const struct lk__foreign_seen *seen, const struct lk__foreign *row,
		    struct lk__form_parts *value_parts)
{
	struct lk__form_parts key_parts;
	return (seen->kinds & 1u << row->kind) &&
	       lk__form_match(row->value, seen->value, seen->value_size, value_parts) &&
	       lk__form_match(row->key, seen->key, seen->key_size, &key_parts);
}

/* A row that names more of key and value is more to the point. Guesses are all alike. */
static size_t rank(const struct lk__foreign *row)
{
	size_t weight = lk__form_weight(row->key) + lk__form_weight(row->value);
	if (row->certainty == LK__FOREIGN_SURE)
		return 2 + weight;
	return row->certainty == LK__FOREIGN_LIKELY;
}

const struct lk__foreign *lk__foreign_find(const struct lk__foreign_seen *seen)
{
	const struct lk__foreign *best = NULL;
	struct lk__form_parts parts;
	for (size_t i = 0; i < ROWS; i++)
		if ((!best || rank(&rows[i]) > rank(best)) && is_like(seen, &rows[i], &parts))
			best = &rows[i];
	return best;
}

/* The table marks code in names as the page shows it. */
static void library_print(FILE *stream, const char *library)
{
	for (; *library; library++)
		if (*library != '`')
			fputc(*library, stream);
}

char *lk__foreign_text(const struct lk__foreign_seen *seen, const struct lk__foreign *row)
{
	struct lk__form_parts parts;
	char told[TOLD_SIZE], *text = NULL;
	size_t size, libraries = 0;
	FILE *stream = open_memstream(&text, &size);
	if (!stream)
		return NULL;
	for (size_t i = 0; i < ROWS; i++) {
		if (rank(&rows[i]) != rank(row) || !is_like(seen, &rows[i], &parts))
			continue;
		fputs(libraries++ ? ", " : "", stream);
		library_print(stream, rows[i].library);
		if (*rows[i].told) {
			lk__form_tell(rows[i].told, &parts, told, sizeof(told));
			fprintf(stream, ": %s", told);
		}
	}
	if (libraries > 1)
		fputs(" (which of them cannot be known)", stream);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

const struct lk__foreign *lk__foreign_waker(const struct lk__foreign_seen *seen,
					    const struct lk__foreign *row)
{
	struct lk__form_parts parts;
	for (size_t i = 0; i < ROWS; i++)
		if (*rows[i].notify && rank(&rows[i]) == rank(row) &&
		    is_like(seen, &rows[i], &parts))
			return &rows[i];
	return NULL;
}

const struct lk__foreign *lk__foreign_notifier(const char *word)
{
	size_t size = strlen(word);
	for (size_t i = 0; size > 0 && i < ROWS; i++) {
		const char *library = rows[i].library;
		if (*rows[i].notify && rows[i].kind == LK__FOREIGN_PLAIN &&
		    strncasecmp(library, word, size) == 0 &&
		    (library[size] == '\0' || library[size] == ' '))
			return &rows[i];
	}
	return NULL;
}
