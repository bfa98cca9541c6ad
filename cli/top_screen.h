/* SPDX-License-Identifier: MIT */
/* The screen of `top`: drawn by ncurses; what stands in Redis is escaped before. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "lock_rows.h"

struct top_view {
	enum row_order order;
	char filter[64]; /* only names and owners that contain it */
	size_t selected; /* among the rows that are shown */
	const char *node;
	char notice[256]; /* the line at the bottom; "" */
	int typing;       /* the filter is being typed */
};

/* 0, or an exit code (said). */
int top_screen_begin(void);
void top_screen_end(void);

/* The signal that asks us to end, or 0; the next one ends the process at once. */
int top_screen_signal(void);

/* Waits up to `limit_ms` for a key: its code, or -1. */
int top_screen_key(int limit_ms);

/* Draws all, brings `view->selected` within what is shown; the row that is selected, or NULL. */
const struct lock_row *top_screen_draw(const struct lock_rows *rows, struct top_view *view);

#endif
