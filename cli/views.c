/* SPDX-License-Identifier: MIT */
#include "views.h"

#include <string.h>

#include "exit_code.h"
#include "message.h"

static void view_ask(struct view *view, lk_client *client, const char *name)
{
	view->info.struct_size = sizeof(view->info);
	view->code = lk_scan_new(&view->scan, client, NULL, &view->error);
	if (view->code == 0)
		view->code = lk_scan_show(view->scan, name, strlen(name), &view->info,
					  &view->error);
}

void views_ask(struct views *views_out, const struct session *session, const char *name)
{
	*views_out = (struct views){.count = session->count};
	for (size_t i = 0; i < session->count; i++) {
		struct view *view = &views_out->of[i];
		view_ask(view, session->clients[i], name);
		views_out->silent += view->code != 0;
		views_out->held += view->code == 0 &&
				   (view->info.holder_count > 0 || view->info.is_counter);
	}
}

int views_say(const struct views *views)
{
	int code = 0;
	for (size_t i = 0; i < views->count; i++)
		if (views->of[i].code)
			code = trouble_library(&views->of[i].error);
	return code;
}

int views_tell(const struct views *views, const char *name)
{
	size_t majority = views->count / 2 + 1;
	if (views->held >= majority)
		return 0;
	if (views->held + views->silent < majority)
		return EXIT_FREE;
	if (views->count == 1)
		return EXIT_TROUBLE;
	return trouble("%s: %zu of %zu servers have it, and %zu cannot be asked: that does not "
		       "tell whether it is held",
		       name, views->held, views->count, views->silent);
}

void views_free(struct views *views)
{
	for (size_t i = 0; i < views->count; i++)
		lk_scan_free(views->of[i].scan);
}
