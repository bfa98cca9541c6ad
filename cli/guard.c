/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "message.h"
#include "signals.h"
#include "tree.h"

enum guard_state { GUARD_IDLE, GUARD_RUNNING, GUARD_SIGNALLED, GUARD_KILLING, GUARD_DONE };

struct guard_self {
	const struct guard_page *page;
	enum guard_state state;
	int fd; /* to the keeper; -1 once it is gone */
	int timer, child_signals;
	int exec;  /* from the command until it is executed; -1 */
	int waits; /* it is not executed before GUARD_GO */
	pid_t child;
	int child_ended;
	int child_status;
	int64_t kill_ns;           /* when SIGNALLED: the time of SIGKILL */
	int over;                  /* the lock is lost, whatever the deadline says */
	struct kill_rounds rounds; /* when KILLING */
};

static int64_t deadline_read(const struct guard_self *self)
{
	return __atomic_load_n(&self->page->deadline_ns, __ATOMIC_ACQUIRE);
}

static void report(const struct guard_self *self, enum guard_report type, int value)
{
	struct guard_message message = {(int)type, value};
	/* A keeper that takes nothing must not stop us; at the end there is time. */
	int flags = type == GUARD_ENDED ? MSG_NOSIGNAL : MSG_NOSIGNAL | MSG_DONTWAIT;
	if (self->fd >= 0)
		send(self->fd, &message, sizeof(message), flags);
}

/* 1 while the command has a group of its own; when it has been reaped its number may be reused. */
static int owns_group(const struct guard_self *self)
{
	return self->page->join_group == 0 && !self->child_ended;
}

/* To the group: at once where it is ours alone, else to those of our descendants that are in it,
 * and to the command itself, which may have left it (an interactive shell does). */
static void group_signal(const struct guard_self *self, int number)
{
	if (owns_group(self)) {
		if (kill(-self->child, number) && errno == EPERM)
			message("SIG%s was not passed on: the command runs as another user",
				signal_name(number));
		return;
	}
	pid_t group = self->page->join_group ? self->page->join_group : self->child;
	if (!self->child_ended && getpgid(self->child) != group)
		kill(self->child, number);
	tree_signal(getpid(), group, number, NULL);
}

/* To all: the group first, for that is one call and cannot be outrun. Returns the number of
 * processes, or -1. */
static int all_signal(const struct guard_self *self, int number, struct tree_denied *denied_out)
{
	if (owns_group(self) && number == SIGKILL)
		kill(-self->child, number);
	int living = tree_signal(getpid(), 0, number, denied_out);
	if (living < 0 && !self->child_ended)
		kill(owns_group(self) ? -self->child : self->child, number);
	return living;
}

/* Ends what it can; the rest keeps the lock as long as there is one. */
static void kill_round(struct guard_self *self)
{
	struct tree_denied denied = {0, 0};
	int living = all_signal(self, SIGKILL, &denied);
	kill_rounds_judge(&self->rounds, living, &denied);
	if (!self->rounds.left)
		return;
	if (self->over || clock_now_ns() >= deadline_read(self)) {
		kill_rounds_give_up(&self->rounds);
		report(self, GUARD_LEFT, 0);
		self->state = GUARD_DONE;
		return;
	}
	if (!self->rounds.said)
		report(self, GUARD_DENIED, 0);
	kill_rounds_say(&self->rounds);
}

static void kill_begin(struct guard_self *self)
{
	self->state = GUARD_KILLING;
	kill_rounds_begin(&self->rounds);
	kill_round(self);
}

static void end_begin(struct guard_self *self)
{
	int64_t now_ns = clock_now_ns(), last_ns = deadline_read(self) - self->page->slack_ns;
	self->kill_ns = now_ns + self->page->grace_ns;
	if (self->kill_ns > last_ns)
		self->kill_ns = last_ns;
	if (self->kill_ns <= now_ns || self->waits) {
		kill_begin(self);
		return;
	}
	self->state = GUARD_SIGNALLED;
	all_signal(self, self->page->end_signal, NULL);
	all_signal(self, SIGCONT, NULL);
}

static void child_begin(struct guard_self *self)
{
	int reason = child_start(self->page, &self->child, &self->exec);
	if (reason) {
		report(self, GUARD_FAILED, reason);
		self->state = GUARD_DONE;
		return;
	}
	self->state = GUARD_RUNNING;
	self->waits = self->page->join_group != 0;
	if (self->waits)
		report(self, GUARD_JOINED, self->child);
}

static void child_let_go(struct guard_self *self)
{
	self->waits = 0;
	child_go(self->exec);
}

/* Looks whether the command was executed. */
static void exec_check(struct guard_self *self)
{
	int reason;
	ssize_t got = self->exec < 0 ? -1 : recv(self->exec, &reason, sizeof(reason), MSG_DONTWAIT);
	if (got < 0)
		return;
	close(self->exec);
	self->exec = -1;
	if (got == 0) {
		report(self, GUARD_STARTED, 0);
	} else {
		report(self, GUARD_FAILED, reason);
		self->state = GUARD_DONE;
	}
}

static void order_take(struct guard_self *self, const struct guard_message *order)
{
	int runs = self->state == GUARD_RUNNING || self->state == GUARD_SIGNALLED;
	if (order->type == GUARD_START && self->state == GUARD_IDLE)
		child_begin(self);
	else if (order->type == GUARD_GO && self->waits)
		child_let_go(self);
	else if (order->type == GUARD_FORWARD && runs)
		group_signal(self, order->value);
	else if (order->type == GUARD_END && self->state == GUARD_RUNNING)
		end_begin(self);
	else if (order->type == GUARD_KILL)
		self->over = 1;
	if (order->type == GUARD_KILL && runs)
		kill_begin(self);
}

static void orders_read(struct guard_self *self)
{
	struct guard_message order;
	ssize_t got = recv(self->fd, &order, sizeof(order), MSG_DONTWAIT);
	if (got == (ssize_t)sizeof(order)) {
		order_take(self, &order);
	} else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		close(self->fd);
		self->fd = -1;
		if (self->state == GUARD_IDLE)
			self->state = GUARD_DONE;
		else if (self->state == GUARD_RUNNING)
			end_begin(self);
	}
}

static void child_changed(struct guard_self *self, int status)
{
	if (WIFSTOPPED(status)) {
		report(self, GUARD_STOPPED, WSTOPSIG(status));
	} else if (!WIFCONTINUED(status)) {
		self->child_ended = 1;
		self->child_status = status;
		if (self->state == GUARD_RUNNING)
			self->state = GUARD_DONE;
	}
}

/* Reaps whatever ended: the command, and orphans that came to us. */
static void children_reap(struct guard_self *self)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid = 0;
	while (read(self->child_signals, &info, sizeof(info)) > 0) {}
	while (self->state != GUARD_DONE &&
	       (pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		if (pid == self->child)
			child_changed(self, status);
	}
	/* A subreaper without children has no descendants: no need to ask /proc. */
	if ((self->state == GUARD_SIGNALLED || self->state == GUARD_KILLING) && pid < 0 &&
	    errno == ECHILD)
		self->state = GUARD_DONE;
}

static void time_passed(struct guard_self *self)
{
	int64_t now_ns = clock_now_ns();
	const struct guard_page *page = self->page;
	if (self->state == GUARD_RUNNING &&
	    now_ns >= deadline_read(self) - page->slack_ns - page->grace_ns) {
		report(self, GUARD_ENDING, 0);
		end_begin(self);
	} else if (self->state == GUARD_SIGNALLED && now_ns >= self->kill_ns) {
		kill_begin(self);
	} else if (self->state == GUARD_KILLING) {
		kill_round(self);
	}
}

/* The timer runs through suspend: poll's own time-out does not. */
static void timer_set(const struct guard_self *self)
{
	int64_t at_ns = 0;
	if (self->state == GUARD_RUNNING)
		at_ns = deadline_read(self) - self->page->slack_ns - self->page->grace_ns;
	else if (self->state == GUARD_SIGNALLED)
		at_ns = self->kill_ns;
	else if (self->state == GUARD_KILLING)
		at_ns = clock_now_ns() + self->rounds.pause_ns;
	/* An instant of 0 or less would disarm it. */
	struct itimerspec when = {.it_value = clock_timespec(at_ns > 0 ? at_ns : 1)};
	if (self->state == GUARD_IDLE)
		when.it_value = (struct timespec){0, 0};
	timerfd_settime(self->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void guard_turn(struct guard_self *self)
{
	uint64_t expirations;
	timer_set(self);
	struct pollfd ready[] = {
		{self->timer, POLLIN, 0},
		{self->child_signals, POLLIN, 0},
		{self->fd, POLLIN, 0},
		{self->exec, POLLIN, 0},
	};
	if (poll(ready, sizeof(ready) / sizeof(ready[0]), -1) < 0)
		return;
	if (ready[0].revents && read(self->timer, &expirations, sizeof(expirations)) < 0)
		return;
	exec_check(self); /* before its end is seen, which follows a failure */
	if (ready[1].revents || self->state == GUARD_KILLING)
		children_reap(self);
	if (self->state != GUARD_DONE)
		time_passed(self);
	if (ready[2].revents && self->state != GUARD_DONE)
		orders_read(self);
}

/* Out of reach: a group of its own, and every signal blocked that can be. */
static int guard_settle(struct guard_self *self)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setpgid(0, 0);
	prctl(PR_SET_NAME, "lk-guard");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return trouble_errno(errno, "guard: cannot become a subreaper");
	self->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	self->child_signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	if (self->timer < 0 || self->child_signals < 0)
		return trouble_errno(errno, "guard: no descriptor");
	return 0;
}

/* The guard's own work, after the fork; returns its exit code. */
static int guard_main(int fd, const struct guard_page *page)
{
	struct guard_self self = {.page = page, .fd = fd, .exec = -1, .state = GUARD_IDLE};
	int code = guard_settle(&self);
	while (code == 0 && self.state != GUARD_DONE)
		guard_turn(&self);
	if (self.child_ended)
		report(&self, GUARD_ENDED, self.child_status);
	return code;
}

int guard_prepare(struct guard *guard_out)
{
	if (!tree_is_readable())
		return trouble("/proc does not show this process, so what the command starts could "
			       "not be found and ended in time (mount proc here)");
	void *page = mmap(NULL, sizeof(*guard_out->page), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return trouble_errno(errno, "cannot map the guard's page");
	*guard_out = (struct guard){.fd = -1, .page = page};
	return 0;
}

int guard_start(struct guard *guard, lk_config *config)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return trouble_errno(errno, "cannot make a socket for the guard");
	guard->pid = fork();
	if (guard->pid < 0)
		return trouble_errno(errno, "cannot fork the guard");
	if (guard->pid == 0) {
		close(pair[0]);
		lk_config_free(config);
		_exit(guard_main(pair[1], guard->page));
	}
	close(pair[1]);
	guard->fd = pair[0];
	return 0;
}

void guard_send(const struct guard *guard, enum guard_order order, int value)
{
	struct guard_message message = {(int)order, value};
	/* A guard that is stopped takes nothing; that must not stop us, who watch it. */
	send(guard->fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int guard_read(const struct guard *guard, struct guard_message *message_out)
{
	ssize_t got = recv(guard->fd, message_out, sizeof(*message_out), MSG_DONTWAIT);
	/* A guard that ends with an order unread resets the connection; its last words follow. */
	if (got < 0 && errno == ECONNRESET)
		got = recv(guard->fd, message_out, sizeof(*message_out), MSG_DONTWAIT);
	if (got == (ssize_t)sizeof(*message_out))
		return 1;
	return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void guard_publish(const struct guard *guard, int64_t deadline_ns)
{
	__atomic_store_n(&guard->page->deadline_ns, deadline_ns, __ATOMIC_RELEASE);
}

void guard_end(struct guard *guard)
{
	if (guard->pid <= 0)
		return;
	close(guard->fd);
	while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {}
}
