/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "exit_code.h"

static const int relayed[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGWINCH, SIGCONT, SIGTSTP,
};

/* Every C library knows these, and no two have the same call for their names. */
static const char *const names[] = {
	[SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
	[SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
	[SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
	[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
	[SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
	[SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
	[SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
	[SIGPOLL] = "POLL", [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
};
#define NAMES ((int)(sizeof(names) / sizeof(names[0])))

static int number_parse(const char *text)
{
	char *end;
	if (*text < '0' || *text > '9')
		return -1;
	long number = strtol(text, &end, 10);
	return *end == '\0' && number >= 1 && number < NSIG ? (int)number : -1;
}

int signal_parse(const char *text)
{
	if (*text >= '0' && *text <= '9')
		return number_parse(text);
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	if (strncasecmp(text, "RTMIN", 5) == 0) {
		int offset = text[5] == '+' ? number_parse(text + 6) : text[5] == '\0' ? 0 : -1;
		int number = offset < 0 ? -1 : SIGRTMIN + offset;
		return number <= SIGRTMAX ? number : -1;
	}
	for (int number = 1; number < NAMES; number++)
		if (names[number] && strcasecmp(names[number], text) == 0)
			return number;
	return -1;
}

const char *signal_name(int number)
{
	if (number > 0 && number < NAMES && names[number])
		return names[number];
	return number >= SIGRTMIN && number <= SIGRTMAX ? "RT" : "?";
}

static void relayed_add(sigset_t *set, int number)
{
	struct sigaction action;
	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(set, number);
}

void signals_relayed(sigset_t *set_out)
{
	sigemptyset(set_out);
	for (size_t i = 0; i < sizeof(relayed) / sizeof(relayed[0]); i++)
		relayed_add(set_out, relayed[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		relayed_add(set_out, number);
}

void signal_die(int number)
{
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, number);
	signal(number, SIG_DFL);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	_exit(EXIT_SIGNAL_BASE + number);
}

int signal_ends_wait(int number)
{
	return number != SIGWINCH && number != SIGCONT && number != SIGTSTP;
}
