/*
 * A lock in a GLib main loop.
 *
 * usage: glib NAME [MS]
 */
#include <glib-unix.h>

#include "job.h"

/* ---- the adapter ---- */

/* A descriptor of the library, and what is to be called when it is readable. */
struct watch {
	GSource *source;
	void (*ready)(void *context);
	void *context;
};

static gboolean on_readable(gint fd, GIOCondition condition, gpointer data)
{
	const struct watch *watch = data;
	(void)fd;
	(void)condition;
	watch->ready(watch->context);
	return G_SOURCE_CONTINUE;
}

/* `context` is the loop's; NULL is the default one. */
static void watch_start(struct watch *watch, GMainContext *context, int fd)
{
	watch->source = g_unix_fd_source_new(fd, G_IO_IN);
	g_source_set_callback(watch->source, G_SOURCE_FUNC(on_readable), watch, NULL);
	g_source_attach(watch->source, context);
}

/* The library closes the descriptor. */
static void watch_stop(struct watch *watch)
{
	g_source_destroy(watch->source);
	g_source_unref(watch->source);
}

/* ---- the program ---- */

static GMainLoop *loop;

static gboolean on_timer(gpointer job)
{
	job_worked(job);
	return G_SOURCE_REMOVE;
}

static void work(struct job *job)
{
	g_timeout_add((guint)job->work_ms, on_timer, job);
}

static void end(struct job *job)
{
	(void)job;
	g_main_loop_quit(loop);
}

int main(int argc, char **argv)
{
	struct job job = {.work = work, .end = end};
	struct watch queue = {.ready = job_ready, .context = &job};
	job_start(&job, argc, argv);
	loop = g_main_loop_new(NULL, FALSE);
	watch_start(&queue, NULL, lk_queue_fd(job.queue, NULL));
	g_main_loop_run(loop);
	watch_stop(&queue);
	g_main_loop_unref(loop);
	return job_end(&job);
}
