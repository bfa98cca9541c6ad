#include "tls_server.h"

#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define PATIENCE_MS 30000

static SSL_CTX *make_context(const struct tls_server *server)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	/* So that the versions before TLS 1.2 work at all. */
	SSL_CTX_set_security_level(context, 0);
	SSL_CTX_set_max_proto_version(context, server->version_most);
	SSL_CTX_use_certificate(context, server->identity->certificate);
	SSL_CTX_use_PrivateKey(context, server->identity->key);
	if (server->client_issuer) {
		X509_STORE_add_cert(SSL_CTX_get_cert_store(context),
				    server->client_issuer->certificate);
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
				   NULL);
	}
	return context;
}

static void echo(struct tls_server *server, int fd)
{
	static char bytes[1 << 16];
	SSL_CTX *context = make_context(server);
	SSL *ssl = SSL_new(context);
	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1) {
		const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
		snprintf(server->name_asked, sizeof(server->name_asked), "%s", name ? name : "");
		int got;
		while ((got = SSL_read(ssl, bytes, sizeof(bytes))) > 0 &&
		       SSL_write(ssl, bytes, got) > 0)
			;
	}
	SSL_free(ssl);
	SSL_CTX_free(context);
	ERR_clear_error();
}

static void serve(struct tls_server *server, int fd)
{
	char bytes[4096];
	if (server->mode == TLS_SERVER_ECHO) {
		echo(server, fd);
		return;
	}
	while (recv(fd, bytes, sizeof(bytes), 0) > 0 && server->mode == TLS_SERVER_STALL)
		;
	if (server->mode == TLS_SERVER_PLAIN)
		send(fd, "-ERR unknown command\r\n", 22, MSG_NOSIGNAL);
}

static void *run(void *argument)
{
	struct tls_server *server = argument;
	sigset_t pipe_signal;
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE); /* OpenSSL's own socket raises it */
	pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
	if (poll(&(struct pollfd){server->listener, POLLIN, 0}, 1, PATIENCE_MS) == 1) {
		int fd = accept(server->listener, NULL, NULL);
		serve(server, fd);
		close(fd);
	}
	return NULL;
}

void tls_server_start(struct tls_server *server)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(server->listener, 5), 0);
	assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
	server->port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
}

void tls_server_join(struct tls_server *server)
{
	/* A listener that is shut down ends a poll() that nobody has come to. */
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->listener);
}
