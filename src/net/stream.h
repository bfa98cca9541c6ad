/* SPDX-License-Identifier: MIT */
/*
 * A connected byte stream: TCP, unix socket, or TLS over TCP, behind one small interface.
 *
 * Opening is a row of steps (name, connect, credentials, TLS handshake). Neither they nor the calls
 * of a stream wait; lk__socket_wait() does. A stream is used by one thread at a time; its owner
 * arranges which. The descriptor is non-blocking and close-on-exec, and writing raises no SIGPIPE.
 */
#ifndef LK__NET_STREAM_H
#define LK__NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <lockkeeper/error.h>

struct lk__opening;
struct lk__stream;
struct lk_config;

struct lk__stream_ops {
	ssize_t (*read)(struct lk__stream *stream, void *bytes, size_t size);
	ssize_t (*write)(struct lk__stream *stream, const void *bytes, size_t size);
	void (*close)(struct lk__stream *stream);
	int (*explain)(struct lk__stream *stream, char *text, size_t size); /* or NULL */
};

/* The first member of every kind of stream. */
struct lk__stream {
	const struct lk__stream_ops *ops;
	int fd;
	short wants;  /* what to poll for when reading would block: POLLIN, for TLS also POLLOUT */
	int buffered; /* TLS: decrypted bytes wait inside, poll would not tell; read again */
};

/* The event that a step waits for, which never sleeps: it is to be called again when `fd` (-1:
 * none) is ready for `events`, or at `until_ns` (CLOCK_BOOTTIME). Called before, it finds the
 * same. */
struct lk__readiness {
	int fd;
	short events;
	int64_t until_ns;
};

/*
 * Sleeps until then. 0, or -ETIMEDOUT at `until_ns`, or -ECANCELED when `cancel_fd` (-1: none) is
 * readable, which goes first; another -errno when waiting itself fails.
 */
int lk__socket_wait(const struct lk__readiness *readiness, int cancel_fd);

/*
 * Begins to connect to the node that `config` names, which must outlive it: resolves the name,
 * tries its addresses in turn, puts the credentials of now into `config`, and for TLS shakes hands
 * and verifies peer and host name, all before `deadline_ns` (CLOCK_BOOTTIME). NULL when out of
 * memory. Free it in any state; that waits for a program that is asked for credentials.
 */
struct lk__opening *lk__opening_new(struct lk_config *config, int64_t deadline_ns);
bool lk__opening_asks(const struct lk__opening *opening); /* whether it is */
void lk__opening_free(struct lk__opening *opening);

/* Tells whether the server has accepted, and owes a word of the TLS handshake. */
bool lk__opening_shakes(const struct lk__opening *opening);

/* As far as it goes without waiting. 1 with the stream; 0: what it waits for is written; or a code:
 * LK_EUNREACHABLE, LK_ETLS, LK_ENOMEM, LK_ESYSTEM. */
int lk__opening_step(struct lk__opening *opening, struct lk__stream **stream_out,
		     struct lk__readiness *readiness_out, lk_error *error);

/* Says what it waits for, in words that stay, or NULL: for a caller that gives up earlier. */
const char *lk__opening_awaits(const struct lk__opening *opening);

/* Bytes read (> 0), 0 at the end of the stream, or -errno; -EAGAIN: poll for `wants` first. */
static inline ssize_t lk__stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	return stream->ops->read(stream, bytes, size);
}

/*
 * Bytes taken (> 0), or -errno; -EAGAIN: poll for POLLOUT (for TLS: `wants`) first, then offer the
 * same bytes again, from wherever they now stand; more may follow them.
 */
static inline ssize_t lk__stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	return stream->ops->write(stream, bytes, size);
}

/*
 * After a read or write that failed, or the end of the stream: one line of text where TLS has a
 * reason, else 0 and "". LK_ETLS: a refusal that stays. LK_EUNREACHABLE: broken, or closed by a
 * peer that may miss a client certificate (with TLS 1.3 that shows only here).
 */
static inline int lk__stream_explain(struct lk__stream *stream, char *text, size_t size)
{
	if (size > 0)
		text[0] = '\0';
	return stream->ops->explain ? stream->ops->explain(stream, text, size) : 0;
}

/* Closes the descriptor, without any goodbye that could block. NULL is fine. */
static inline void lk__stream_close(struct lk__stream *stream)
{
	if (stream)
		stream->ops->close(stream);
}

/* ---- for src/net alone ---- */

/*
 * Begins TLS over the connected `fd`, which is the stream's if this succeeds. Certificates are read
 * from their files each time, so renewed ones are seen. `node` is for messages. Errors: LK_ETLS
 * (also when OpenSSL is missing), LK_ESYSTEM, LK_ENOMEM.
 */
int lk__tls_begin(struct lk__stream **stream_out, int fd, const struct lk_config *config,
		  const char *node, lk_error *error);

/*
 * Shakes hands as far as that goes without waiting, and verifies the peer: TLS 1.2 at least, a
 * certificate that leads to a trusted one, and the host's name or address in it. 1: done; 0: it
 * waits for what the stream `wants`; or LK_ETLS, LK_EUNREACHABLE, also at `deadline_ns`.
 */
int lk__tls_shake(struct lk__stream *stream, const struct lk_config *config, const char *node,
		  int64_t deadline_ns, lk_error *error);

#endif
