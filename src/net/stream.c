/* SPDX-License-Identifier: MIT */
/*
 * Streams without TLS; and how a stream is opened: resolve, connect to one address after the other,
 * ask for the credentials of now, and TLS on top.
 *
 *     NAME ──▶ ADDRESS ──▶ CONNECTING ──▶ [READYING ──▶ [SHAKING]] ──▶ the stream
 *                ▲ the next one │  ▲
 *                └──────────────┘  └ FULL (unix: the backlog)
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fail.h"
#include "conf/config.h"
#include "conf/url.h"
#include "net/stream.h"

#define ADDRESSES_MAX 16
#define BACKLOG_PAUSE_MS 5 /* before the next try at a unix socket whose backlog is full */
#define STEP_ON 2          /* the next state can be stepped at once */
#define POLL_MOST_MS 60000 /* a long wait is taken in pieces */

int lk__socket_wait(const struct lk__readiness *readiness, int cancel_fd)
{
	for (;;) {
		struct pollfd polled[2] = {{.fd = readiness->fd, .events = readiness->events},
					   {.fd = cancel_fd, .events = POLLIN}};
		int64_t now_ns = lk__now_ns();
		int ready = lk__poll(polled, 2,
				     lk__ms_until(now_ns, readiness->until_ns, POLL_MOST_MS));
		if (ready < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (ready > 0)
			return polled[1].revents ? -ECANCELED : 0;
		if (now_ns >= readiness->until_ns)
			return -ETIMEDOUT;
	}
}

/* ---- streams without TLS ---- */

static ssize_t plain_read(struct lk__stream *stream, void *bytes, size_t size)
{
	ssize_t got = lk__socket_read(stream->fd, bytes, size);
	return got < 0 ? -errno : got;
}

static ssize_t plain_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	ssize_t sent = lk__socket_write(stream->fd, bytes, size);
	return sent < 0 ? -errno : sent;
}

static void plain_close(struct lk__stream *stream)
{
	lk__fd_close(stream->fd);
	free(stream);
}

static const struct lk__stream_ops plain_ops = {
	.read = plain_read,
	.write = plain_write,
	.close = plain_close,
};

/* Makes the stream of a connected descriptor, which it owns from then on. NULL: no memory. */
static struct lk__stream *plain_new(int fd)
{
	struct lk__stream *stream = calloc(1, sizeof(*stream));
	if (stream)
		*stream = (struct lk__stream){.ops = &plain_ops, .fd = fd, .wants = POLLIN};
	return stream;
}

/* ---- errands ---- */

/*
 * An errand can be neither limited nor stepped, so it has a thread of its own: a name to look up, a
 * callback of the program, files of certificates.
 *
 * The thread is detached. The giver of the errand waits for its descriptor, or leaves: then the
 * thread frees it at the end.
 */

#define LOOK_MS 1000 /* between looks, in case its descriptor was closed */

/* The first member of what it is about. */
struct errand {
	void (*run)(struct errand *errand);
	void (*free)(struct errand *errand); /* by the last that lets go of it */
	_Atomic int users;
	_Atomic bool done; /* what `run` has written is there */
	int fd;            /* readable when it is done */
};

static bool errand_is_done(const struct errand *errand)
{
	return atomic_load(&errand->done);
}

/* Lets go of it, done or not. NULL is fine. */
static void errand_leave(struct errand *errand)
{
	if (!errand || atomic_fetch_sub(&errand->users, 1) > 1)
		return;
	if (errand->fd >= 0)
		lk__fd_close(errand->fd);
	errand->free(errand);
}

static void *errand_main(void *argument)
{
	struct errand *errand = argument;
	errand->run(errand);
	atomic_store(&errand->done, true);
	lk__wake_fd(errand->fd);
	errand_leave(errand);
	return NULL;
}

/* Begins it; `run` and `free` are set. 0, or an errno, and then it is freed. Without a thread it is
 * done here. */
static int errand_begin(struct errand *errand, bool thread)
{
	errand->fd = -1;
	atomic_store(&errand->done, !thread);
	atomic_store(&errand->users, thread ? 2 : 1);
	if (!thread) {
		errand->run(errand);
		return 0;
	}
	errand->fd = lk__wake_fd_new();
	int failed = errand->fd < 0 ? errno : lk__thread_start(NULL, errand_main, errand);
	if (failed) {
		errand_leave(errand); /* for the thread that is not there */
		errand_leave(errand);
	}
	return failed;
}

/* Waits until it is done, and lets go of it. NULL is fine. */
static void errand_end(struct errand *errand)
{
	while (errand && !errand_is_done(errand)) {
		struct pollfd polled = {.fd = errand->fd, .events = POLLIN};
		lk__poll(&polled, 1, LOOK_MS);
	}
	errand_leave(errand);
}

/* ---- opening ---- */

enum opening_state {
	OPENING_START,
	OPENING_NAME,
	OPENING_ADDRESS,
	OPENING_CONNECTING,
	OPENING_FULL,
	OPENING_READYING,
	OPENING_SHAKING,
};

#define NODE_SIZE (LK__PLACE_SIZE + LK__PLACE_SIZE + sizeof(" (for )"))

/* The work that may take long once a server is there: to read the files of certificates takes tens
 * of ms, and the program is asked for credentials. */
struct readying {
	struct errand errand;     /* first */
	struct lk_config *config; /* which gets the credentials */
	char place[LK__PLACE_SIZE];
	char node[NODE_SIZE];
	int fd; /* of TLS, until the stream has it */
	struct lk__stream *stream;
	int rc;
	lk_error error;
};

struct lk__opening {
	struct lk_config *config;
	enum opening_state state;
	int64_t deadline_ns;
	struct lk__readiness readiness; /* what the state waits for */
	struct lookup *lookup;
	struct addrinfo *addresses;
	const struct addrinfo *at; /* the address that is tried, or the next */
	int left;                  /* addresses to try, this one included */
	struct sockaddr_un path;   /* instead, of a unix socket */
	int fd;                    /* until the stream has it */
	int status;                /* how the last address ended: -errno */
	struct readying *readying;
	struct lk__stream *stream; /* while it shakes hands */
	lk_error *error;
	char host[LK__PLACE_SIZE]; /* where to connect to, */
	int port;
	char node[NODE_SIZE]; /* for messages */
};

static void opening_place(struct lk__opening *opening)
{
	const struct lk_config *config = opening->config;
	char named[LK__PLACE_SIZE], place[LK__PLACE_SIZE];
	if (config->scheme == LK__SCHEME_UNIX) {
		snprintf(opening->node, sizeof(opening->node), "%s", config->host);
		return;
	}
	bool mapped = lk__address_map(config->address_map, config->host, config->port,
				      opening->host, &opening->port);
	lk__place_name(named, config->host, config->port);
	lk__place_name(place, opening->host, opening->port);
	snprintf(opening->node, sizeof(opening->node), "%s%s%s%s", place, mapped ? " (for " : "",
		 mapped ? named : "", mapped ? ")" : "");
}

/* Turns the negative errno of an attempt to connect into an error. */
static int fail_connect(struct lk__opening *opening, int status)
{
	return lk__fail_errno(opening->error, lk__errno_code(-status, LK_EUNREACHABLE), -status,
			      "connect to %s", opening->node);
}

/* For want of a thread, or of what that needs. */
static int fail_errand(struct lk__opening *opening, int failed)
{
	return lk__fail_system(opening->error, failed, "connect to %s: cannot start a thread",
			       opening->node);
}

static int opening_waits(struct lk__opening *opening, enum opening_state state, int fd,
			 short events, int64_t until_ns)
{
	opening->state = state;
	opening->readiness = (struct lk__readiness){fd, events, until_ns};
	return 0;
}

static int opening_goes_on(struct lk__opening *opening, enum opening_state state)
{
	opening->state = state;
	return STEP_ON;
}

/* ---- names ---- */

#define PORT_SIZE 8

/* getaddrinfo() can be neither limited nor interrupted, so a name is looked up by an errand, which
 * outlives a caller that gives up by at most the resolver's own limit. */
struct lookup {
	struct errand errand; /* first */
	int failed;           /* EAI_… */
	int system_errno;
	struct addrinfo *addresses;
	char port[PORT_SIZE];
	char host[];
};

static void lookup_free(struct errand *errand)
{
	struct lookup *lookup = (struct lookup *)errand;
	if (lookup->addresses)
		lk__look_up_free(lookup->addresses);
	free(lookup);
}

static void lookup_run(struct errand *errand)
{
	struct lookup *lookup = (struct lookup *)errand;
	lookup->failed = lk__look_up(&lookup->addresses, lookup->host, lookup->port, 0);
	lookup->system_errno = errno;
}

static void print_port(char port_out[PORT_SIZE], int port)
{
	snprintf(port_out, PORT_SIZE, "%d", port & 0xffff);
}

/* 0 or an errno. */
static int lookup_begin(struct lookup **lookup_out, const char *host, int port)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup) + strlen(host) + 1);
	if (!lookup)
		return ENOMEM;
	lookup->errand.run = lookup_run;
	lookup->errand.free = lookup_free;
	memcpy(lookup->host, host, strlen(host));
	print_port(lookup->port, port);
	int failed = errand_begin(&lookup->errand, true);
	if (failed == 0)
		*lookup_out = lookup;
	return failed;
}

/* Finds the address that `host` is: 0; EAI_NONAME: it is a name; another EAI_… code; or EAI_SYSTEM
 * with errno. */
static int resolve_address(struct addrinfo **addresses_out, const char *host, int port)
{
	char digits[PORT_SIZE];
	print_port(digits, port);
	return lk__look_up(addresses_out, host, digits, AI_NUMERICHOST);
}

static int name_resolved(struct lk__opening *opening, int failed)
{
	if (failed == EAI_SYSTEM)
		return fail_connect(opening, -errno);
	if (failed)
		return lk__fail(opening->error, failed == EAI_MEMORY ? LK_ENOMEM : LK_EUNREACHABLE,
				"connect to %s: resolve: %s", opening->node, gai_strerror(failed));
	opening->at = opening->addresses;
	for (const struct addrinfo *at = opening->at; at && opening->left < ADDRESSES_MAX;
	     at = at->ai_next)
		opening->left++;
	opening->status = -EADDRNOTAVAIL;
	return opening_goes_on(opening, OPENING_ADDRESS);
}

/* Without threads: the program knows the address. */
static int name_ask(struct lk__opening *opening)
{
	const struct lk_config *config = opening->config;
	char address[LK_ADDRESS_SIZE] = "";
	int rc = config->resolve ? config->resolve(config->resolve_context, opening->host, address,
						   sizeof(address))
				 : -1;
	address[sizeof(address) - 1] = '\0';
	if (rc != 0)
		return name_resolved(opening, EAI_NONAME);
	return name_resolved(opening, resolve_address(&opening->addresses, address, opening->port));
}

static int name_begin(struct lk__opening *opening)
{
	const struct lk_config *config = opening->config;
	int failed = resolve_address(&opening->addresses, opening->host, opening->port);
	if (failed != EAI_NONAME)
		return name_resolved(opening, failed);
	if (config->threadless)
		return name_ask(opening);
	failed = lookup_begin(&opening->lookup, opening->host, opening->port);
	if (failed)
		return fail_errand(opening, failed);
	return opening_waits(opening, OPENING_NAME, opening->lookup->errand.fd, POLLIN,
			     opening->deadline_ns);
}

static int name_look(struct lk__opening *opening)
{
	struct lookup *lookup = opening->lookup;
	if (!errand_is_done(&lookup->errand))
		return lk__now_ns() < opening->deadline_ns ? 0 : fail_connect(opening, -ETIMEDOUT);
	opening->addresses = lookup->addresses;
	lookup->addresses = NULL;
	errno = lookup->system_errno;
	return name_resolved(opening, lookup->failed);
}

/* ---- addresses ---- */

static int path_begin(struct lk__opening *opening)
{
	size_t length = strlen(opening->config->host);
	if (length >= sizeof(opening->path.sun_path))
		return fail_connect(opening, -ENAMETOOLONG);
	opening->path.sun_family = AF_UNIX;
	memcpy(opening->path.sun_path, opening->config->host, length + 1);
	opening->left = 1;
	return opening_goes_on(opening, OPENING_ADDRESS);
}

static int opening_start(struct lk__opening *opening)
{
	return opening->config->scheme == LK__SCHEME_UNIX ? path_begin(opening)
							  : name_begin(opening);
}

/* Every address gets its share of what is left, so that a silent one does not use up all. */
static int64_t address_until_ns(const struct lk__opening *opening)
{
	int64_t now_ns = lk__now_ns();
	int64_t left_ns = opening->deadline_ns > now_ns ? opening->deadline_ns - now_ns : 0;
	return now_ns + left_ns / opening->left;
}

static int address_failed(struct lk__opening *opening, int status)
{
	if (opening->fd >= 0)
		lk__fd_close(opening->fd);
	opening->fd = -1;
	opening->status = status;
	opening->left--;
	opening->at = opening->at ? opening->at->ai_next : NULL;
	return opening_goes_on(opening, OPENING_ADDRESS);
}

static int address_connect(struct lk__opening *opening, int64_t until_ns)
{
	const struct addrinfo *at = opening->at;
	int failed = at ? lk__socket_connect(opening->fd, at->ai_addr, at->ai_addrlen)
			: lk__socket_connect(opening->fd, (struct sockaddr *)&opening->path,
					     sizeof(opening->path));
	/* A connect() that is under way ends when the descriptor becomes writable. */
	if (failed == 0 || errno == EINPROGRESS || errno == EINTR)
		return opening_waits(opening, OPENING_CONNECTING, opening->fd, POLLOUT, until_ns);
	if (errno != EAGAIN || at)
		return address_failed(opening, -errno);
	/* No event tells when the backlog has room again. */
	int64_t again_ns = lk__after_ms(lk__now_ns(), BACKLOG_PAUSE_MS);
	if (again_ns >= until_ns)
		return address_failed(opening, -EAGAIN);
	return opening_waits(opening, OPENING_FULL, -1, 0, again_ns);
}

static int address_begin(struct lk__opening *opening)
{
	if (opening->left == 0)
		return fail_connect(opening, opening->status);
	if (opening->at && lk__now_ns() >= opening->deadline_ns)
		return fail_connect(opening, -ETIMEDOUT);
	opening->fd = lk__socket_new(opening->at ? opening->at->ai_family : AF_UNIX);
	if (opening->fd < 0)
		return address_failed(opening, -errno);
	int rc = address_connect(opening, address_until_ns(opening));
	return rc == 0 && opening->state == OPENING_CONNECTING ? STEP_ON : rc;
}

static int full_look(struct lk__opening *opening)
{
	if (lk__now_ns() < opening->readiness.until_ns)
		return 0;
	return address_connect(opening, opening->deadline_ns);
}

/* ---- connected ---- */

static int out_of_memory(struct lk__opening *opening)
{
	return lk__fail(opening->error, LK_ENOMEM, "connect to %s: out of memory", opening->node);
}

static int plain_begin(struct lk__opening *opening, struct lk__stream **stream_out)
{
	*stream_out = plain_new(opening->fd);
	if (!*stream_out)
		return out_of_memory(opening);
	opening->fd = -1;
	return 1;
}

/* ---- the credentials of now ---- */

/* `option`: the file's, for messages. */
static int renew_from_file(const struct lk_config *config, const char *option, const char *path,
			   char **password)
{
	char line[LK__PASSWORD_MAX + 2];
	const char *reason = NULL;
	int rc = lk__password_read(path, true, line, &reason);
	if (rc < 0 || reason)
		lk__log(&config->log, LK_LOG_WARNING,
			"%s: it %s; the password with which the option was set stands", option,
			reason ? reason : "cannot be read again");
	rc = rc < 0 || reason ? 0 : lk__text_replace(password, line);
	explicit_bzero(line, sizeof(line));
	return rc;
}

static int renew_from_program(struct lk_config *config, const char *place, lk_error *error)
{
	lk_credentials *given = calloc(1, sizeof(*given));
	if (!given)
		return LK_ENOMEM;
	int rc = 0;
	if (config->credentials(config->credentials_context, place, given) != 0)
		rc = lk__fail(error, LK_EUNREACHABLE,
			      "%s: the program has no credentials for it at present", place);
	given->username[sizeof(given->username) - 1] = '\0';
	given->password[sizeof(given->password) - 1] = '\0';
	if (rc == 0)
		rc = lk__text_replace(&config->username, given->username);
	if (rc == 0)
		rc = lk__text_replace(&config->password, given->password);
	explicit_bzero(given, sizeof(*given));
	free(given);
	return rc;
}

/* Reads that of the private key in the same way; a file that cannot be read is none of its
 * failures. LK_ENOMEM. */
static int renew_key_password(struct lk_config *config, const char *place, lk_error *error)
{
	const char *path = config->tls_key_password_file;
	int rc = *path ? renew_from_file(config, "tls_key_password_file", path,
					 &config->tls_key_password)
		       : 0;
	return rc < 0 ? lk__fail(error, rc, "%s: no memory for the password of a key", place) : 0;
}

/* Asks for both, and puts them into a configuration that nobody else reads now. Before it connects
 * to `place`. LK_EUNREACHABLE: the program has none at present. LK_ENOMEM. */
static int renew_credentials(struct lk_config *config, const char *place, lk_error *error)
{
	int rc = 0;
	if (config->credentials)
		rc = renew_from_program(config, place, error);
	else if (*config->password_file)
		rc = renew_from_file(config, "password_file", config->password_file,
				     &config->password);
	return rc == LK_ENOMEM ? lk__fail(error, rc, "%s: no memory for credentials", place) : rc;
}

/* ---- made ready ---- */

static void readying_free(struct errand *errand)
{
	struct readying *readying = (struct readying *)errand;
	if (readying->fd >= 0)
		lk__fd_close(readying->fd);
	lk__stream_close(readying->stream);
	lk_config_free(readying->config);
	free(readying);
}

static void readying_run(struct errand *errand)
{
	struct readying *readying = (struct readying *)errand;
	struct lk_config *config = readying->config;
	if (config->scheme == LK__SCHEME_TLS)
		readying->rc = renew_key_password(config, readying->place, &readying->error);
	if (config->scheme == LK__SCHEME_TLS && readying->rc == 0)
		readying->rc = lk__tls_begin(&readying->stream, readying->fd, config,
					     readying->node, &readying->error);
	if (readying->stream)
		readying->fd = -1;
	if (readying->rc == 0)
		readying->rc = renew_credentials(config, readying->place, &readying->error);
}

static int readying_new(struct lk__opening *opening)
{
	struct readying *readying = calloc(1, sizeof(*readying));
	struct lk_config *config = readying ? lk__config_copy(opening->config) : NULL;
	if (!config) {
		free(readying);
		return out_of_memory(opening);
	}
	bool tls = config->scheme == LK__SCHEME_TLS;
	*readying = (struct readying){.errand = {.run = readying_run, .free = readying_free},
				      .config = config,
				      .fd = tls ? opening->fd : -1};
	lk__config_place(config, readying->place);
	memcpy(readying->node, opening->node, sizeof(readying->node));
	opening->fd = tls ? -1 : opening->fd;
	opening->readying = readying;
	return 0;
}

static void swap(char **one, char **other)
{
	char *kept = *one;
	*one = *other;
	*other = kept;
}

static int readying_look(struct lk__opening *opening, struct lk__stream **stream_out)
{
	struct readying *readying = opening->readying;
	if (!errand_is_done(&readying->errand))
		return lk__now_ns() < opening->readiness.until_ns
			       ? 0
			       : fail_connect(opening, -ETIMEDOUT);
	if (readying->rc < 0) {
		*opening->error = readying->error;
		return readying->rc;
	}
	swap(&opening->config->username, &readying->config->username);
	swap(&opening->config->password, &readying->config->password);
	opening->stream = readying->stream;
	readying->stream = NULL;
	return opening->stream ? opening_goes_on(opening, OPENING_SHAKING)
			       : plain_begin(opening, stream_out);
}

/* In a thread of its own, or here if there is to be none. A program that is asked is waited for. */
static int readying_begin(struct lk__opening *opening)
{
	const struct lk_config *config = opening->config;
	int rc = readying_new(opening);
	if (rc < 0)
		return rc;
	struct errand *errand = &opening->readying->errand;
	int failed = errand_begin(errand, !config->threadless);
	if (failed) {
		opening->readying = NULL;
		return fail_errand(opening, failed);
	}
	rc = opening_waits(opening, OPENING_READYING, errand->fd, POLLIN,
			   config->credentials ? LK__NEVER : opening->deadline_ns);
	return errand_is_done(errand) ? STEP_ON : rc;
}

static int connected(struct lk__opening *opening, struct lk__stream **stream_out)
{
	const struct lk_config *config = opening->config;
	if (config->scheme != LK__SCHEME_UNIX)
		lk__socket_tune(opening->fd, config->keepalive_s);
	if (config->scheme == LK__SCHEME_TLS || lk__credentials_change(config))
		return readying_begin(opening);
	return plain_begin(opening, stream_out);
}

static int connecting_look(struct lk__opening *opening, struct lk__stream **stream_out)
{
	struct pollfd polled = {.fd = opening->fd, .events = POLLOUT};
	if (lk__poll(&polled, 1, 0) > 0) {
		int failure = lk__socket_failure(opening->fd);
		return failure ? address_failed(opening, -failure) : connected(opening, stream_out);
	}
	return lk__now_ns() < opening->readiness.until_ns ? 0 : address_failed(opening, -ETIMEDOUT);
}

static int shaking_look(struct lk__opening *opening, struct lk__stream **stream_out)
{
	struct lk__stream *stream = opening->stream;
	int rc = lk__tls_shake(stream, opening->config, opening->node, opening->deadline_ns,
			       opening->error);
	if (rc == 0)
		return opening_waits(opening, OPENING_SHAKING, stream->fd, stream->wants,
				     opening->deadline_ns);
	if (rc == 1) {
		*stream_out = stream;
		opening->stream = NULL;
	}
	return rc;
}

/* ---- steps ---- */

struct lk__opening *lk__opening_new(struct lk_config *config, int64_t deadline_ns)
{
	struct lk__opening *opening = calloc(1, sizeof(*opening));
	if (!opening)
		return NULL;
	opening->config = config;
	opening->deadline_ns = deadline_ns;
	opening->fd = -1;
	opening_place(opening);
	return opening;
}

bool lk__opening_asks(const struct lk__opening *opening)
{
	return opening->readying && opening->config->credentials &&
	       !errand_is_done(&opening->readying->errand);
}

bool lk__opening_shakes(const struct lk__opening *opening)
{
	return opening->state == OPENING_SHAKING;
}

void lk__opening_free(struct lk__opening *opening)
{
	if (!opening)
		return;
	errand_leave((struct errand *)opening->lookup);
	if (lk__opening_asks(opening))
		errand_end(&opening->readying->errand);
	else
		errand_leave((struct errand *)opening->readying);
	if (opening->addresses)
		lk__look_up_free(opening->addresses);
	if (opening->fd >= 0)
		lk__fd_close(opening->fd);
	lk__stream_close(opening->stream);
	free(opening);
}

int lk__opening_step(struct lk__opening *opening, struct lk__stream **stream_out,
		     struct lk__readiness *readiness_out, lk_error *error)
{
	int rc = STEP_ON;
	opening->error = error;
	while (rc == STEP_ON) {
		switch (opening->state) {
		case OPENING_START:
			rc = opening_start(opening);
			break;
		case OPENING_NAME:
			rc = name_look(opening);
			break;
		case OPENING_ADDRESS:
			rc = address_begin(opening);
			break;
		case OPENING_CONNECTING:
			rc = connecting_look(opening, stream_out);
			break;
		case OPENING_FULL:
			rc = full_look(opening);
			break;
		case OPENING_READYING:
			rc = readying_look(opening, stream_out);
			break;
		case OPENING_SHAKING:
			rc = shaking_look(opening, stream_out);
		}
	}
	if (rc == 0)
		*readiness_out = opening->readiness;
	return rc;
}

const char *lk__opening_awaits(const struct lk__opening *opening)
{
	if (opening->state == OPENING_SHAKING)
		return "no answer to the TLS handshake yet (does the port speak TLS?)";
	if (opening->state == OPENING_START)
		return NULL;
	if (opening->state == OPENING_READYING)
		return "its certificates and credentials are still being read";
	if (opening->state == OPENING_NAME)
		return "its name is not resolved yet";
	return "it has not accepted the connection yet";
}
