/* SPDX-License-Identifier: MIT */
/*
 * Answers of a server that must not be asked: it is not a master any more, or, in a cluster,
 * another node has the key. In both cases the server has not run the command.
 */
#ifndef LK__CONN_REDIRECT_H
#define LK__CONN_REDIRECT_H

#include "conn/conn.h"

/*
 * A master that has become a replica has refused this. Its connection breaks as soon as it has
 * answered what was sent behind that, and is made anew, to the next master. Unless an earlier copy
 * may have run, the request counts as never sent, and true: it waits in the connection for that
 * master. Without a finder that is whoever answers at the address of its name by then, and is asked
 * once more: false where that is a replica as well. `failures`: of the connection, before this
 * answer.
 */
bool lk__conn_demoted(struct lk__conn *conn, struct lk__request *request, const redisReply *reply,
		      unsigned failures);

/* After each read of one that drains: it is left when it has answered all, or takes too long. */
void lk__conn_drained(struct lk__conn *conn);

/* Another node has the key: true, and the request is done, to be followed; or it waits in the
 * connection until that node is known; or it is done. Of a batch: the first answer. */
bool lk__conn_redirected(struct lk__conn *conn, struct lk__request *request,
			 const redisReply *reply, struct lk__deferred *after);

/*
 * Some of its keys have moved, and some have not: it has not run, and is sent again after a pause,
 * if it has the patience, and the time. Resume: what waits for that is in flight again.
 */
bool lk__conn_postponed(struct lk__conn *conn, struct lk__request *request,
			const redisReply *reply);
void lk__conn_resume(struct lk__conn *conn);

/* Not done for that reason, where the request has no patience; or, of a batch, because some of its
 * keys may have moved. */
bool lk__request_is_parted(const struct lk__request *request);

/* Sends a request that is done, and was redirected, to its new node: true, and it is not done. The
 * owner calls this before it reads anything from the request, and holds no mutex. */
bool lk__conn_follow(struct lk__request *request);

#endif
