/* The first words on a new connection: AUTH, SELECT, CLIENT SETNAME, scripts, TIME. */
#ifndef LK__CONN_HANDSHAKE_H
#define LK__CONN_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <lockkeeper/error.h>

struct lk_config;
struct lk__reader;
struct lk__stream;

struct lk__greeting {
	int64_t server_us;   /* the server's clock … */
	int64_t received_ns; /* … as it was some time before this */
};

/*
 * Speaks them in one batch, and loads our scripts if `load` (so that later EVALSHAs find them);
 * blocks until all is answered, the deadline, or `cancel_fd`. The reader that it made goes on
 * reading. What the connection can do without (the name, the scripts) may be refused.
 */
int lk__handshake(struct lk__stream *stream, const struct lk_config *config, bool load,
		  int64_t deadline_ns, int cancel_fd, struct lk__reader **reader_out,
		  struct lk__greeting *greeting, lk_error *error);

#endif
