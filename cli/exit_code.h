/* SPDX-License-Identifier: MIT */
/* The command's exit codes: timeout(1)'s, and one of ours for a lock that was lost. */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

enum exit_code {
	EXIT_VACANT = 1,           /* leader: nobody leads */
	EXIT_FREE = 3,             /* show: nobody holds it; sem show: there is none */
	EXIT_WARNINGS = 4,         /* doctor: its worst finding is a warning, */
	EXIT_ERRORS = 5,           /* or an error */
	EXIT_LOST = 123,           /* lost while the command ran; not the owner; a token is stale */
	EXIT_NOT_ACQUIRED = 124,   /* another owner holds the lock */
	EXIT_TROUBLE = 125,        /* wrong use, no answer from the server, our own failure */
	EXIT_CANNOT_EXECUTE = 126, /* the command was found and cannot be executed */
	EXIT_NOT_FOUND = 127,      /* the command was not found */
	EXIT_SIGNAL_BASE = 128,    /* added to the number of the signal that ended it */
};

#endif
