/* SPDX-License-Identifier: MIT */
#include "server_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "escape.h"

#define NAME_SHOWN 200 /* bytes of a name: it may have 64 KiB */

const char server_page_style[] =
	":root{color-scheme:light dark;--line:#8884;--dim:#777;--bad:#c0392b;--warn:#b9770e}\n"
	"body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:80rem}\n"
	"h1{font-size:1.3rem;margin:0;overflow-wrap:anywhere}p{margin:.4rem 0}\n"
	"nav{margin:.5rem 0;display:flex;flex-wrap:wrap;gap:.2rem .8rem;align-items:center}\n"
	"nav b{border-bottom:2px solid}input,button{font:inherit;padding:.2rem .4rem}\n"
	"table{border-collapse:collapse;width:100%;margin:.6rem 0}\n"
	"th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;"
	"border-bottom:1px solid var(--line)}\n"
	"th{font-weight:600;white-space:nowrap}td.n{white-space:nowrap}\n"
	"td:not(.n){overflow-wrap:anywhere;min-width:8rem}\n"
	"small,.dim{color:var(--dim)}.error{color:var(--bad)}.warning{color:var(--warn)}\n"
	"li{margin:.3rem 0}summary{cursor:pointer}\n"
	"@media(max-width:44rem){thead{display:none}tr{display:block;padding:.4rem 0;"
	"border-bottom:1px solid var(--line)}\n"
	"td:nth-child(n){display:block;border:0;padding:.1rem "
	"0;white-space:normal}td:first-child{font-weight:600}\n"
	"td[data-is]::before{content:attr(data-is) ': ';color:var(--dim)}td:empty{display:none}}\n";

static const struct {
	const char *word, *shown;
	enum row_order order;
} orders[] = {
	{"name", "name", BY_NAME},          {"held", "held longest", BY_SINCE},
	{"ttl", "lease left", BY_TTL},      {"waiting", "who waits", BY_WAITERS},
	{"changes", "changes", BY_CHANGES},
};

/* ---- text ---- */

static void put_markup(FILE *stream, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		switch (text[i]) {
		case '&':
			fputs("&amp;", stream);
			break;
		case '<':
			fputs("&lt;", stream);
			break;
		case '>':
			fputs("&gt;", stream);
			break;
		case '"':
			fputs("&quot;", stream);
			break;
		case '\'':
			fputs("&#39;", stream);
			break;
		default:
			putc(text[i], stream);
		}
	}
}

static void put_bytes(FILE *stream, const void *bytes, size_t size)
{
	char *text = NULL;
	size_t text_size = 0;
	FILE *escaped = open_memstream(&text, &text_size);
	if (!escaped)
		return;
	escape_print(escaped, bytes, size);
	if (fclose(escaped) == 0)
		put_markup(stream, text, text_size);
	free(text);
}

static void put_text(FILE *stream, const char *text)
{
	put_bytes(stream, text, strlen(text));
}

/* A word of a link's argument. */
static void put_encoded(FILE *stream, const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		fprintf(stream,
			(*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') ? "%c" : "%%%02X",
			*at);
}

static void put_duration(FILE *stream, int64_t ms)
{
	int64_t s = ms / 1000;
	if (s < 60)
		fprintf(stream, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
	else if (s < 3600)
		fprintf(stream, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
	else
		fprintf(stream, "%" PRId64 " h %02" PRId64 " min", s / 3600, s % 3600 / 60);
}

/* ---- links ---- */

/* The page with one argument changed. */
static void put_link(FILE *stream, const struct web_request *request, const char *shown, int here)
{
	const char *const names[] = {"sort", "kind", "q", "refresh"};
	const char *const values[] = {request->sort, request->kind, request->q, request->refresh};
	const char *before = "?";
	if (here) {
		fprintf(stream, "<b>%s</b>\n", shown);
		return;
	}
	fputs("<a href=\"/", stream);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!*values[i])
			continue;
		fprintf(stream, "%s%s=", before, names[i]);
		put_encoded(stream, values[i]);
		before = "&amp;";
	}
	fprintf(stream, "\">%s</a>\n", shown);
}

static size_t order_of(const struct web_request *request)
{
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (strcmp(request->sort, orders[i].word) == 0)
			return i;
	return 0;
}

static void put_orders(FILE *stream, const struct web_request *request)
{
	fputs("<nav><span class=dim>sorted by</span>\n", stream);
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		struct web_request other = *request;
		other.sort = orders[i].word;
		put_link(stream, &other, orders[i].shown, i == order_of(request));
	}
	fputs("</nav>\n", stream);
}

/* Tells whether no row before this one is of its kind; they are sorted by name, so all are looked
 * at. */
static int kind_is_new(const struct lock_rows *rows, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(rows->rows[i].type, rows->rows[index].type) == 0)
			return 0;
	return 1;
}

/* The kinds that are there: a dozen at most. */
static void put_kinds(FILE *stream, const struct lock_rows *rows, const struct web_request *request)
{
	struct web_request other = *request;
	fputs("<nav><span class=dim>only</span>\n", stream);
	other.kind = "";
	put_link(stream, &other, "all", !*request->kind);
	other.kind = "waiting";
	put_link(stream, &other, "what is waited for", strcmp(request->kind, "waiting") == 0);
	for (size_t i = 0; i < rows->count; i++) {
		if (!kind_is_new(rows, i))
			continue;
		other.kind = rows->rows[i].type;
		put_link(stream, &other, other.kind, strcmp(request->kind, other.kind) == 0);
	}
	fputs("<form><input name=q aria-label=\"part of a name or holder\" placeholder=\"name or "
	      "holder\" value=\"",
	      stream);
	put_text(stream, request->q);
	fputs("\"> <button>find</button></form></nav>\n", stream);
}

static int row_is_shown(const struct lock_row *row, const struct web_request *request)
{
	const char *kind = request->kind, *q = request->q;
	if (strcmp(kind, "waiting") == 0 ? row->waiters == 0
					 : *kind && strcmp(kind, row->type) != 0)
		return 0;
	return !*q || memmem(row->name, row->name_size, q, strlen(q)) || strstr(row->who, q) ||
	       strstr(row->owner, q);
}

/* ---- the table ---- */

static void put_holder(FILE *stream, const struct lock_row *row)
{
	fputs("<td data-is=\"held by\">", stream);
	put_text(stream, *row->who ? row->who : row->owner);
	if (row->holders > 1)
		fprintf(stream, " <small>and %zu more</small>", row->holders - 1);
	if (row->count >= 0)
		fprintf(stream, "<small>%s%" PRId64 " left</small>", row->holders ? "; " : "",
			row->count);
	fputs("</td>", stream);
}

static void put_row(FILE *stream, const struct lock_row *row, int64_t now_ns)
{
	fputs("<tr><td>", stream);
	put_bytes(stream, row->name, row->name_size < NAME_SHOWN ? row->name_size : NAME_SHOWN);
	fprintf(stream, "%s</td><td class=n data-is=kind>%s</td>",
		row->name_size > NAME_SHOWN ? "…" : "", row->type);
	put_holder(stream, row);
	fputs("<td class=n data-is=\"seen for\">", stream);
	if (row->holders)
		put_duration(stream, (now_ns - row->since_ns) / NS_PER_MS);
	fputs("</td><td class=n data-is=\"lease left\">", stream);
	if (row->ttl_ms >= 0)
		put_duration(stream, row->ttl_ms);
	else if (row->holders)
		fputs("<span class=warning>no end</span>", stream);
	fputs("</td><td data-is=waiting>", stream);
	if (row->waiters > 0) {
		fprintf(stream, "%" PRId64 ", for at least ", row->waiters);
		put_duration(stream, (now_ns - row->waiting_ns) / NS_PER_MS);
		if (*row->next)
			fputs(": ", stream);
		put_text(stream, row->next);
	}
	fputs("</td></tr>\n", stream);
}

static void put_table(FILE *stream, const struct lock_rows *rows, const struct web_request *request)
{
	size_t found = 0;
	int64_t now_ns = clock_now_ns();
	fputs("<table><thead><tr><th>Name<th>Kind<th>Held by<th>Seen for<th>Lease left<th>Waiting"
	      "</thead><tbody>\n",
	      stream);
	for (size_t i = 0; i < rows->count; i++) {
		if (!row_is_shown(&rows->rows[i], request))
			continue;
		if (found++ < PAGE_ROWS)
			put_row(stream, &rows->rows[i], now_ns);
	}
	fputs("</tbody></table>\n", stream);
	if (found == 0)
		fputs("<p>No lock is there that this shows.</p>\n", stream);
	if (found > PAGE_ROWS)
		fprintf(stream, "<p>%zu more are not shown: find them by a part of a name.</p>\n",
			found - PAGE_ROWS);
	if (rows->partial)
		fputs("<p class=warning>There are more locks than were looked at (--limit).</p>\n",
		      stream);
}

static void put_findings(FILE *stream, const lk_doctor *doctor)
{
	static const char *const levels[] = {"note", "warning", "error"};
	const lk_finding *finding;
	if (!doctor)
		return;
	fputs("<h2>What the doctor finds</h2><p>", stream);
	put_text(stream, lk_doctor_promise(doctor));
	fputs(".</p><ul>\n", stream);
	for (size_t i = 0; (finding = lk_doctor_finding(doctor, i)); i++) {
		const char *level = levels[finding->severity];
		fprintf(stream, "<li><b class=%s>%s: %s</b> ", level, level, finding->id);
		put_text(stream, finding->detail);
		fputs(". ", stream);
		put_text(stream, finding->meaning);
		fputs(" <span class=dim>Fix: ", stream);
		put_text(stream, finding->remedy);
		fputs("</span></li>\n", stream);
	}
	fputs("</ul>\n", stream);
}

/* ---- the page ---- */

int server_page_refresh_s(const struct web_request *request)
{
	return strcmp(request->refresh, "no") == 0 ? 0 : PAGE_REFRESH_S;
}

static void put_head(FILE *stream, struct server_look *look, const struct web_request *request)
{
	char at[32] = "";
	struct server_sums sums;
	struct web_request other = *request;
	int stands = server_page_refresh_s(request) == 0;
	time_t now = time(NULL) - (time_t)((clock_now_ns() - look->looked_ns) / 1000000000);
	struct tm local;
	if (localtime_r(&now, &local))
		strftime(at, sizeof(at), "%H:%M:%S %Z", &local);
	fputs("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
	      "content=\"width=device-width,initial-scale=1\"><title>Locks</title>"
	      "<link rel=stylesheet href=/style.css>\n<h1>Locks on ",
	      stream);
	put_text(stream, lk_client_node(look->client));
	server_sum(look, &sums);
	fprintf(stream, "</h1>\n<p>%zu locks and counters, %" PRId64 " waiting, as of %s. ",
		look->rows.count, sums.waiting, at);
	other.refresh = stands ? "" : "no";
	put_link(stream, &other, stands ? "refresh this page by itself" : "stop refreshing", 0);
	fputs("</p>\n", stream);
}

void server_page_print(FILE *stream, struct server_look *look, const struct web_request *request)
{
	put_head(stream, look, request);
	if (look->error.code) {
		fputs("<p class=error>The server could not be asked: ", stream);
		put_text(stream, look->error.message[0] ? look->error.message
							: lk_error_text(look->error.code));
		fputs("</p>\n<p>What follows is older.</p>\n", stream);
	}
	lock_rows_sort(&look->rows, orders[order_of(request)].order);
	put_orders(stream, request);
	put_kinds(stream, &look->rows, request);
	put_table(stream, &look->rows, request);
	put_findings(stream, look->doctor);
	fputs("<p class=dim>\"Seen for\" counts from when this page's program first saw the hold. "
	      "The page changes nothing; lockkeeper break does.</p></html>\n",
	      stream);
}
