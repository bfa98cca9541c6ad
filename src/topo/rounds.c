/* SPDX-License-Identifier: MIT */
#include "topo/rounds.h"

#include "base/clock.h"
#include "base/door.h"

#define WATCH_NS (1000 * LK__MS)  /* the most between rounds */
#define GAP_NS (5 * LK__MS)       /* the least, where somebody waits, */
#define SUSPECT_NS (50 * LK__MS)  /* and for a suspicion alone */
#define LATER_NS (250 * LK__MS)   /* the most until one that is not urgent */
#define FRESH_NS (100 * LK__MS)   /* a new connection may use a round younger than this */
#define SPREAD_NS (10 * LK__MS)   /* of clients that begin for the same reason */
#define PROBE_NS (100 * LK__MS)   /* between questions while a master is missed, */
#define MISSED_NS (6000 * LK__MS) /* for so long after its connection failed: an attempt and more */

static int64_t random_part_ns(int64_t most_ns)
{
	uint32_t random = 0;
	lk__random_bytes(&random, sizeof(random)); /* without it: as early as can be */
	return most_ns * (int64_t)(random % 1024) / 1024;
}

static bool is_missing(const struct lk__rounds *rounds, int64_t now_ns)
{
	return now_ns < rounds->missed_until_ns;
}

/* Others that miss a master do so for the same reason. */
static int64_t soon_ns(const struct lk__rounds *rounds, int64_t now_ns, int64_t gap_ns)
{
	int64_t spread_ns = is_missing(rounds, now_ns) ? random_part_ns(SPREAD_NS) : 0;
	return lk__later(now_ns + spread_ns, rounds->begun_ns + gap_ns);
}

static int64_t later_ns(int64_t now_ns)
{
	return now_ns + LATER_NS / 2 + random_part_ns(LATER_NS / 2);
}

/* A master was missed by a question that each client asks at a time of its own. */
static int64_t news_ns(const struct lk__rounds *rounds, int64_t now_ns)
{
	return is_missing(rounds, now_ns) ? lk__later(now_ns, rounds->begun_ns + GAP_NS)
					  : later_ns(now_ns);
}

static int64_t want_ns(const struct lk__rounds *rounds, enum lk__want why, int64_t now_ns)
{
	switch (why) {
	case LK__WANT_AWAITED:
	case LK__WANT_HEARD:
		return soon_ns(rounds, now_ns, GAP_NS);
	case LK__WANT_SUSPECTED:
		return soon_ns(rounds, now_ns, SUSPECT_NS);
	case LK__WANT_NEWS:
		return news_ns(rounds, now_ns);
	case LK__WANT_LATER:
		break;
	}
	return later_ns(now_ns);
}

bool lk__rounds_want(struct lk__rounds *rounds, enum lk__want why, int64_t now_ns)
{
	if (why == LK__WANT_SUSPECTED || why == LK__WANT_HEARD)
		rounds->missed_until_ns = now_ns + MISSED_NS;
	int64_t begin_ns = want_ns(rounds, why, now_ns);
	if (begin_ns >= lk__rounds_wanted_ns(rounds))
		return false;
	rounds->wanted = rounds->round + 1;
	rounds->wanted_ns = begin_ns;
	return true;
}

int64_t lk__rounds_wanted_ns(const struct lk__rounds *rounds)
{
	return rounds->wanted > rounds->round ? rounds->wanted_ns : LK__NEVER;
}

bool lk__rounds_fresh(const struct lk__rounds *rounds, int64_t now_ns)
{
	return lk__rounds_wanted_ns(rounds) == LK__NEVER && !is_missing(rounds, now_ns) &&
	       now_ns < rounds->begun_ns + FRESH_NS;
}

void lk__rounds_begin(struct lk__rounds *rounds, int64_t now_ns)
{
	rounds->round++;
	rounds->begun_ns = now_ns;
	rounds->watch_ns = now_ns + WATCH_NS - random_part_ns(WATCH_NS / 4);
}

int64_t lk__rounds_probe_ns(const struct lk__rounds *rounds, int64_t now_ns)
{
	return is_missing(rounds, now_ns) ? rounds->probe_ns : LK__NEVER;
}

void lk__rounds_probed(struct lk__rounds *rounds, int64_t now_ns)
{
	rounds->probe_ns = now_ns + 3 * PROBE_NS / 4 + random_part_ns(PROBE_NS / 2);
}
