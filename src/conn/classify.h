/* Error replies: what a server's refusal means. One table. */
#ifndef LK__CONN_CLASSIFY_H
#define LK__CONN_CLASSIFY_H

/*
 * The code for an error reply's text. LK_EMAYBEHELD for one that is not known: the command may
 * have run. NOSCRIPT is LK_EUNAVAILABLE: nothing ran.
 */
int lk__classify(const char *text);

#endif
