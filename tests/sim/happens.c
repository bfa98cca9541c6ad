#include "happens.h"

#include <string.h>

#define NUMBERS_MAX 65536 /* what comes behind happens always */

static bool out[NUMBERS_MAX], before[NUMBERS_MAX];
static unsigned happened, left_out;

bool sim_happens(void)
{
	unsigned number = happened++;
	bool leaves = number < NUMBERS_MAX && out[number];
	left_out += leaves;
	return !leaves;
}

void sim_happens_begin(void)
{
	happened = left_out = 0;
}

unsigned sim_happened(void)
{
	return happened;
}

unsigned sim_left_out(void)
{
	return left_out;
}

bool sim_leave_out(unsigned first, unsigned count)
{
	bool changed = false;
	memcpy(before, out, sizeof(out));
	for (unsigned i = first; i < first + count && i < NUMBERS_MAX; i++) {
		changed |= !out[i];
		out[i] = true;
	}
	return changed;
}

void sim_put_back(void)
{
	memcpy(out, before, sizeof(out));
}
