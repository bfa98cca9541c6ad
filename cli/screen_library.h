/* SPDX-License-Identifier: MIT */
/*
 * ncurses, loaded by `top` alone: all other commands start faster without it.
 */
#ifndef CLI_SCREEN_LIBRARY_H
#define CLI_SCREEN_LIBRARY_H

/* Functions alone, all of which the table has to name: what is a macro in one release of ncurses
 * is a function in the next, and nothing links it. Other macros are written out where they are
 * used. */
#define NCURSES_NOMACROS
#include <curses.h>

/* The functions that we call. */
#define SCREEN_FUNCTIONS(FUNCTION)                                                                 \
	FUNCTION(cbreak)                                                                           \
	FUNCTION(curs_set)                                                                         \
	FUNCTION(endwin)                                                                           \
	FUNCTION(getmaxx)                                                                          \
	FUNCTION(getmaxy)                                                                          \
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
#define SCREEN_MEMBER(name) __typeof__(name) *name;
	SCREEN_FUNCTIONS(SCREEN_MEMBER)
#undef SCREEN_MEMBER
	WINDOW **screen; /* what `stdscr` is */
};

/* 0 with all of it, or an exit code (said). */
int screen_library_load(struct screen_library *library_out);

#endif
