/* SPDX-License-Identifier: MIT */
#include "job_front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "exit_code.h"
#include "message.h"
#include "signals.h"
#include "tree.h"

enum front_order { FRONT_JOINED, FRONT_STOP, FRONT_DIE, FRONT_RESTORE };

struct front_message {
	int type;
	int number; /* JOINED: the command; else a signal */
};

struct front_self {
	pid_t keeper;
	pid_t command; /* 0 until it is in our group */
	int fd, signals, terminal;
	int die_of;
	int was_foreground;
	int restores;            /* the command was killed: it could not restore the settings */
	struct termios settings; /* of the terminal, before the command */
};

/* The keeper is in a background group, where stopping by terminal output must not reach it. */
static int keeper_settle(struct front *front, pid_t front_pid, pid_t shell, int fd)
{
	*front = (struct front){front_pid, getpgrp(), shell, fd};
	setpgid(0, 0);
	prctl(PR_SET_NAME, "lk-keeper");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	return getppid() == front_pid ? 0 : EXIT_TROUBLE;
}

/*
 * 1 when the command has got the signal as well: from the terminal, from one of the command's own
 * processes that signalled the whole group (vim does so to suspend itself), or from the shell that
 * wakes a job. A second SIGCONT would come later, and could undo the next Ctrl-Z.
 */
static int is_shared(const struct front_self *self, const struct signalfd_siginfo *info)
{
	if (self->command == 0)
		return 0;
	if (info->ssi_signo == SIGCONT)
		return getpgid(self->command) == getpgrp();
	/* A terminal that goes away hangs up the session's leader alone. */
	if (info->ssi_code == SI_KERNEL)
		return info->ssi_signo != SIGHUP || getsid(0) != getpid();
	pid_t sender = (pid_t)info->ssi_pid;
	return info->ssi_code == SI_USER && getpgid(sender) == getpgrp() &&
	       tree_contains(self->keeper, sender);
}

static void signal_relay(const struct front_self *self, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	union sigval value = {.sival_int = is_shared(self, info)};
	if (sigqueue(self->keeper, number, value))
		kill(self->keeper, number);
}

/* 1 when there is a shell that would notice a stopped job: an ancestor in our session, outside of
 * our group. The kernel asks the same before it stops anybody, but is misled by the guard, the
 * command's parent. */
static int has_shell(void)
{
	pid_t group = getpgrp(), session = getsid(0);
	for (pid_t pid = getppid(); pid > 1 && getsid(pid) == session; pid = tree_parent(pid)) {
		if (getpgid(pid) != group)
			return 1;
	}
	return 0;
}

/* Stops by the signal's default action. A shell that runs inside as the command has a group of its
 * own in the foreground; that group gets the terminal back. */
static void stop_here(const struct front_self *self, int number)
{
	sigset_t one;
	pid_t foreground = tcgetpgrp(self->terminal);
	struct sigaction saved, action = {.sa_handler = SIG_DFL};
	if (number == SIGSTOP)
		number = SIGTSTP;
	sigemptyset(&one);
	sigaddset(&one, number);
	sigaction(number, &action, &saved);
	sigprocmask(SIG_BLOCK, &one, NULL);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
	sigaction(number, &saved, NULL);
	if (tcgetpgrp(self->terminal) == getpgrp() && tree_contains(self->keeper, foreground))
		tcsetpgrp(self->terminal, foreground);
}

/* Answers that what came before the command was there has been relayed: signals are read before
 * orders. */
static void command_joined(struct front_self *self, pid_t command)
{
	char ready = 1;
	self->command = command;
	send(self->fd, &ready, sizeof(ready), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void order_take(struct front_self *self, const struct front_message *order)
{
	if (order->type == FRONT_JOINED)
		command_joined(self, order->number);
	else if (order->type == FRONT_DIE)
		self->die_of = order->number;
	else if (order->type == FRONT_RESTORE)
		self->restores = 1;
	else if (self->command && !tree_is_stopped(self->command))
		return; /* the order waited while we were stopped, and has been overtaken */
	else if (has_shell())
		stop_here(self, order->number);
	else
		kill(self->keeper, SIGCONT); /* nobody would ever wake us: go on at once */
}

/* Takes the next order: 1; 0 when there is none; -1 when the keeper is gone, and the guard, which
 * has inherited its end. */
static int orders_read(struct front_self *self, int flags)
{
	struct front_message order;
	ssize_t got = recv(self->fd, &order, sizeof(order), flags);
	if (got == (ssize_t)sizeof(order)) {
		order_take(self, &order);
		return 1;
	}
	return got < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
}

/* An interactive shell that was killed cannot give the terminal back, and a program that was killed
 * cannot set it to what it was. */
static void terminal_restore(const struct front_self *self)
{
	pid_t now = tcgetpgrp(self->terminal);
	if (self->was_foreground && now > 0 && now != getpgrp() && kill(-now, 0) && errno == ESRCH)
		tcsetpgrp(self->terminal, getpgrp());
	if (self->restores && self->was_foreground && tcgetpgrp(self->terminal) == getpgrp())
		tcsetattr(self->terminal, TCSADRAIN, &self->settings);
}

__attribute__((noreturn)) static void front_exit(struct front_self *self, int status)
{
	if (!WIFEXITED(status)) {
		/* The guard now ends the command; its end of the socket closes with it. */
		while (orders_read(self, 0) >= 0) {}
		self->restores = 1;
		message("the keeper of the lock was killed: the guard ended the command");
	} else {
		while (orders_read(self, MSG_DONTWAIT) > 0) {}
	}
	terminal_restore(self);
	if (self->die_of)
		signal_die(self->die_of);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_LOST);
}

static void signals_read(struct front_self *self)
{
	struct signalfd_siginfo info;
	int status;
	while (read(self->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			signal_relay(self, &info);
		else if (waitpid(self->keeper, &status, WNOHANG) == self->keeper)
			front_exit(self, status);
	}
}

__attribute__((noreturn)) static void front_serve(struct front_self *self)
{
	int open = 1;
	for (;;) {
		struct pollfd ready[] = {
			{self->signals, POLLIN, 0},
			{open ? self->fd : -1, POLLIN, 0},
		};
		if (poll(ready, 2, -1) < 0)
			continue;
		/* Signals first, see command_joined(). */
		if (ready[0].revents || ready[1].revents)
			signals_read(self);
		if (open && ready[1].revents)
			open = orders_read(self, MSG_DONTWAIT) >= 0;
	}
}

static int front_settle(struct front_self *self, const sigset_t *relayed)
{
	sigset_t set = *relayed;
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	self->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	self->was_foreground = tcgetpgrp(self->terminal) == getpgrp() &&
			       tcgetattr(self->terminal, &self->settings) == 0;
	return self->signals < 0 ? trouble_errno(errno, "cannot watch signals") : 0;
}

int front_split(struct front *front_out, lk_config *config, const sigset_t *relayed)
{
	struct front_self self = {.terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
	int pair[2];
	*front_out = (struct front){0, 0, 0, -1};
	if (self.terminal < 0)
		return 0;
	if (front_settle(&self, relayed))
		return EXIT_TROUBLE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return trouble_errno(errno, "cannot make a socket");
	pid_t front = getpid(), shell = getppid();
	self.fd = pair[0];
	self.keeper = fork();
	if (self.keeper < 0)
		return trouble_errno(errno, "cannot fork");
	if (self.keeper > 0) {
		close(pair[1]);
		lk_config_free(config);
		front_serve(&self);
	}
	close(pair[0]);
	close(self.signals);
	close(self.terminal);
	return keeper_settle(front_out, front, shell, pair[1]);
}

static void front_send(const struct front *front, enum front_order order, int number)
{
	struct front_message message = {(int)order, number};
	if (front->fd >= 0)
		send(front->fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void front_joined(const struct front *front, pid_t command)
{
	front_send(front, FRONT_JOINED, command);
}

int front_is_ready(const struct front *front)
{
	char ready;
	return front->fd >= 0 &&
	       recv(front->fd, &ready, sizeof(ready), MSG_DONTWAIT) == (ssize_t)sizeof(ready);
}

void front_stop(const struct front *front, int number)
{
	front_send(front, FRONT_STOP, number);
}

int front_is_orphaned(const struct front *front)
{
	return front->fd >= 0 && tree_parent(front->pid) != front->shell;
}

void front_restore(const struct front *front)
{
	front_send(front, FRONT_RESTORE, 0);
}

void front_finish(const struct front *front, int number)
{
	if (front->fd < 0)
		return;
	if (number)
		front_send(front, FRONT_DIE, number);
	if (getppid() == front->pid)
		kill(front->pid, SIGCONT);
}
