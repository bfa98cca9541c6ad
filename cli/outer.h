/* SPDX-License-Identifier: MIT */
/*
 * The runs that this process is inside of. LOCKKEEPER_OUTER has the ids of their clients, the
 * innermost first, with commas between them. An owner's field begins with its client's id, so the
 * server that is waited for says itself whether one of them still holds the name there: another
 * server, database or prefix, and a run that has ended, hold nothing of that name.
 */
#ifndef CLI_OUTER_H
#define CLI_OUTER_H

#include <stddef.h>

#include <lockkeeper.h>

#define OUTER_IDS_MAX 64 /* the outermost are left out */
#define OUTER_TEXT_SIZE (OUTER_IDS_MAX * 37 + 1)

/* 1 when there are any. */
int outer_exist(void);

/* The variable for a command that runs inside of these clients too. */
void outer_text(lk_client *const *clients, size_t count, char text_out[OUTER_TEXT_SIZE]);

/* 1 when a wait for the name is one for an outer run: it is among the holders, or has all permits
 * that there are. 0 also where the server does not answer. Asks it. */
int outer_holds(lk_client *client, const char *name);

#endif
