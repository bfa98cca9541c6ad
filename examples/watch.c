/*
 * Looking on: what happens to locks that others take.
 *
 * usage: watch NAME…
 *
 * Prints who has each lock, and each change when it happens. Stop it with Ctrl-C.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockkeeper.h>

static lk_error error;

static void need(int result)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
}

static void show(const lk_change *change)
{
	static const char *const ends[] = {
		[LK_CHANGE_RELEASED] = "released", [LK_CHANGE_BROKEN] = "broken",
		[LK_CHANGE_EXPIRED] = "expired",   [LK_CHANGE_LOST] = "lost with the server's data",
		[LK_CHANGE_UNKNOWN] = "gone",
	};
	if (change->kind == LK_CHANGE_GAP)
		printf("%s: something may have been missed: %s\n", change->name, change->reason);
	else if (change->kind >= LK_CHANGE_RELEASED && change->kind <= LK_CHANGE_UNKNOWN)
		printf("%s: %s\n", change->name, ends[change->kind]);
	else if (change->owner && change->client)
		printf("%s: held by pid %lld on %s\n", change->name, (long long)change->client->pid,
		       change->client->host);
	else
		printf("%s: %s\n", change->name, change->owner ? "held" : "free");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	lk_client *client = NULL;
	lk_watch *watch = NULL;
	if (argc < 2) {
		fprintf(stderr, "usage: watch NAME…\n");
		return 2;
	}
	need(lk_client_open(&client, NULL, &error)); /* NULL: what LOCKKEEPER_URL says */
	need(lk_watch_new(&watch, client, NULL, &error));
	for (int i = 1; i < argc; i++)
		need(lk_watch_add(watch, argv[i], LK_STRLEN, &error));
	for (;;) {
		lk_change change = LK_CHANGE_INIT;
		need(lk_watch_next(watch, -1, NULL, &change, &error));
		show(&change);
	}
}
