/* A server in a thread that takes one connection, on the loopback address. */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include <pthread.h>

#include "certificates.h"

enum tls_server_mode {
	TLS_SERVER_ECHO,  /* shakes hands, then sends back what comes */
	TLS_SERVER_STALL, /* accepts and says nothing until the peer has gone */
	TLS_SERVER_PLAIN, /* answers as a server that does not know TLS */
	TLS_SERVER_CLOSE, /* closes when the first bytes have come */
};

struct tls_server {
	enum tls_server_mode mode;
	const struct identity *identity;
	const struct identity *client_issuer; /* asks for a certificate of this one, or NULL */
	int version_most;                     /* TLS1_2_VERSION …, or 0 */
	int listener;
	int port;
	char name_asked[256]; /* SNI; read it after tls_server_join() */
	pthread_t thread;
};

void tls_server_start(struct tls_server *server);
void tls_server_join(struct tls_server *server);

#endif
