/* SPDX-License-Identifier: MIT */
/* The keeper's side of the hooks. */
#include "hooks.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "message.h"
#include "signal_relay.h"

/* Behind the limit of the hooks: what it takes to kill the last of them. */
#define END_SLACK_MS 1000

int hooks_take(struct hook_list *list, const char *value)
{
	const char *end = strchr(value, '=');
	unsigned events = 0;
	if (!end || end[1] == '\0')
		return trouble("option --on: '%s' is not EVENT=COMMAND", value);
	for (const char *at = value; at <= end; at++) {
		size_t size = strcspn(at, ",=");
		int type = run_event_find(at, size);
		if (type < 0)
			return trouble("option --on: '%.*s' is not an event (start, skip, timeout, "
				       "risk, lost, ask, end, error)",
				       size > 100 ? 100 : (int)size, at);
		events |= 1U << type;
		at += size;
	}
	if (list->count == HOOKS_MAX)
		return trouble("option --on: more than %d hooks", HOOKS_MAX);
	list->hooks[list->count++] = (struct hook){events, end + 1};
	list->events |= events;
	return 0;
}

/* The first child ends at once, which makes an orphan of the second. */
__attribute__((noreturn)) static void runner_become(int fd, const struct hook_job *job,
						    lk_config *config)
{
	setsid();
	pid_t child = fork();
	if (child)
		_exit(child < 0 ? errno : 0);
	lk_config_free(config);
	hook_runner_main(fd, job);
	_exit(0);
}

void hooks_begin(struct hooks *hooks_out, const struct hook_job *job, lk_config *config)
{
	int pair[2], status = 0;
	*hooks_out = (struct hooks){-1};
	if (job->list->count == 0)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		message_at(LK_LOG_WARNING, "no hook will run: %s", strerror(errno));
		return;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 0); /* what executed us may have set it */
	pid_t child = fork();
	int why = errno;
	if (child == 0) {
		close(pair[0]);
		runner_become(pair[1], job, config);
	}
	close(pair[1]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
	if (child < 0 || status) {
		message_at(LK_LOG_WARNING, "no hook will run: cannot fork: %s",
			   strerror(child < 0 ? why : WEXITSTATUS(status)));
		close(pair[0]);
		return;
	}
	hooks_out->fd = pair[0];
}

static void hooks_send(const struct hooks *hooks, const struct run_event *event, int is_promise)
{
	struct hook_message told;
	if (hooks->fd < 0)
		return;
	memset(&told, 0, sizeof(told)); /* what lies between its members is sent as well */
	memcpy(&told.event, event, sizeof(told.event));
	told.is_promise = is_promise;
	if (send(hooks->fd, &told, sizeof(told), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && !is_promise)
		message_at(LK_LOG_WARNING, "the hooks of %s do not run: %s",
			   run_event_name(event->type), strerror(errno));
}

void hooks_tell(const struct hooks *hooks, const struct run_event *event)
{
	hooks_send(hooks, event, 0);
}

void hooks_promise(const struct hooks *hooks, const struct run_event *event)
{
	hooks_send(hooks, event, 1);
}

void hooks_end(struct hooks *hooks)
{
	int64_t until_ns = clock_now_ns() + (HOOKS_END_LIMIT_MS + END_SLACK_MS) * NS_PER_MS;
	if (hooks->fd < 0)
		return;
	relay_linger();
	/* This gives the reader an end of file even where others have copies of the descriptor. */
	shutdown(hooks->fd, SHUT_WR);
	for (;;) {
		struct pollfd ready[] = {{hooks->fd, POLLIN, 0}, {relay_fd(), POLLIN, 0}};
		int64_t left_ms = (until_ns - clock_now_ns()) / NS_PER_MS;
		if (left_ms <= 0)
			break;
		int count = poll(ready, 2, (int)left_ms);
		if (count > 0 || (count < 0 && errno != EINTR))
			break;
	}
	close(hooks->fd);
	hooks->fd = -1;
}
