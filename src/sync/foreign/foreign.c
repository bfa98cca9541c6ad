/* SPDX-License-Identifier: MIT */
#include "sync/foreign/foreign.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "resp/reply.h"

/* ---- the forms of keys and values ---- */

#define HEX "0123456789abcdef"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define UUID_SIZE 36
#define UUID1_SIZE 32
#define MS_SIZE 13

/* From UUIDs' zero, in October 1582, to 1970, in units of 100 ns. */
#define UUID_EPOCH UINT64_C(0x01b21dd213814000)

/* An item of the form stands for a set of characters, and for how many. */
struct item {
	char sort;
	const char *set; /* NULL: is_whole() decides about it all */
	size_t size;     /* 0: one or more */
};

static const char *set_of(char sort)
{
	switch (sort) {
	case 'h':
		return HEX;
	case 'a':
	case 'w':
		return LETTERS DIGITS;
	case 'b':
		return LETTERS DIGITS "+/_-";
	case 'd':
	case 't':
		return DIGITS;
	case 'z':
		return "01";
	case 'e':
		return DIGITS ".";
	case 'T':
		return DIGITS "-:.TZ";
	case 'N':
		return LETTERS DIGITS "._-";
	default:
		return NULL;
	}
}

/* Reads the item behind a "%", and returns where the form continues. */
static const char *item_read(const char *form, struct item *item)
{
	*item = (struct item){.sort = *form, .set = set_of(*form)};
	form++;
	if (item->sort == 'u')
		item->size = UUID_SIZE;
	else if (item->sort == '1')
		item->size = UUID1_SIZE;
	else if (item->sort == 't')
		item->size = MS_SIZE;
	else if (item->sort == 'z')
		item->size = 1;
	while (strchr("habr", item->sort) && isdigit((unsigned char)*form))
		item->size = 10 * item->size + (size_t)(*form++ - '0');
	return form;
}

static bool is_uuid(const char *text)
{
	for (size_t i = 0; i < UUID_SIZE; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return true;
}

/* 32 hex digits, of which those of version and variant are right. */
static bool is_uuid1(const char *text)
{
	for (size_t i = 0; i < UUID1_SIZE; i++)
		if (!text[i] || !strchr(HEX, text[i]))
			return false;
	return text[12] == '1' && strchr("89ab", text[16]);
}

static bool is_raw(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!isascii((unsigned char)text[i]) || !isprint((unsigned char)text[i]))
			return true;
	return false;
}

static bool is_pickle(const char *text, size_t size)
{
	return size > 2 && (unsigned char)text[0] == 0x80 && text[size - 1] == '.';
}

/* Tells whether these bytes are what the item stands for. */
static bool is_item(const struct item *item, const char *text, size_t size)
{
	switch (item->sort) {
	case 'u':
		return is_uuid(text);
	case '1':
		return is_uuid1(text);
	case 'r':
		return is_raw(text, size);
	case 'p':
		return is_pickle(text, size);
	default:
		assert(item->set);
		for (size_t i = 0; i < size; i++)
			if (!text[i] || !strchr(item->set, text[i]))
				return false;
		return true;
	}
}

static void part_add(struct lk__form_parts *parts, char sort, const char *at, size_t size)
{
	if (parts->count < LK__FORM_PARTS)
		parts->part[parts->count++] = (struct lk__form_part){sort, at, size};
}

enum matched { NOT_HERE, NOT_FURTHER, MATCHED };

/*
 * Forms are the table's: few items, so it does not go deep. What does not match behind a star does
 * not match behind an earlier one that has more either: so each star is tried from the left, once.
 */
static enum matched match(const char *form, const char *at, const char *end,
			  struct lk__form_parts *parts)
{
	while (*form && *form != '*' && *form != '%') {
		if (at == end || *at++ != *form++)
			return NOT_HERE;
	}
	if (!*form)
		return at == end ? MATCHED : NOT_HERE;
	struct item item = {.sort = '*'};
	bool is_star = *form == '*';
	const char *next = is_star ? form + 1 : item_read(form + 1, &item);
	if (!is_star && item.sort == '*')
		return at < end && *at == '*' ? match(next, at + 1, end, parts) : NOT_HERE;
	size_t left = (size_t)(end - at), count = parts->count;
	size_t least = item.size ? item.size : !is_star;
	size_t most = item.size ? item.size : left;
	if (!*next) /* the rest */
		least = least > left ? least : left;
	for (size_t size = least; size <= most && size <= left; size++) {
		if (!is_star && !is_item(&item, at, size)) {
			if (item.set)
				return NOT_HERE; /* nor with more of them */
			continue;
		}
		parts->count = count;
		part_add(parts, item.sort, at, size);
		enum matched matched = match(next, at + size, end, parts);
		if (matched != NOT_HERE)
			return matched;
	}
	parts->count = count;
	return is_star ? NOT_FURTHER : NOT_HERE;
}

bool lk__form_match(const char *form, const char *text, size_t size, struct lk__form_parts *parts)
{
	parts->count = 0;
	return size <= LK__FORM_MOST && match(form, text, text + size, parts) == MATCHED;
}

/* How much of a form stands for itself. */
static size_t form_weight(const char *form)
{
	size_t weight = 0;
	while (*form) {
		struct item item;
		if (*form == '%')
			form = item_read(form + 1, &item);
		else
			weight += *form++ != '*';
	}
	return weight;
}

static void time_tell(int64_t s, char *out, size_t size)
{
	time_t seconds = (time_t)s;
	struct tm utc;
	if (!gmtime_r(&seconds, &utc) || strftime(out, size, "%Y-%m-%d %H:%M", &utc) == 0)
		snprintf(out, size, "?");
}

/* "<low 8><middle 4>1<high 3><clock 4><machine 12>" */
static void uuid1_tell(const char *at, char *out, size_t size)
{
	char hex[17];
	snprintf(hex, sizeof(hex), "0%.3s%.4s%.8s", at + 13, at + 8, at);
	uint64_t units = strtoull(hex, NULL, 16);
	char when[20];
	time_tell(((int64_t)units - (int64_t)UUID_EPOCH) / 10000000, when, sizeof(when));
	snprintf(out, size, "%s by machine %.12s", when, at + 20);
}

static void part_tell(const struct lk__form_part *part, char *out, size_t size)
{
	int shown = part->size < 64 ? (int)part->size : 64;
	if (part->sort == '1') {
		uuid1_tell(part->at, out, size);
	} else if (part->sort == 't' || part->sort == 'e') {
		char digits[20];
		snprintf(digits, sizeof(digits), "%.*s", shown < 19 ? shown : 19, part->at);
		time_tell(strtoll(digits, NULL, 10) / (part->sort == 't' ? 1000 : 1), out, size);
	} else if (part->sort == 'T') {
		snprintf(out, size, "%.*s", shown < 16 ? shown : 16, part->at);
		char *between = strchr(out, 'T');
		if (between)
			*between = ' ';
	} else {
		snprintf(out, size, "%.*s", shown, part->at);
	}
}

/* Writes `text` with "%T", "%t", "%e", "%1" and "%N" replaced by what they say of the first such
 * part: a time as "2026-11-27 03:12" (UTC). Cuts at `size`. */
static void form_tell(const char *text, const struct lk__form_parts *parts, char *out, size_t size)
{
	size_t used = 0;
	*out = '\0';
	for (; *text && used + 1 < size; text++) {
		const struct lk__form_part *part = NULL;
		for (size_t i = 0; *text == '%' && !part && i < parts->count; i++)
			if (parts->part[i].sort == text[1])
				part = &parts->part[i];
		if (part) {
			part_tell(part, out + used, size - used);
			used += strlen(out + used);
			text++;
		} else {
			out[used++] = *text;
			out[used] = '\0';
		}
	}
}

/* The n-th star's part, from 1; NULL: there is none. */
static const struct lk__form_part *star(const struct lk__form_parts *parts, int n)
{
	for (size_t i = 0; i < parts->count; i++)
		if (parts->part[i].sort == '*' && --n == 0)
			return &parts->part[i];
	return NULL;
}

/* Writes `text` with "{1}" … replaced by what the stars of the key stood for. NULL: no memory. */
static char *form_fill(const char *text, const struct lk__form_parts *parts, size_t *size_out)
{
	char *made = malloc(strlen(text) / 3 * LK__FORM_MOST + strlen(text) + 1), *end = made;
	if (!made)
		return NULL;
	while (*text) {
		bool refers = text[0] == '{' && isdigit((unsigned char)text[1]) && text[2] == '}';
		const struct lk__form_part *part = refers ? star(parts, text[1] - '0') : NULL;
		if (part) {
			end = mempcpy(end, part->at, part->size);
			text += 3;
		} else {
			*end++ = *text++;
		}
	}
	*end = '\0';
	*size_out = (size_t)(end - made);
	return made;
}

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
	size_t weight = form_weight(row->key) + form_weight(row->value);
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
			form_tell(rows[i].told, &parts, told, sizeof(told));
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

/* A row of a plain lock with a form of notice, by the first word of its library's name; NULL: there
 * is none. */
static const struct lk__foreign *foreign_notifier(const char *word)
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

/* ---- notices to other libraries ---- */

/* Notifies another library's waiters of a release. */

#define WORDS 4
#define KEEP_MAX_MS 86400000

/* Takes a text apart at its spaces: how many words, or 0 when there are too many. */
static size_t split(char *text, char *words[WORDS])
{
	size_t count = 0;
	char *rest = NULL;
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count == WORDS)
			return 0;
		words[count++] = word;
	}
	return count;
}

/* Fills in what the text says, with the parts of the key. False: it is of no known form. */
static enum lk__notify_made fill(struct lk__notify *notify, const char *text,
				 const struct lk__form_parts *parts)
{
	char *words[WORDS];
	char *copy = strdup(text);
	if (!copy)
		return LK__NOTIFY_NO_MEMORY;
	size_t count = split(copy, words);
	bool pushes = count == 4 && strcmp(words[0], "push") == 0 &&
		      lk__number_read(words[3], 1, KEEP_MAX_MS, &notify->keep_ms);
	bool publishes = count == 3 && strcmp(words[0], "publish") == 0;
	if (!pushes && !publishes) {
		free(copy);
		return LK__NOTIFY_UNKNOWN;
	}
	notify->target = form_fill(words[1], parts, &notify->target_size);
	notify->message = form_fill(words[2], parts, &notify->message_size);
	free(copy);
	return notify->target && notify->message ? LK__NOTIFY_MADE : LK__NOTIFY_NO_MEMORY;
}

/* Named `text`, it does what `how` says. */
static enum lk__notify_made make(struct lk__notify **notify_out, const char *text, const char *how,
				 const struct lk__form_parts *parts)
{
	struct lk__notify *notify = calloc(1, sizeof(*notify));
	if (!notify)
		return LK__NOTIFY_NO_MEMORY;
	notify->text = strdup(text);
	enum lk__notify_made made = notify->text ? fill(notify, how, parts) : LK__NOTIFY_NO_MEMORY;
	if (made == LK__NOTIFY_MADE)
		*notify_out = notify;
	else
		lk__notify_free(notify);
	return made;
}

enum lk__notify_made lk__notify_new(struct lk__notify **notify_out, const char *text,
				    const char *key, size_t key_size, const char **form_out)
{
	const struct lk__foreign *row = foreign_notifier(text);
	struct lk__form_parts parts;
	const char *form = row ? row->key : "*";
	*form_out = form;
	if (!lk__form_match(form, key, key_size, &parts))
		return LK__NOTIFY_OTHER_KEY;
	return make(notify_out, text, row ? row->notify : text, &parts);
}

enum lk__notify_made lk__notify_of(struct lk__notify **notify_out, const struct lk__foreign *row,
				   const char *key, size_t key_size)
{
	struct lk__form_parts parts;
	if (!lk__form_match(row->key, key, key_size, &parts))
		return LK__NOTIFY_OTHER_KEY;
	return make(notify_out, row->library, row->notify, &parts);
}

void lk__notify_free(struct lk__notify *notify)
{
	if (!notify)
		return;
	free(notify->text);
	free(notify->target);
	free(notify->message);
	free(notify);
}

void lk__notify_words(struct lk__words *words, const struct lk__notify *notify)
{
	lk__words_text(words, notify->keep_ms ? "push" : "publish");
	lk__words_add(words, notify->target, notify->target_size);
	lk__words_add(words, notify->message, notify->message_size);
	lk__words_number(words, notify->keep_ms);
}
