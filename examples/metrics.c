/*
 * Serves the metrics of a program's locks to Prometheus at http://127.0.0.1:PORT/metrics, while it
 * works under a lock each second:
 *
 *     metrics PORT
 *
 * The library writes a text; how it travels is the program's. Here libmicrohttpd has one thread.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockkeeper.h>
#include <microhttpd.h>

#define OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	(void)signal_number;
	stopped = 1;
}

/* The text in memory of its own; NULL: no memory, or more series came with each try. */
static char *written(lk_client *client, int format, size_t *length)
{
	lk_stats_source source = {client, NULL};
	size_t size = 16384;
	for (int tries = 0; tries < 3; tries++, size = *length + 1024) {
		char *text = malloc(size);
		if (!text || lk_stats_write(&source, 1, format, text, size, length, NULL) == 0)
			return text;
		free(text);
	}
	return NULL;
}

static enum MHD_Result answer(void *client, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	(void)method, (void)version, (void)upload, (void)upload_size, (void)state;
	const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
	bool open = accept && strstr(accept, "application/openmetrics-text");
	static char nothing[1];
	size_t length = 0;
	char *text = strcmp(url, "/metrics") == 0 ? written(client, open, &length) : NULL;
	struct MHD_Response *response = MHD_create_response_from_buffer(
		text ? length : 0, text ? text : nothing,
		text ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	MHD_add_response_header(response, "Content-Type", open ? OPEN_TYPE : TEXT_TYPE);
	enum MHD_Result result = MHD_queue_response(connection, text ? 200 : 404, response);
	MHD_destroy_response(response);
	return result;
}

static void work(lk_lock *lock)
{
	lk_error error;
	if (lk_lock_acquire(lock, 1000, NULL, &error) == 0) {
		usleep(500000);
		lk_lock_release(lock, NULL, &error);
	}
	usleep(500000);
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_lock *lock = NULL;
	lk_error error = {0};
	uint16_t port = (uint16_t)(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
	if (lk_client_open(&client, NULL, &error) ||
	    lk_stats_declare(client, "measured", LK_STRLEN, &error) ||
	    lk_lock_new(&lock, client, "measured", LK_STRLEN, &error)) {
		fprintf(stderr, "no lock: %s\n", error.message);
		return 1;
	}
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, port, NULL,
						     NULL, answer, client, MHD_OPTION_SOCK_ADDR,
						     &at, MHD_OPTION_END);
	if (!daemon)
		fprintf(stderr, "port %u cannot be served\n", port);
	while (daemon && !stopped)
		work(lock);
	if (daemon)
		MHD_stop_daemon(daemon);
	lk_lock_free(lock);
	lk_client_free(client);
	return !daemon;
}
