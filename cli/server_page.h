/* SPDX-License-Identifier: MIT */
/*
 * A server's locks as a page for people: who holds what, since when and for how long, and who
 * waits. It changes nothing, and needs no script. All that comes from the server is shown as text:
 * control characters are written out (escape.h), and then what HTML takes for markup.
 */
#ifndef CLI_SERVER_PAGE_H
#define CLI_SERVER_PAGE_H

#include <stdio.h>

#include "server_look.h"
#include "web.h"

#define PAGE_ROWS 500     /* that are shown */
#define PAGE_REFRESH_S 10 /* unless the reader stops it */

/* The style sheet, at /style.css. */
extern const char server_page_style[];

/* The last look, in the order and with the filter that the URL says. */
void server_page_print(FILE *stream, struct server_look *look, const struct web_request *request);

/* How often the page is to be fetched again; 0: not at all. */
int server_page_refresh_s(const struct web_request *request);

#endif
