/* SPDX-License-Identifier: MIT */
#include "asker.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "message.h"
#include "owner.h"

#define AGAIN_MS 300

enum asked asker_ask(lk_lock *lock, const char *reason, lk_error *error)
{
	char who[128], host[65] = "?";
	int owners = 0, listeners = 0;
	if (!reason) {
		gethostname(host, sizeof(host) - 1);
		snprintf(who, sizeof(who), "pid %ld on %s", (long)getpid(), host);
	}
	for (int i = 0; i < 2; i++) {
		if (i > 0)
			poll(NULL, 0, AGAIN_MS);
		if (lk_lock_ask(lock, reason ? reason : who, &owners, &listeners, error))
			return ASKED_FAILED;
		if (owners == 0)
			return ASKED_FREE;
		if (listeners > 0)
			return ASKED_HEARD;
	}
	return ASKED_UNHEARD;
}

void asker_say_unheard(lk_client *client, const char *name)
{
	char who[OWNER_TEXT_SIZE] = "another client";
	lk_lock_info info = LK_LOCK_INFO_INIT;
	lk_scan *scan = NULL;
	if (lk_scan_new(&scan, client, NULL, NULL) == 0 &&
	    lk_scan_show(scan, name, strlen(name), &info, NULL) == 0 && info.holder_count > 0)
		holder_text(scan, &info, &info.holders[0], who, sizeof(who));
	lk_scan_free(scan);
	message("%.200s: its holder does not listen to requests (run --yield, or --on ask): %s",
		name, who);
}
