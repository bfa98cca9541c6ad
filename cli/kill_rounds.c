/* SPDX-License-Identifier: MIT */
#include "kill_rounds.h"

#include <pwd.h>
#include <stdio.h>

#include "clock.h"
#include "message.h"

#define PAUSE_MIN_NS (2 * NS_PER_MS)
#define PAUSE_MAX_NS (1000 * NS_PER_MS)

/* After this many rounds, a child that /proc does not show is hidden (hidepid): a child that just
 * ended would have been reaped before the next round. */
#define HIDDEN_ROUNDS 50

void kill_rounds_begin(struct kill_rounds *rounds)
{
	*rounds = (struct kill_rounds){.began_ns = clock_now_ns(), .pause_ns = PAUSE_MIN_NS};
}

/* "process 7 of user root" */
static const char *left_text(const struct kill_rounds *rounds, char *text, size_t size)
{
	uid_t user = rounds->pid ? tree_user(rounds->pid) : (uid_t)-1;
	const struct passwd *entry = user == (uid_t)-1 ? NULL : getpwuid(user);
	if (rounds->pid == 0)
		snprintf(text, size, "a process that /proc does not show");
	else if (entry)
		snprintf(text, size, "process %d of user %s", (int)rounds->pid, entry->pw_name);
	else
		snprintf(text, size, "process %d of another user", (int)rounds->pid);
	return text;
}

void kill_rounds_judge(struct kill_rounds *rounds, int living, const struct tree_denied *denied)
{
	int64_t spent_ns = clock_now_ns() - rounds->began_ns;
	rounds->unseen = living == 0 ? rounds->unseen + 1 : 0;
	rounds->left = living > 0 ? denied->count == living : rounds->unseen > HIDDEN_ROUNDS;
	rounds->pid = rounds->left ? denied->pid : 0;
	rounds->pause_ns = rounds->left ? spent_ns / 8 : PAUSE_MIN_NS;
	if (rounds->pause_ns < PAUSE_MIN_NS)
		rounds->pause_ns = PAUSE_MIN_NS;
	if (rounds->pause_ns > PAUSE_MAX_NS)
		rounds->pause_ns = PAUSE_MAX_NS;
}

void kill_rounds_say(struct kill_rounds *rounds)
{
	char text[128];
	if (rounds->said)
		return;
	rounds->said = 1;
	message("this user cannot end %s; lockkeeper keeps the lock while it runs and the "
		"server answers",
		left_text(rounds, text, sizeof(text)));
}

void kill_rounds_give_up(const struct kill_rounds *rounds)
{
	char text[128];
	message("could not end %s; it continues without the lock",
		left_text(rounds, text, sizeof(text)));
}
