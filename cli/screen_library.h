/* SPDX-License-Identifier: MIT */
/*
 * ncurses, loaded by `top` alone: all other commands start faster without it.
 */
#ifndef CLI_SCREEN_LIBRARY_H
#define CLI_SCREEN_LIBRARY_H

#include <curses.h>

/* What we call. Its macros over these are written out where they are used. */
#define SCREEN_FUNCTIONS(FUNCTION)                                                                 \
	FUNCTION(cbreak)                                                                           \
	FUNCTION(curs_set)                                                                         \
	FUNCTION(endwin)                                                                           \
	FUNCTION(keypad)                                                                           \
	FUNCTION(newterm)                                                                          \
	FUNCTION(noecho)                                                                           \
	FUNCTION(waddnstr)                                                                         \
	FUNCTION(wattr_off)                                                                        \
	FUNCTION(wattr_on)                                                                         \
	FUNCTION(werase)                                                                           \
	FUNCTION(wgetch)                                                                           \
	FUNCTION(whline)                                                                           \
	FUNCTION(wmove)                                                                            \
	FUNCTION(wrefresh)                                                                         \
	FUNCTION(wtimeout)

struct screen_library {
#define SCREEN_MEMBER(name) __typeof__((name)) *name;
	SCREEN_FUNCTIONS(SCREEN_MEMBER)
#undef SCREEN_MEMBER
	WINDOW **screen; /* what `stdscr` is */
};

/* 0 with all of it, or an exit code (said). */
int screen_library_load(struct screen_library *library_out);

#endif
