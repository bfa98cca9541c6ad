/* SPDX-License-Identifier: MIT */
#include "sync/term.h"

#include <assert.h>

#include "base/clock.h"

void lk__term_begin(struct lk__term *term, int64_t now_ns)
{
	term->begun_ns = now_ns;
	term->handovers = 0;
}

enum lk__pass lk__term_pass(struct lk__term *term, const struct lk__passing *passing)
{
	/* Not to the last moment: the hold that is begun now belongs to the term as well. */
	bool over = passing->now_ns - term->begun_ns >= passing->term_ns / 10 * 9 ||
		    term->handovers >= LK__TERM_HANDOVERS_MAX;
	int64_t third_ns = passing->lease_ms * LK__MS / 3;
	bool short_lease = passing->valid_until_ns - passing->now_ns < third_ns;
	assert(term->handovers <= LK__TERM_HANDOVERS_MAX);
	if (!passing->waiting || passing->doubt || over)
		return LK__PASS_WIRE;
	if (passing->needs_server) {
		term->handovers++;
		return LK__PASS_EXCHANGE;
	}
	if (short_lease)
		return LK__PASS_WIRE;
	term->handovers++;
	return LK__PASS_MEMORY;
}

int64_t lk__term_hold_off(int64_t hold_off_ns, int64_t now_ns, int64_t others)
{
	return others > 0 && hold_off_ns > 0 ? now_ns + hold_off_ns : 0;
}
