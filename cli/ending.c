/* SPDX-License-Identifier: MIT */
#include "ending.h"

#include <pwd.h>
#include <stdio.h>

#include "clock.h"
#include "message.h"

#define PAUSE_MIN_NS (2 * NS_PER_MS)
#define PAUSE_MAX_NS (1000 * NS_PER_MS)

/* After this many rounds, a child that /proc does not show is hidden (hidepid): a child that just
 * ended would have been reaped before the next round. */
#define HIDDEN_ROUNDS 50

void ending_begin(struct ending *ending)
{
	*ending = (struct ending){.began_ns = clock_now_ns(), .pause_ns = PAUSE_MIN_NS};
}

/* "process 7 of user root" */
static const char *left_text(const struct ending *ending, char *text, size_t size)
{
	uid_t user = ending->pid ? tree_user(ending->pid) : (uid_t)-1;
	const struct passwd *entry = user == (uid_t)-1 ? NULL : getpwuid(user);
	if (ending->pid == 0)
		snprintf(text, size, "a process that /proc does not show");
	else if (entry)
		snprintf(text, size, "process %d of user %s", (int)ending->pid, entry->pw_name);
	else
		snprintf(text, size, "process %d of another user", (int)ending->pid);
	return text;
}

void ending_judge(struct ending *ending, int living, const struct tree_denied *denied)
{
	int64_t spent_ns = clock_now_ns() - ending->began_ns;
	ending->unseen = living == 0 ? ending->unseen + 1 : 0;
	ending->left = living > 0 ? denied->count == living : ending->unseen > HIDDEN_ROUNDS;
	ending->pid = ending->left ? denied->pid : 0;
	ending->pause_ns = ending->left ? spent_ns / 8 : PAUSE_MIN_NS;
	if (ending->pause_ns < PAUSE_MIN_NS)
		ending->pause_ns = PAUSE_MIN_NS;
	if (ending->pause_ns > PAUSE_MAX_NS)
		ending->pause_ns = PAUSE_MAX_NS;
}

void ending_say(struct ending *ending)
{
	char text[128];
	if (ending->said)
		return;
	ending->said = 1;
	message("this user cannot end %s; lockkeeper keeps the lock while it runs and the "
		"server answers",
		left_text(ending, text, sizeof(text)));
}

void ending_give_up(const struct ending *ending)
{
	char text[128];
	message("could not end %s; it continues without the lock",
		left_text(ending, text, sizeof(text)));
}
