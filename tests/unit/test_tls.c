/* TLS: who is let in, who is not and why, and a stream that works both ways. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "conf/config.h"
#include "net/stream.h"
#include "opening.h"
#include "tls_server.h"

#define LONG_MS 20000 /* never reached unless something hangs */

static char folder[] = "/tmp/lockkeeper-test-XXXXXX";
static struct identity authority;
static struct identity stranger; /* another authority */
static struct identity good;
static struct identity client;

static struct lk__stream *opened;
static lk_error error;

static void wait_for_stream(void)
{
	assert_int_equal(poll(&(struct pollfd){opened->fd, opened->wants, 0}, 1, LONG_MS), 1);
}

/* Leads the configuration to a node of a cluster that is known by its address. */
static void point_to(lk_config *config, const char *host, int port)
{
	free(config->host);
	config->host = strdup(host);
	config->port = port;
	config->deployment = LK__SINGLE;
}

/* Where the URL has one of these, the connection goes to an address that a map has. */
static const char *scheme = "rediss";
static const char *map_has;

/* Options that are set after the URL, up to one without a name; NULL: none. */
struct given {
	const char *name, *value;
};
static const struct given *given;

static void set_given(lk_config *config)
{
	for (const struct given *one = given; one && one->name; one++)
		if (lk_config_set(config, one->name, one->value, &error) != 0)
			fail_msg("%s", error.message);
}

/* `options`: more of the query of the URL, behind the file of the authority; or NULL. */
static int64_t open_to(struct tls_server *server, const char *host, const char *options,
		       int64_t limit_ms, int cancel_fd)
{
	char url[1024];
	char query[800];
	lk_config *config = NULL;
	snprintf(query, sizeof(query), "tls_ca_file=%s/authority.crt%s%s", folder,
		 options && *options ? "&" : "", options ? options : "");
	snprintf(url, sizeof(url), "%s://%s:%d?%s", scheme, host, server->port, query);
	assert_int_equal(lk_config_new(&config, NULL), 0);
	memset(&error, 0, sizeof(error));
	if (lk_config_set(config, "url", url, &error) != 0)
		fail_msg("%s", error.message);
	set_given(config);
	if (map_has)
		point_to(config, map_has, server->port);
	opened = NULL;
	int64_t begun_ns = lk__now_ns();
	open_stream(&opened, config, lk__after_ms(begun_ns, limit_ms), cancel_fd, &error);
	print_message("%s: %d %s\n", host, error.code, error.message);
	assert_int_equal(opened == NULL, error.code != 0);
	lk_config_free(config);
	assert_int_equal(ERR_peek_error(), 0); /* the program's own queue stays clean */
	return (lk__now_ns() - begun_ns) / LK__MS;
}

/* The whole file option for a client's certificate and key. */
static const char *own(const char *certificate, const char *key)
{
	static char options[400];
	snprintf(options, sizeof(options), "tls_cert_file=%s&tls_key_file=%s",
		 path_in(folder, certificate), path_in(folder, key));
	return options;
}

static void assert_opens(struct tls_server server, const char *host, const char *options)
{
	char bytes[8] = "";
	tls_server_start(&server);
	open_to(&server, host, options, LONG_MS, -1);
	assert_int_equal(error.code, 0);
	assert_int_equal(lk__stream_write(opened, "ping", 4), 4);
	ssize_t got = -EAGAIN;
	while (got == -EAGAIN) {
		wait_for_stream();
		got = lk__stream_read(opened, bytes, sizeof(bytes));
	}
	assert_int_equal(got, 4);
	assert_memory_equal(bytes, "ping", 4);
	lk__stream_close(opened);
	tls_server_join(&server);
}

static void assert_refuses(struct tls_server server, const char *host, const char *options,
			   int code, const char *reason)
{
	tls_server_start(&server);
	assert_true(open_to(&server, host, options, LONG_MS, -1) < LONG_MS);
	tls_server_join(&server);
	assert_int_equal(error.code, code);
	assert_non_null(strstr(error.message, map_has ? map_has : host));
	if (!strstr(error.message, reason))
		fail_msg("\"%s\" is not in: %s", reason, error.message);
}

static void test_good_peers_are_taken(void **state)
{
	struct tls_server server = {.identity = &good};
	assert_opens(server, "localhost", NULL);
	assert_opens(server, "LOCALHOST", NULL);
	assert_opens(server, "127.0.0.1", NULL);
	assert_opens(server, "127.0.0.1", "tls_server_name=node.example");
	assert_opens(server, "127.0.0.1", "tls_server_name=node.example.");
	server.version_most = TLS1_2_VERSION;
	assert_opens(server, "localhost", NULL);
}

static void test_the_name_is_asked_for(void **state)
{
	static const struct {
		const char *host;
		const char *options;
		const char *asked;
	} rows[] = {
		{"localhost", NULL, "localhost"},
		{"127.0.0.1", NULL, ""}, /* addresses are no server names */
		{"127.0.0.1", "tls_server_name=node.example", "node.example"},
		{"localhost", "tls_server_name=127.0.0.1", ""},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct tls_server server = {.identity = &good};
		tls_server_start(&server);
		open_to(&server, rows[i].host, rows[i].options, LONG_MS, -1);
		assert_int_equal(error.code, 0);
		lk__stream_close(opened);
		tls_server_join(&server);
		assert_string_equal(server.name_asked, rows[i].asked);
	}
}

static void test_wrong_names_are_refused(void **state)
{
	struct identity other = identity_new(folder, "other", &authority, "DNS:*.other.example", -1,
					     1);
	struct identity partial = identity_new(folder, "partial", &authority, "DNS:no*.sub.example",
					       -1, 1);
	struct identity named = identity_new(folder, "localhost", &authority, "DNS:x.example", -1,
					     1);
	struct identity text = identity_new(folder, "text", &authority, "DNS:127.0.0.1", -1, 1);
	struct tls_server server = {.identity = &good};
	assert_refuses(server, "127.0.0.1", "tls_server_name=evil.example", LK_ETLS,
		       "not for \"evil.example\"");
	assert_refuses(server, "127.0.0.1", "tls_server_name=127.0.0.2", LK_ETLS,
		       "not for \"127.0.0.2\"");
	server.identity = &other;
	assert_refuses(server, "localhost", NULL, LK_ETLS, "not for \"localhost\"");
	assert_refuses(server, "127.0.0.1", NULL, LK_ETLS, "not for \"127.0.0.1\"");
	assert_refuses(server, "localhost", "tls_server_name=a.b.other.example", LK_ETLS,
		       "not for");
	assert_opens(server, "localhost", "tls_server_name=a.other.example");
	server.identity = &partial;
	assert_refuses(server, "localhost", "tls_server_name=node.sub.example", LK_ETLS, "not for");
	server.identity = &named; /* only its CN is right */
	assert_refuses(server, "localhost", NULL, LK_ETLS, "not for");
	server.identity = &text; /* an address is no DNS name */
	assert_refuses(server, "127.0.0.1", NULL, LK_ETLS, "not for");
	identity_free(&other);
	identity_free(&partial);
	identity_free(&named);
	identity_free(&text);
}

/* The node is known by 127.0.0.1; its certificate has a host name. */
static void test_a_seed_lends_its_name(void **state)
{
	struct identity named = identity_new(folder, "named", &authority, "DNS:localhost", -1, 1);
	struct tls_server server = {.identity = &named};
	scheme = "rediss-cluster";
	map_has = "127.0.0.1";
	assert_opens(server, "localhost", NULL);
	assert_opens(server, "localhost.", NULL);
	assert_opens(server, "127.0.0.2:1,localhost", NULL);
	server.version_most = TLS1_2_VERSION;
	assert_opens(server, "localhost", NULL);
	server.identity = &good; /* has the address as well */
	assert_opens(server, "elsewhere.example", NULL);
	tls_server_start(&server);
	open_to(&server, "127.0.0.2:1,localhost.", NULL, LONG_MS, -1);
	lk__stream_close(opened);
	tls_server_join(&server);
	assert_string_equal(server.name_asked, "localhost");
	identity_free(&named);
}

/* Neither another name, nor an expired one, nor a stranger's, nor in place of a name. */
static void test_the_name_of_a_seed_is_not_all(void **state)
{
	struct identity named = identity_new(folder, "named", &authority, "DNS:localhost", -1, 1);
	struct identity old = identity_new(folder, "old", &authority, "DNS:localhost", -10, -1);
	struct identity other = identity_new(folder, "theirs", &stranger, "DNS:localhost", -1, 1);
	struct tls_server server = {.identity = &named};
	scheme = "rediss-cluster";
	map_has = "127.0.0.1";
	assert_refuses(server, "elsewhere.example", NULL, LK_ETLS,
		       "not for \"127.0.0.1\", nor for a seed of the cluster");
	assert_refuses(server, "127.0.0.1", NULL, LK_ETLS, "not for \"127.0.0.1\"");
	assert_refuses(server, "localhost", "tls_server_name=node.example", LK_ETLS,
		       "not for \"node.example\"");
	assert_refuses(server, "localhost", "tls_server_name=127.0.0.1", LK_ETLS,
		       "not for \"127.0.0.1\"");
	server.identity = &old;
	assert_refuses(server, "localhost", NULL, LK_ETLS, "certificate has expired");
	server.identity = &other;
	assert_refuses(server, "localhost", NULL, LK_ETLS, "unable to get local issuer");
	server.identity = &named;
	map_has = "127.0.0.1.example"; /* a name, which nobody replaces */
	assert_refuses(server, "localhost", "address_map=127.0.0.1.example=127.0.0.1", LK_ETLS,
		       "not for \"127.0.0.1.example\"");
	identity_free(&named);
	identity_free(&old);
	identity_free(&other);
}

/* A list of replicas is not one of seeds: each server is verified by its own. */
static void test_no_seed_no_name(void **state)
{
	struct identity named = identity_new(folder, "named", &authority, "DNS:localhost", -1, 1);
	struct tls_server server = {.identity = &named};
	map_has = "127.0.0.1";
	scheme = "rediss-replicas";
	assert_refuses(server, "127.0.0.2:1,localhost", NULL, LK_ETLS, "not for \"127.0.0.1\"");
	identity_free(&named);
}

static int back_to_one_server(void **state)
{
	scheme = "rediss";
	map_has = NULL;
	return 0;
}

static void test_bad_certificates_are_refused(void **state)
{
	static const char names[] = "DNS:localhost,IP:127.0.0.1";
	const struct {
		const char *name;
		const struct identity *issuer;
		int from_days;
		int to_days;
		const char *reason;
	} rows[] = {
		{"expired", &authority, -10, -1, "certificate has expired"},
		{"early", &authority, 1, 10, "not yet valid"},
		{"selfsigned", NULL, -1, 1, "self-signed certificate"},
		{"unknown", &stranger, -1, 1, "unable to get local issuer certificate"},
		{"leaf", &good, -1, 1, "issuer certificate"}, /* good is no authority */
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct identity identity = identity_new(folder, rows[i].name, rows[i].issuer, names,
							rows[i].from_days, rows[i].to_days);
		struct tls_server server = {.identity = &identity};
		assert_refuses(server, "localhost", NULL, LK_ETLS, rows[i].reason);
		server.version_most = TLS1_2_VERSION;
		assert_refuses(server, "127.0.0.1", NULL, LK_ETLS, rows[i].reason);
		identity_free(&identity);
	}
}

static void test_old_versions_are_refused(void **state)
{
	struct tls_server server = {.identity = &good, .version_most = TLS1_1_VERSION};
	assert_refuses(server, "localhost", NULL, LK_ETLS, "protocol version");
}

static void test_other_protocols_are_refused(void **state)
{
	struct tls_server server = {.mode = TLS_SERVER_PLAIN};
	assert_refuses(server, "localhost", NULL, LK_ETLS, "does not speak TLS");
	server.mode = TLS_SERVER_CLOSE;
	assert_refuses(server, "localhost", NULL, LK_EUNREACHABLE, "does the port speak TLS");
}

static void test_a_stalled_handshake_ends_at_the_deadline(void **state)
{
	struct tls_server server = {.mode = TLS_SERVER_STALL};
	tls_server_start(&server);
	int64_t ms = open_to(&server, "localhost", NULL, 300, -1);
	assert_true(ms >= 299 && ms < 10000);
	assert_int_equal(error.code, LK_EUNREACHABLE);
	assert_int_equal(error.system_errno, ETIMEDOUT);
	tls_server_join(&server);
}

static void *cancel_soon(void *argument)
{
	poll(NULL, 0, 50); /* so that the handshake is most likely under way */
	assert_int_equal(eventfd_write(*(int *)argument, 1), 0);
	return NULL;
}

static void test_a_stalled_handshake_is_cancelled(void **state)
{
	pthread_t thread;
	int fd = eventfd(0, EFD_CLOEXEC);
	struct tls_server server = {.mode = TLS_SERVER_STALL};
	tls_server_start(&server);
	assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &fd), 0);
	assert_true(open_to(&server, "localhost", NULL, LONG_MS, fd) < LONG_MS);
	assert_int_equal(error.code, LK_ECANCELLED);
	pthread_join(thread, NULL);
	tls_server_join(&server);
	close(fd);
}

static void test_client_certificates(void **state)
{
	struct tls_server server = {.identity = &good, .client_issuer = &authority};
	assert_opens(server, "localhost", own("client.crt", "client.key"));
	server.version_most = TLS1_2_VERSION;
	assert_opens(server, "localhost", own("client.crt", "client.key"));
	assert_refuses(server, "localhost", NULL, LK_ETLS, "asked for a client certificate");
	assert_refuses(server, "localhost", own("stranger.crt", "stranger.key"), LK_ETLS,
		       "server refused: tlsv1 alert unknown ca");
}

/* TLS 1.3: the handshake is over for us before the server has looked at our certificate. */
static void assert_refused_later(const char *options, const char *reason)
{
	char text[256] = "";
	char byte;
	struct tls_server server = {.identity = &good, .client_issuer = &authority};
	tls_server_start(&server);
	open_to(&server, "localhost", options, LONG_MS, -1);
	assert_int_equal(error.code, 0);
	ssize_t status = lk__stream_write(opened, "ping", 4);
	if (status > 0)
		status = -EAGAIN;
	while (status == -EAGAIN) {
		wait_for_stream();
		status = lk__stream_read(opened, &byte, 1);
	}
	assert_true(status <= 0);
	assert_int_equal(lk__stream_explain(opened, text, sizeof(text)), LK_ETLS);
	print_message("%s\n", text);
	if (!strstr(text, reason))
		fail_msg("\"%s\" is not in: %s", reason, text);
	lk__stream_close(opened);
	tls_server_join(&server);
}

static void test_late_refusals_are_explained(void **state)
{
	for (int round = 0; round < 20; round++) { /* the alert races with our write */
		assert_refused_later(NULL, "asked for a client certificate");
		assert_refused_later(own("stranger.crt", "stranger.key"), "unknown ca");
	}
}

static void test_files_that_do_not_fit_are_named(void **state)
{
	static const char junk[] = "no certificate\n";
	FILE *file = fopen(path_in(folder, "junk"), "w");
	fputs(junk, file);
	fclose(file);
	identity_write_locked(&client, folder, "client");
	struct tls_server server = {.mode = TLS_SERVER_STALL};
	assert_refuses(server, "localhost", own("missing", "client.key"), LK_ETLS,
		       "No such file or directory");
	assert_refuses(server, "localhost", own("client.crt", "missing"), LK_ETLS,
		       "No such file or directory");
	assert_refuses(server, "localhost", own("junk", "client.key"), LK_ETLS, "tls_cert_file");
	assert_refuses(server, "localhost", own("client.crt", "junk"), LK_ETLS, "tls_key_file");
	assert_refuses(server, "localhost", own("client.crt", "good.key"), LK_ETLS, "mismatch");
	/* Nor is a pipe waited for, or a device read without end. */
	assert_int_equal(mkfifo(path_in(folder, "pipe"), 0600), 0);
	assert_refuses(server, "localhost", own("pipe", "client.key"), LK_ETLS,
		       "not a regular file");
	assert_refuses(server, "localhost", own("client.crt", "pipe"), LK_ETLS,
		       "not a regular file");
	assert_int_equal(symlink("/dev/zero", path_in(folder, "zero")), 0);
	assert_refuses(server, "localhost", own("zero", "client.key"), LK_ETLS,
		       "not a regular file");
	/* Nobody is asked for the password: the test would hang here. */
	assert_refuses(server, "localhost", own("client.crt", "client.locked"), LK_ETLS,
		       "locked by a password");
}

static void assert_opens_given(const struct given *options)
{
	given = options;
	assert_opens((struct tls_server){.identity = &good}, "localhost", NULL);
	given = NULL;
}

static void assert_refuses_given(const struct given *options, const char *reason)
{
	given = options;
	assert_refuses((struct tls_server){.identity = &good}, "localhost", NULL, LK_ETLS, reason);
	given = NULL;
}

/* A folder as `openssl rehash` leaves it. */
static const char *folder_of(const char *name, const struct identity *identity)
{
	char link[64];
	const char *made = path_in(folder, name);
	assert_int_equal(mkdir(made, 0700), 0);
	snprintf(link, sizeof(link), "%s/%08lx.0", name,
		 X509_subject_name_hash(identity->certificate));
	assert_int_equal(symlink(name[0] == 'a' ? "../authority.crt" : "../stranger.crt",
				 path_in(folder, link)),
			 0);
	return made;
}

static void test_a_folder_of_authorities(void **state)
{
	char ours[64], theirs[64];
	snprintf(ours, sizeof(ours), "%s", folder_of("authorities", &authority));
	snprintf(theirs, sizeof(theirs), "%s", folder_of("strangers", &stranger));
	struct given no_file = {"tls_ca_file", ""};
	assert_opens_given((struct given[]){no_file, {"tls_ca_dir", ours}, {0}});
	assert_opens_given((struct given[]){{"tls_ca_dir", theirs}, {0}}); /* and the file */
	assert_refuses_given((struct given[]){no_file, {"tls_ca_dir", theirs}, {0}}, "issuer");
	assert_refuses_given((struct given[]){{"tls_ca_dir", "/nowhere"}, {0}},
			     "tls_ca_dir \"/nowhere\": No such file");
	assert_refuses_given((struct given[]){{"tls_ca_dir", "/dev/null"}, {0}}, "tls_ca_dir");
}

/* The PEM files of both, the first of them `first`. */
static const char *text_of_both(const char *first, const char *second)
{
	static char text[20000];
	size_t size = 0;
	for (int i = 0; i < 2; i++) {
		FILE *file = fopen(path_in(folder, i == 0 ? first : second), "r");
		assert_non_null(file);
		size += fread(text + size, 1, sizeof(text) - 1 - size, file);
		fclose(file);
	}
	text[size] = '\0';
	return text;
}

static void test_authorities_as_text(void **state)
{
	struct given no_file = {"tls_ca_file", ""};
	const char *both = text_of_both("stranger.crt", "authority.crt");
	assert_opens_given((struct given[]){no_file, {"tls_ca_data", both}, {0}});
	char *end = strstr(both, "-----END"); /* of the first: the other is not in it */
	*strchr(end, '\n') = '\0';
	assert_refuses_given((struct given[]){no_file, {"tls_ca_data", both}, {0}}, "issuer");
	end[-20] = '!';
	assert_refuses_given((struct given[]){no_file, {"tls_ca_data", both}, {0}}, "tls_ca_data");
	assert_refuses_given((struct given[]){{"tls_ca_data", "x"}, {0}},
			     "tls_ca_data: no certificate is in it");
}

static void test_a_locked_key(void **state)
{
	char cert[64], key[64];
	static char much[2000];
	memset(much, 'x', sizeof(much) - 1);
	identity_write_locked(&client, folder, "client");
	snprintf(cert, sizeof(cert), "%s", path_in(folder, "client.crt"));
	snprintf(key, sizeof(key), "%s", path_in(folder, "client.locked"));
	struct given files[] = {{"tls_cert_file", cert},
				{"tls_key_file", key},
				{"tls_key_password", IDENTITY_PASSWORD},
				{0}};
	struct tls_server server = {.identity = &good, .client_issuer = &authority};
	given = files;
	assert_opens(server, "localhost", NULL);
	files[2].value = "wrong";
	assert_refuses_given(files, "tls_key_password does not unlock it");
	files[2].value = much;
	assert_refuses_given(files, "tls_key_password does not unlock it");
}

static void test_what_is_verified_less(void **state)
{
	const struct given any_name[] = {{"tls_verify", "authority"}, {0}};
	const struct given off[] = {{"tls_ca_file", ""}, {"tls_verify", "off"}, {0}};
	struct identity elsewhere = identity_new(folder, "elsewhere", &authority,
						 "DNS:elsewhere.example", -1, 2);
	struct tls_server server = {.identity = &elsewhere};
	assert_refuses(server, "localhost", NULL, LK_ETLS, "is not for \"localhost\"");
	given = any_name;
	assert_opens(server, "localhost", NULL);
	assert_opens(server, "127.0.0.1", NULL);
	server.identity = &stranger;
	assert_refuses(server, "localhost", NULL, LK_ETLS, "certificate");
	given = off;
	assert_opens(server, "localhost", NULL);
	assert_opens(server, "127.0.0.1", NULL);
	server = (struct tls_server){.mode = TLS_SERVER_PLAIN};
	assert_refuses(server, "localhost", NULL, LK_ETLS, "does not speak TLS");
	given = NULL;
	identity_free(&elsewhere);
}

static void test_renewed_files_are_seen(void **state)
{
	struct tls_server server = {.identity = &good};
	assert_opens(server, "localhost", NULL);
	assert_int_equal(rename(path_in(folder, "authority.crt"), path_in(folder, "kept.crt")), 0);
	assert_int_equal(link(path_in(folder, "stranger.crt"), path_in(folder, "authority.crt")),
			 0);
	assert_refuses(server, "localhost", NULL, LK_ETLS, "issuer");
	assert_int_equal(rename(path_in(folder, "kept.crt"), path_in(folder, "authority.crt")), 0);
	assert_opens(server, "localhost", NULL);
}

#define PIECE 100000
#define PERIOD 251

/* Byte `n` of the stream is n % 251. Never twice from the same memory, as a buffer that grows. */
static ssize_t send_piece(size_t sent)
{
	static char pieces[2][PIECE];
	static int turn;
	char *piece = pieces[turn++ % 2];
	for (size_t i = 0; i < PIECE; i++)
		piece[i] = (char)((sent + i) % PERIOD);
	ssize_t moved = lk__stream_write(opened, piece, PIECE);
	memset(piece, 0xff, PIECE);
	assert_true(moved > 0 || moved == -EAGAIN);
	return moved;
}

static ssize_t take_piece(size_t got)
{
	static char bytes[PIECE];
	ssize_t came = lk__stream_read(opened, bytes, sizeof(bytes));
	assert_true(came > 0 || came == -EAGAIN);
	for (ssize_t i = 0; i < came; i++) {
		if (bytes[i] != (char)((got + (size_t)i) % PERIOD))
			fail_msg("byte %zu is wrong", got + (size_t)i);
	}
	return came;
}

/* First we send until the echo is blocked and so are we, then both ways, by one thread. */
static void test_much_goes_both_ways(void **state)
{
	struct tls_server server = {.identity = &good};
	size_t sent = 0;
	size_t got = 0;
	ssize_t moved = 0;
	tls_server_start(&server);
	open_to(&server, "localhost", NULL, LONG_MS, -1);
	assert_int_equal(error.code, 0);
	while (moved >= 0 && sent < (256 << 20)) {
		moved = send_piece(sent);
		sent += moved > 0 ? (size_t)moved : 0;
	}
	assert_int_equal(moved, -EAGAIN);
	assert_true(opened->wants & POLLOUT);
	size_t all = sent + 10 * PIECE;
	while (got < sent) {
		moved = sent < all ? send_piece(sent) : -EAGAIN;
		sent += moved > 0 ? (size_t)moved : 0;
		ssize_t came = take_piece(got);
		got += came > 0 ? (size_t)came : 0;
		assert_true(came > 0 || !opened->buffered);
		assert_true(moved > 0 || sent >= all || opened->wants & POLLOUT);
		if (came == -EAGAIN && moved == -EAGAIN)
			wait_for_stream();
	}
	assert_true(sent >= all);
	lk__stream_close(opened);
	tls_server_join(&server);
}

static void test_a_lost_peer_raises_no_signal(void **state)
{
	struct tls_server server = {.identity = &good};
	tls_server_start(&server);
	open_to(&server, "localhost", NULL, LONG_MS, -1);
	assert_int_equal(error.code, 0);
	assert_int_equal(shutdown(opened->fd, SHUT_WR), 0);
	/* SIGPIPE would end the test here. */
	assert_int_equal(lk__stream_write(opened, "ping", 4), -EPIPE);
	lk__stream_close(opened);
	tls_server_join(&server);
}

/* A read that takes less than a record leaves the rest inside, where poll() does not see it. */
static void test_unread_bytes_are_reported(void **state)
{
	char bytes[4];
	struct tls_server server = {.identity = &good};
	tls_server_start(&server);
	open_to(&server, "localhost", NULL, LONG_MS, -1);
	assert_int_equal(error.code, 0);
	assert_int_equal(lk__stream_write(opened, "0123456789", 10), 10);
	size_t total = 0;
	while (total < 10) {
		if (!opened->buffered)
			wait_for_stream();
		ssize_t got = lk__stream_read(opened, bytes, sizeof(bytes));
		total += got > 0 ? (size_t)got : 0;
	}
	assert_int_equal(lk__stream_read(opened, bytes, sizeof(bytes)), -EAGAIN);
	lk__stream_close(opened);
	tls_server_join(&server);
}

static int setup(void **state)
{
	static const char names[] = "DNS:localhost,DNS:node.example,IP:127.0.0.1";
	assert_non_null(mkdtemp(folder));
	authority = identity_new(folder, "authority", NULL, NULL, -1, 2);
	stranger = identity_new(folder, "stranger", NULL, NULL, -1, 2);
	good = identity_new(folder, "good", &authority, names, -1, 2);
	client = identity_new(folder, "client", &authority, "DNS:client", -1, 2);
	return 0;
}

static int teardown(void **state)
{
	char command[128];
	identity_free(&authority);
	identity_free(&stranger);
	identity_free(&good);
	identity_free(&client);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_peers_are_taken),
		cmocka_unit_test(test_the_name_is_asked_for),
		cmocka_unit_test(test_wrong_names_are_refused),
		cmocka_unit_test_teardown(test_a_seed_lends_its_name, back_to_one_server),
		cmocka_unit_test_teardown(test_the_name_of_a_seed_is_not_all, back_to_one_server),
		cmocka_unit_test_teardown(test_no_seed_no_name, back_to_one_server),
		cmocka_unit_test(test_bad_certificates_are_refused),
		cmocka_unit_test(test_old_versions_are_refused),
		cmocka_unit_test(test_other_protocols_are_refused),
		cmocka_unit_test(test_a_stalled_handshake_ends_at_the_deadline),
		cmocka_unit_test(test_a_stalled_handshake_is_cancelled),
		cmocka_unit_test(test_client_certificates),
		cmocka_unit_test(test_late_refusals_are_explained),
		cmocka_unit_test(test_files_that_do_not_fit_are_named),
		cmocka_unit_test(test_a_folder_of_authorities),
		cmocka_unit_test(test_authorities_as_text),
		cmocka_unit_test(test_a_locked_key),
		cmocka_unit_test(test_what_is_verified_less),
		cmocka_unit_test(test_renewed_files_are_seen),
		cmocka_unit_test(test_much_goes_both_ways),
		cmocka_unit_test(test_a_lost_peer_raises_no_signal),
		cmocka_unit_test(test_unread_bytes_are_reported),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
