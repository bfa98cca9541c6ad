/* SPDX-License-Identifier: MIT */
#include "lock_while.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockkeeper/config.h>

#include "connect.h"
#include "descriptors.h"
#include "exit_code.h"
#include "message.h"
#include "signal_relay.h"
#include "signals.h"

/* ---- the folder in which the command was started ---- */

#define VALUE_SIZE PATH_MAX

/* The path of a URL's socket, else NULL. */
static const char *socket_path(const char *url)
{
	if (strncmp(url, "unix://", 7) != 0)
		return NULL;
	const char *path = url + 7;
	const char *at = memchr(path, '@', strcspn(path, "?"));
	return at ? at + 1 : path;
}

int working_folder_needed(const lk_config *config)
{
	char value[VALUE_SIZE];
	for (size_t i = 0; i < lk_option_count(); i++) {
		const lk_option_info *row = lk_option_at(i);
		int is_url = strcmp(row->name, "url") == 0;
		if (!is_url && strcmp(row->type, "file") != 0)
			continue;
		if (lk_config_get(config, row->name, value, sizeof(value)) <= 0)
			continue;
		const char *path = is_url ? socket_path(value) : value;
		if (path && *path != '/' && strncasecmp(path, "%2F", 3) != 0)
			return 1;
	}
	return 0;
}

/* A list of paths with colons between. */
static void paths_root(const char *variable, const char *folder)
{
	const char *value = getenv(variable);
	char *list = value ? strdup(value) : NULL, *next = list, *path, *rooted = NULL;
	size_t size;
	FILE *out = list ? open_memstream(&rooted, &size) : NULL;
	while (out && (path = strsep(&next, ":")))
		fprintf(out, "%s%s%s%s", *path && *path != '/' ? folder : "",
			*path && *path != '/' ? "/" : "", path, next ? ":" : "");
	if (out && fclose(out) == 0)
		setenv(variable, rooted, 1);
	free(rooted);
	free(list);
}

/* Goes to the root. OpenSSL's variables, which each connection may use, name the same files. */
static void working_folder_leave(void)
{
	char folder[PATH_MAX];
	if (getcwd(folder, sizeof(folder))) {
		paths_root("SSL_CERT_FILE", folder);
		paths_root("SSL_CERT_DIR", folder);
	}
	if (chdir("/"))
		errno = 0; /* then it stays where it is */
}

#define TURN_MS 1000         /* between looks at what nothing tells of */
#define PRINT_LIMIT_MS 30000 /* for the first process to print the owner */
#define ASK_LIMIT_S 1        /* for one that has connected to say what it wants */
#define ANSWER_LIMIT_S (RELEASE_LIMIT_S + 5)
#define TEXT_SIZE 512

/* The keeper's word to the first process. */
struct word {
	int code; /* 0: it has the lock; else an exit code */
	char owner[LK_FIELD_SIZE];
};

/* The keeper's answer to `unlock`. */
struct answer {
	int other;                     /* it keeps another name */
	int code;                      /* exit code */
	char server[SERVER_TEXT_SIZE]; /* which it asked */
	char text[TEXT_SIZE];
};

/* ---- the first process ---- */

static int owner_print(int wire, pid_t keeper, const char *owner)
{
	int status = 0;
	puts(owner);
	int code = output_finish();
	if (code == 0 && send(wire, "", 1, MSG_NOSIGNAL) == 1)
		return 0;
	close(wire); /* it gives the lock back */
	waitpid(keeper, &status, 0);
	if (code == 0 && WIFEXITED(status))
		code = WEXITSTATUS(status);
	return code ? code : trouble("the process that was to keep the lock has ended");
}

/* Passes signals on while it waits. Those of the terminal have reached the keeper as well. */
static int first_wait(int wire, pid_t keeper)
{
	struct signalfd_siginfo taken;
	struct word word;
	sigset_t passed;
	sigemptyset(&passed);
	sigaddset(&passed, SIGINT);
	sigaddset(&passed, SIGTERM);
	sigaddset(&passed, SIGHUP);
	sigaddset(&passed, SIGQUIT);
	sigprocmask(SIG_BLOCK, &passed, NULL);
	signal(SIGPIPE, SIG_IGN);
	int signals = signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK);
	struct pollfd ready[] = {{wire, POLLIN, 0}, {signals, POLLIN, 0}};
	do {
		ready[0].revents = 0;
		if (poll(ready, 2, -1) < 0 && errno != EINTR)
			break;
		while (read(signals, &taken, sizeof(taken)) == sizeof(taken))
			if (taken.ssi_code <= 0)
				kill(keeper, (int)taken.ssi_signo);
	} while (!ready[0].revents);
	if (recv(wire, &word, sizeof(word), 0) != sizeof(word))
		return trouble("the process that was to keep the lock has ended");
	return word.code ? word.code : owner_print(wire, keeper, word.owner);
}

/* ---- split ---- */

/* Closes what the script has open, which is not ours to keep open: a pipe, a lock file. */
static void descriptors_shed(const struct lock_while *keeper)
{
	int a = keeper->wire, b = keeper->watched.fd < 0 ? a : keeper->watched.fd;
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
	descriptors_close(STDERR_FILENO + 1, low - 1);
	descriptors_close(low + 1, high - 1);
	descriptors_close(high + 1, ~0U);
}

int while_split(struct lock_while *keeper, int *code_out)
{
	int pair[2];
	pid_t first = getpid();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		*code_out = trouble_errno(errno, "cannot make a socket");
		return -1;
	}
	pid_t pid = fork();
	if (pid < 0) {
		*code_out = trouble_errno(errno, "cannot start a process");
		return -1;
	}
	close(pair[pid ? 1 : 0]);
	if (pid) {
		*code_out = first_wait(pair[0], pid);
		return 1;
	}
	keeper->wire = pair[1];
	keeper->listener = -1;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != first)
		_exit(EXIT_TROUBLE);
	descriptors_shed(keeper);
	return 0;
}

/* ---- where unlock finds it ---- */

/* In the abstract name space: nothing is left behind. */
static socklen_t place_fill(struct sockaddr_un *place, const char *owner)
{
	*place = (struct sockaddr_un){.sun_family = AF_UNIX};
	int size = snprintf(place->sun_path + 1, sizeof(place->sun_path) - 1, "lockkeeper-lock:%s",
			    owner);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

static int listener_open(struct lock_while *keeper)
{
	struct sockaddr_un place;
	socklen_t size = place_fill(&place, keeper->owner);
	keeper->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (keeper->listener < 0 || bind(keeper->listener, (struct sockaddr *)&place, size) ||
	    listen(keeper->listener, 4))
		return trouble_errno(errno, "cannot listen for unlock");
	return 0;
}

static int peer_is_us(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static void limits_set(int fd, time_t receive_s)
{
	struct timeval receive = {receive_s, 0}, send_limit = {ASK_LIMIT_S, 0};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof(receive));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof(send_limit));
}

int while_unlock(const char *name, const char *owner, int verbose, int *code_out)
{
	struct sockaddr_un place;
	struct answer answer;
	if (*owner == '\0' || strlen(owner) >= LK_FIELD_SIZE)
		return 0;
	socklen_t size = place_fill(&place, owner);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	limits_set(fd, ANSWER_LIMIT_S);
	int answered = connect(fd, (struct sockaddr *)&place, size) == 0 && peer_is_us(fd) &&
		       send(fd, name, strlen(name), MSG_NOSIGNAL) == (ssize_t)strlen(name) &&
		       recv(fd, &answer, sizeof(answer), 0) == sizeof(answer) && !answer.other;
	close(fd);
	if (!answered)
		return 0;
	answer.text[sizeof(answer.text) - 1] = '\0';
	answer.server[sizeof(answer.server) - 1] = '\0';
	if (verbose)
		message("server: %s", answer.server);
	if (answer.code)
		message("%s", answer.text);
	else if (verbose)
		message("released %.200s", name);
	*code_out = answer.code;
	return 1;
}

/* ---- handing over ---- */

/* Tells whether a signal has come that asks us to end. */
static int is_told_to_end(int *number_out)
{
	struct relay_signal taken;
	while (relay_read(&taken)) {
		if (!signal_ends_wait(taken.number))
			continue;
		*number_out = taken.number;
		return 1;
	}
	return 0;
}

/* Nothing of the script is kept: its session, its streams, its folder unless that is needed. */
static void detach(struct lock_while *keeper)
{
	int number, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, 0);
	while (is_told_to_end(&number)) {} /* the end of the first process */
	setsid();
	if (!keeper->needs_folder)
		working_folder_leave();
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	if (null > STDERR_FILENO)
		close(null);
	close(keeper->wire);
	keeper->wire = -1;
}

int while_hand(struct lock_while *keeper, lk_lock *lock)
{
	lk_error error = {0};
	struct word word = {.code = 0};
	char said;
	int number;
	if (lk_lock_export(lock, NULL, keeper->owner, sizeof(keeper->owner), &error))
		return trouble_library(&error);
	int code = listener_open(keeper);
	if (code)
		return code;
	memcpy(word.owner, keeper->owner, sizeof(word.owner));
	struct pollfd ready[] = {{keeper->wire, POLLIN, 0}, {relay_fd(), POLLIN, 0}};
	send(keeper->wire, &word, sizeof(word), MSG_NOSIGNAL);
	poll(ready, 2, PRINT_LIMIT_MS);
	/* From here on it either is printed and heard of, or it is not heard of. */
	shutdown(keeper->wire, SHUT_RD);
	if (recv(keeper->wire, &said, 1, MSG_DONTWAIT) == 1) {
		detach(keeper);
		return 0;
	}
	return is_told_to_end(&number) ? EXIT_SIGNAL_BASE + number : EXIT_TROUBLE;
}

void while_end(struct lock_while *keeper, int code)
{
	struct word word = {.code = code ? code : EXIT_TROUBLE};
	if (keeper->wire >= 0)
		send(keeper->wire, &word, sizeof(word), MSG_NOSIGNAL);
}

/* ---- keeping ---- */

static void script_tell(struct lock_while *keeper)
{
	if (keeper->told)
		return;
	keeper->told = 1;
	process_handle_signal(&keeper->watched, keeper->signal);
}

static void lease_check(struct lock_while *keeper, lk_client *client, lk_lock *lock)
{
	int64_t left_ms;
	keeper->notice.struct_size = sizeof(keeper->notice);
	while (lk_event_wait(client, &keeper->notice, 0, NULL, NULL) == 1)
		script_tell(keeper); /* at risk, or lost */
	if (!keeper->lost && lk_lock_remaining_ms(lock, NULL, &left_ms, NULL)) {
		keeper->lost = 1;
		script_tell(keeper);
	}
}

static int release_code(int result)
{
	return result == LK_ELOST || result == LK_ENOTOWNER ? EXIT_LOST : result ? EXIT_TROUBLE : 0;
}

static void release(const struct lock_while *keeper, lk_lock *lock, struct answer *answer)
{
	lk_error error = {0};
	const lk_event *notice = &keeper->notice;
	relay_release(0, RELEASE_LIMIT_S, 0);
	answer->code = release_code(lk_lock_release(lock, NULL, &error));
	relay_released();
	snprintf(answer->text, sizeof(answer->text), "%.200s%s%s%s%s", library_text(&error),
		 *notice->reason ? ": " : "", notice->server, *notice->server ? ": " : "",
		 notice->reason);
}

/* One that has connected. Whether the lock is released. */
static int unlock_serve(const struct lock_while *keeper, lk_client *client, lk_lock *lock,
			const char *name)
{
	struct answer answer = {.other = 1};
	size_t size = strlen(name);
	char *asked = malloc(size + 1);
	int fd = accept4(keeper->listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0 && asked && peer_is_us(fd)) {
		limits_set(fd, ASK_LIMIT_S);
		ssize_t got = recv(fd, asked, size + 1, 0);
		answer.other = got != (ssize_t)size || memcmp(asked, name, size) != 0;
		server_text(client, answer.server, sizeof(answer.server));
		if (!answer.other)
			release(keeper, lock, &answer);
		send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
	}
	if (fd >= 0)
		close(fd);
	free(asked);
	return !answer.other;
}

void while_keep(struct lock_while *keeper, lk_client *client, lk_lock *lock, const char *name)
{
	struct answer unheard;
	int number;
	for (;;) {
		struct pollfd ready[] = {
			{keeper->watched.fd, POLLIN, 0},
			{keeper->listener, POLLIN, 0},
			{relay_fd(), POLLIN, 0},
			{lk_event_fd(client, NULL), POLLIN, 0},
		};
		if (poll(ready, 4, TURN_MS) < 0)
			ready[1].revents = 0;
		lease_check(keeper, client, lock);
		if ((ready[1].revents & POLLIN) && unlock_serve(keeper, client, lock, name))
			return;
		if (!process_handle_lives(&keeper->watched)) {
			release(keeper, lock, &unheard);
			return;
		}
		if (is_told_to_end(&number)) {
			script_tell(keeper);
			return; /* the client is closed, and the lock left to its lease */
		}
	}
}
