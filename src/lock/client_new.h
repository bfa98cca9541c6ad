/* SPDX-License-Identifier: MIT */
/* Making a client. */
#ifndef LK__LOCK_CLIENT_NEW_H
#define LK__LOCK_CLIENT_NEW_H

#include "lock/client.h"

int lk__client_new(lk_client **client_out, const struct lk_config *config, lk_error *error);

#endif
