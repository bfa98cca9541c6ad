/* SPDX-License-Identifier: MIT */
/* The library's reports in the words of somebody who types commands. */
#ifndef CLI_ERROR_TEXT_H
#define CLI_ERROR_TEXT_H

/* Rewrites a message in place, and never makes it longer: without the names of C functions. */
void error_text_plain(char *text);

#endif
