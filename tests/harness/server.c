#include "server.h"

#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "waiting.h"

#define START_LIMIT_MS 15000
#define PORT_TRIES 5
#define AGAIN_TRIES 50   /* a tenth of a second apart: another suite may have the port */
#define PORT_FIRST 10000 /* below those that the system gives to connections */
#define PORT_END 32000

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "harness: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	abort();
}

/*
 * A port that was free a moment ago; who loses the race for it tries another. Not one that the
 * system gives to connections: a server that is started again needs the same one.
 */
static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 100; i++) {
		uint16_t number = 0;
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || getrandom(&number, sizeof(number), 0) != sizeof(number))
			give_up("no free port: %s", strerror(errno));
		int port = PORT_FIRST + number % (PORT_END - PORT_FIRST);
		address.sin_port = htons((uint16_t)port);
		bool free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
		close(fd);
		if (free)
			return port;
	}
	give_up("no free port in 100 tries");
}

/* Whether LK_TEST_DEPLOYMENT=cluster asks for servers that are each a cluster of its own. */
static bool is_cluster(void)
{
	const char *deployment = getenv("LK_TEST_DEPLOYMENT");
	return deployment && strcmp(deployment, "cluster") == 0;
}

static void run_server(const struct server *server, pid_t parent)
{
	char port[16], bus[16], log[96];
	snprintf(port, sizeof(port), "%d", server->port);
	snprintf(log, sizeof(log), "%s/log", server->folder);
	/* clang-format off */
	const char *line[SERVER_ARGUMENTS_MAX * 2] = {
		"redis-server", "--port", port, "--bind", "127.0.0.1", "-::1",
		"--unixsocket", server->socket, "--dir", server->folder, "--logfile", log,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
		"--enable-debug-command", "local",
	};
	/* clang-format on */
	size_t count = 0;
	while (line[count])
		count++;
	if (is_cluster()) {
		snprintf(bus, sizeof(bus), "%d", server->bus_port);
		line[count++] = "--cluster-enabled";
		line[count++] = "yes";
		line[count++] = "--cluster-port";
		line[count++] = bus;
	}
	for (size_t i = 0; server->arguments && server->arguments[i]; i++) {
		if (i == SERVER_ARGUMENTS_MAX)
			_exit(125);
		line[count++] = server->arguments[i];
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(125);
	execvp(line[0], (char **)(uintptr_t)line);
	_exit(127);
}

/* The cluster's only node takes all slots. It serves them some time after each start. */
static bool serves_slots(redisContext *context)
{
	redisReply *taken = redisCommand(context, "CLUSTER ADDSLOTSRANGE 0 16383");
	redisReply *info = redisCommand(context, "CLUSTER INFO");
	bool refused = taken && taken->type == REDIS_REPLY_ERROR && strncmp(taken->str, "ERR", 3);
	bool serves = info && info->str && strstr(info->str, "cluster_state:ok");
	if (taken)
		freeReplyObject(taken);
	if (info)
		freeReplyObject(info);
	return serves || refused; /* NOAUTH: the suite asks by itself */
}

static bool answers(const struct server *server)
{
	struct timeval limit = {.tv_sec = 1};
	redisContext *context = redisConnectUnixWithTimeout(server->socket, limit);
	bool answered = false;
	if (context && !context->err) {
		redisSetTimeout(context, limit);
		redisReply *reply = redisCommand(context, "PING");
		answered = reply != NULL; /* an error is an answer too: NOAUTH */
		if (reply)
			freeReplyObject(reply);
		answered = answered && (!is_cluster() || serves_slots(context));
	}
	if (context)
		redisFree(context);
	return answered;
}

/* Runs it once; false when it ended by itself. */
static bool start_once(struct server *server)
{
	pid_t parent = getpid();
	server->pid = fork();
	if (server->pid < 0)
		give_up("fork: %s", strerror(errno));
	if (server->pid == 0)
		run_server(server, parent);
	int64_t end_ms = now_ms() + slow_ms(START_LIMIT_MS);
	while (!answers(server)) {
		if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
			server->pid = 0;
			return false;
		}
		if (now_ms() > end_ms)
			give_up("redis-server does not answer; see %s/log", server->folder);
		sleep_ms(5);
	}
	return true;
}

void server_start(struct server *server, const char *const *arguments)
{
	memset(server, 0, sizeof(*server));
	server->arguments = arguments;
	const char *folder = getenv("TMPDIR");
	snprintf(server->folder, sizeof(server->folder), "%s/lk-test-XXXXXX",
		 folder ? folder : "/tmp");
	if (!mkdtemp(server->folder))
		give_up("mkdtemp: %s", strerror(errno));
	snprintf(server->socket, sizeof(server->socket), "%s/socket", server->folder);
	snprintf(server->url_unix, sizeof(server->url_unix), "unix://%s", server->socket);
	for (int tries = 0; tries < PORT_TRIES; tries++) {
		server->port = free_port();
		server->bus_port = is_cluster() ? free_port() : 0;
		snprintf(server->url_tcp, sizeof(server->url_tcp), "%s://127.0.0.1:%d",
			 is_cluster() ? "redis-cluster" : "redis", server->port);
		if (is_cluster())
			memcpy(server->url_unix, server->url_tcp, sizeof(server->url_tcp));
		if (start_once(server))
			return;
	}
	give_up("redis-server ends at once (is it installed?); see %s/log", server->folder);
}

void server_kill(struct server *server)
{
	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	server->pid = 0;
}

void server_start_again(struct server *server)
{
	for (int tries = 0; tries < AGAIN_TRIES; tries++) {
		unlink(server->socket);
		if (start_once(server))
			return;
		sleep_ms(100);
	}
	give_up("redis-server does not start again; see %s/log", server->folder);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type, (void)place;
	return remove(path);
}

/* With whatever the server wrote there. */
void server_stop(struct server *server)
{
	server_kill(server);
	nftw(server->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void server_pause(struct server *server)
{
	int status;
	kill(server->pid, SIGSTOP);
	while (waitpid(server->pid, &status, WUNTRACED) < 0 && errno == EINTR)
		;
}

void server_resume(struct server *server)
{
	kill(server->pid, SIGCONT);
}
