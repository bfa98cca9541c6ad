/* SPDX-License-Identifier: MIT */
/*
 * Which descriptors the library has open, so that a forked child can close its copies of them.
 *
 * The door notes each that it opens, and forgets it before it closes it. A child finds what its
 * parent noted, and closes only what is still that: a program may have closed all descriptors, and
 * have opened its own under the same numbers. What cannot be told apart stays open.
 */
#ifndef LK__BASE_DESCRIPTORS_H
#define LK__BASE_DESCRIPTORS_H

/* After it was opened; -1 is fine. Returns it. */
int lk__fd_note(int fd);

/* Before it is closed, or because a child may use it as well. */
void lk__fd_forget(int fd);

/* In a forked child: closes its copies of what its parent had noted. */
void lk__fds_drop_inherited(void);

#endif
