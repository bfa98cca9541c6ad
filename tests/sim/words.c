#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua.h"

#define SWAPPED 25 /* in 1,000 keys: another one stands there, often of another type */
#define JUNK 15    /* in 1,000 arguments of scripts */

static const char *const rows[] = {
#define ORDER(row) row,
#include "orders.def"
#undef ORDER
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t *state;
static int64_t now;

uint64_t order_random(uint64_t *random, uint64_t below)
{
	uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static bool chance(unsigned in_1000)
{
	return order_random(state, 1000) < in_1000;
}

/* ---- words ---- */

/* One of those that blanks separate; "-" is the empty word. */
static size_t one_of(char *out, const char *choices)
{
	size_t count = 1;
	for (const char *at = choices; *at; at++)
		count += *at == ' ';
	for (uint64_t skip = order_random(state, count); skip > 0; skip--)
		choices = strchr(choices, ' ') + 1;
	size_t size = strcspn(choices, " ");
	if (size == 1 && *choices == '-')
		return 0;
	memcpy(out, choices, size);
	return size;
}

static size_t number(char *out, int64_t value)
{
	char text[32];
	int size = snprintf(text, sizeof(text), "%" PRId64, value);
	memcpy(out, text, (size_t)size);
	return (size_t)size;
}

/* Of `zset` the order is told, so no script may put times there: they differ by a ms. */
#define KEYS                                                                                       \
	"lock:1 lock:2 plain rw writers count free permits latch fair queue scores ours hash "     \
	"list:1 text token:1 checked rec:1"

static const struct {
	const char *name, *choices;
} lists[] = {
	{"owner", "id:1:1 id:1:2 id:2:1 id:3:1"},
	{"giver", "- - id:1:1 id:2:1"},
	{"writing", "- id:1:1:write id:2:1:write"},
	{"id", "id:1 id:2 id:3"},
	{"lock", "lock:1 lock:1 lock:2"},
	{"channel", "channel:1 channel:1 channel:2"},
	{"lease", "20000 40000 600000 20000 30000 20000 50000 20000 20000 60000 20000 1"},
	{"how", "0 0 1 2"},
	{"bit", "0 1"},
	{"counts", "0 5000 60000"},
	{"side", "read write"},
	{"record", "rec:1 rec:2 rec:3"},
	{"number", "1 2 3 5 0"},
	{"few", "1 2 3"},
	{"change", "-2 -1 0 1 2 4"},
	{"ttl", "0 0 20000 50000"},
	{"setting", "new all add"},
	{"nonce", "ab12 77"},
	{"field", "a b c d 7 id:1:1"},
	{"score", "1 2 3 -4 2.5 1e3 inf"},
	{"any", KEYS " zset"},
	{"other", KEYS},
	{"fourteen", "ABCDEFGHIJKLMN abcdefghijklmn"},
	{"hexadecimal", "4142434445464748494a4b4c4d4e0000 4142434445464748494a4b4c4d4e0001"},
	{"junk", "- x -1 99999999999999999999 1.5 mode"},
};

/* Those that are not one of a list. */
static size_t drawn(char *out, const char *name, size_t size)
{
	if (strncmp(name, "deadline", size) == 0)
		return number(out, chance(30) ? 1 : now + 60000000);
	if (strncmp(name, "since", size) == 0)
		return number(out, now - (int64_t)order_random(state, 9) * 1000000);
	if (strncmp(name, "permit", size) == 0) {
		memcpy(out, "ABCDEFGHIJKLMN\0", 15);
		out[15] = (char)order_random(state, 3);
		return 16;
	}
	fprintf(stderr, "no word $%s\n", name);
	abort();
}

static size_t draw(char *out, const char *name, size_t size)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (strlen(lists[i].name) == size && strncmp(lists[i].name, name, size) == 0)
			return one_of(out, lists[i].choices);
	return drawn(out, name, size);
}

/* A template's word, with what is drawn in it. Returns its size. */
static size_t expand(char *out, const char *word, size_t size)
{
	size_t used = 0;
	for (size_t i = 0; i < size;) {
		if (word[i] != '$') {
			out[used++] = word[i++];
			continue;
		}
		size_t name = strspn(&word[i + 1], "abcdefghijklmnopqrstuvwxyz");
		used += draw(out + used, &word[i + 1], name);
		i += 1 + name;
	}
	return used;
}

/* ---- orders ---- */

struct drawing {
	struct order *order;
	char *out;
};

static void put(struct drawing *drawing, const char *word, size_t size)
{
	struct order *order = drawing->order;
	size_t used = expand(drawing->out, word, size);
	order->words[order->count] = drawing->out;
	order->sizes[order->count++] = used;
	drawing->out += used;
	*drawing->out++ = '\0';
}

/* One that publishes has a text for each kind of messages. */
static int script_of(const char *name, size_t size)
{
	int variant = chance(700) ? 0 : 1 + (int)order_random(state, 2);
	for (int i = 0; i < LK__SCRIPT_COUNT; i++) {
		if (strlen(lk__scripts[i].name) != size ||
		    strncmp(lk__scripts[i].name, name, size) != 0)
			continue;
		int other = variant * LK__SCRIPT_COUNT + i;
		return sim_script_name(other) ? other : i;
	}
	fprintf(stderr, "no script %s\n", name);
	abort();
}

/* EVALSHA, with the keys before the bar counted. */
static const char *draw_script(struct drawing *drawing, const char *row)
{
	size_t name = strcspn(row, " "), keys = 0;
	const char *bar = strchr(row, '|');
	char count[8];
	for (const char *at = row; at < bar; at++)
		keys += *at == ' ';
	snprintf(count, sizeof(count), "%zu", keys - 1);
	put(drawing, "EVALSHA", 7);
	put(drawing, sim_script_sha1(script_of(row + 1, name - 1)), 40);
	put(drawing, count, strlen(count));
	for (row += name + 1; row < bar; row += strcspn(row, " ") + 1)
		if (chance(SWAPPED))
			put(drawing, "$other", 6);
		else
			put(drawing, row, strcspn(row, " "));
	return bar + 1 + (bar[1] == ' ');
}

static void draw_words(struct drawing *drawing, const char *row, bool script)
{
	while (*row) {
		size_t size = strcspn(row, " ");
		if (script && chance(JUNK))
			put(drawing, "$junk", 5);
		else
			put(drawing, row, size);
		row += size + (row[size] == ' ');
	}
}

void order_draw(struct order *order, uint64_t *random, int64_t now_us)
{
	struct drawing drawing = {order, order->bytes};
	state = random;
	now = now_us;
	const char *row = rows[order_random(state, ROWS)];
	bool script = row[0] == '@';
	order->count = 0;
	order->listens = strstr(row, "SUBSCRIBE") != NULL;
	order->unordered = strncmp(row, "HGETALL", 7) == 0 || strncmp(row, "HSCAN", 5) == 0;
	if (script)
		row = draw_script(&drawing, row);
	draw_words(&drawing, row, script);
}

const char *order_missing(void)
{
	for (int i = 0; i < LK__SCRIPT_COUNT; i++) {
		const char *name = lk__scripts[i].name;
		size_t row = 0;
		while (row < ROWS &&
		       (rows[row][0] != '@' || strncmp(rows[row] + 1, name, strlen(name)) != 0 ||
			rows[row][1 + strlen(name)] != ' '))
			row++;
		if (row == ROWS)
			return name;
	}
	return NULL;
}
