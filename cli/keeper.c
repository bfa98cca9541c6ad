/* SPDX-License-Identifier: MIT */
#include "keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asker.h"
#include "child.h"
#include "clock.h"
#include "connect.h"
#include "descriptors.h"
#include "elect_watch.h"
#include "exit_code.h"
#include "guard.h"
#include "job_front.h"
#include "job_metrics.h"
#include "kind.h"
#include "message.h"
#include "options.h"
#include "outer.h"
#include "report.h"
#include "run_hold.h"
#include "signal_relay.h"
#include "signals.h"
#include "telling.h"
#include "tree.h"
#include "wait_status.h"

/* The time between the last SIGKILL and the end of the lease, to find and end the rest. */
#define SLACK_MIN_MS 10
#define SLACK_MAX_MS 500

/* Between two tries to ask for the number of permits, while -w lasts. */
#define PREPARE_PAUSE_MS 100

/* So long the keeper waits for those who read its messages. */
#define MESSAGE_LIMIT_MS 200

/* How long the deadline in the guard's page may lag behind, at most. */
#define REFRESH_MAX_MS 1000

#define RENEWED_PART 3            /* a lease is renewed at a third */
#define END_MOST_MS INT64_C(5500) /* what a longer lease keeps at its end, without -k */

/* So often the keeper looks for progress within the time that it may take. */
#define PROGRESS_LOOKS 10

struct keeper {
	const struct keeper_options *options;
	pid_t started_pid; /* of the front, where there is one */
	struct front front;
	struct guard guard;
	const lk_config *config;
	struct run_hold hold;
	lk_cancel *cancel;
	struct wait_status waiting;
	struct report report;
	struct job_metrics metrics;
	struct telling telling;
	struct elect_watch watch;
	char asked[LK_FIELD_SIZE]; /* to resign, or who is to lead; "": nothing */
	char names[256];           /* all of them, as -v names them */
	lk_event notice;           /* the last one: why it is not renewed, and who confirmed it */
	int64_t granted_ns;        /* not before the grant */
	int skipped;               /* another owner has the lock */
	int acquired;              /* the lock was granted, */
	int released;              /* and the server has released it */
	int started;               /* the command runs, or ran */
	int ended;                 /* nothing runs any more */
	int suspended;             /* the front was stopped with the command */
	int guard_died;
	int guard_killed; /* by us, for it was late */
	int denied;       /* the guard waits for processes that it cannot end */
	int exec_errno;
	int status;   /* the command's wait status */
	int yielding; /* somebody has asked for the lock: the command is being ended */
	int lost;     /* the lock was lost, or about to be, while the command ran */
	int gone;     /* it has no deadline any more: killed, not signalled */
};

static int64_t slack_ms(int64_t lease_ms)
{
	int64_t slack = lease_ms / 10;
	return slack < SLACK_MIN_MS ? SLACK_MIN_MS : slack > SLACK_MAX_MS ? SLACK_MAX_MS : slack;
}

/* How long before the end of the lease the command is ended. */
static int64_t end_ms(const struct keeper *keeper)
{
	return keeper->options->grace_ms + slack_ms(keeper->options->lease_ms);
}

/* A notice comes a little before that: then it says why. */
static int64_t margin_ms(const struct keeper *keeper)
{
	return end_ms(keeper) + slack_ms(keeper->options->lease_ms) / 4;
}

static int guard_fill(struct keeper *keeper, lk_config *config, const sigset_t *mask)
{
	const struct keeper_options *options = keeper->options;
	int code = guard_prepare(&keeper->guard);
	if (code)
		return code;
	struct guard_page *page = keeper->guard.page;
	page->grace_ns = options->grace_ms * NS_PER_MS;
	page->slack_ns = slack_ms(options->lease_ms) * NS_PER_MS;
	page->end_signal = options->end_signal;
	page->started = keeper->started_pid;
	page->join_group = keeper->front.group;
	page->argv = options->argv;
	page->name = options->name;
	page->elects = options->election != NULL;
	page->meets = options->parties > 0;
	page->run = keeper->telling.facts.id;
	page->mask = *mask;
	descriptors_raise(&page->descriptors);
	return guard_start(&keeper->guard, config);
}

int keeper_hears(const struct keeper_options *options)
{
	return options->yields || (options->tell.hooks.events & (1U << RUN_ASK));
}

static int acquire_once(struct keeper *keeper, int64_t wait_ms, lk_error *error)
{
	lk_acquire_options acquire = LK_ACQUIRE_OPTIONS_INIT;
	acquire.cancel = keeper->cancel;
	acquire.hears_asks = keeper_hears(keeper->options);
	acquire.margin_ms = margin_ms(keeper);
	int result = run_hold_prepare(&keeper->hold, error);
	if (result < 0 && relay_cause())
		return error->code = LK_ECANCELLED;
	if (result < 0)
		return result;
	return run_hold_acquire(&keeper->hold, wait_ms, &acquire, error);
}

/* The job was suspended while it waited: it has left the wait queue. Returns when it goes on; 0, or
 * -1 when it was ended instead. */
static int suspend(struct keeper *keeper)
{
	struct relay_signal taken = {0, 0};
	front_stop(&keeper->front, SIGTSTP);
	while (taken.number != SIGCONT) {
		struct pollfd ready[] = {{relay_fd(), POLLIN, 0}, {keeper->front.fd, 0, 0}};
		if (relay_read(&taken))
			continue;
		if (relay_cause() != SIGTSTP || (poll(ready, 2, -1) > 0 && ready[1].revents))
			return -1;
	}
	relay_resume();
	lk_cancel_reset(keeper->cancel);
	return 0;
}

/* Something else has one of the names: of several servers the first that shows it says so. */
static void other_kinds_say(const struct keeper *keeper)
{
	const struct keeper_options *options = keeper->options;
	const struct lock_kind *wanted = options->permits   ? NULL
					 : options->parties ? &kind_barrier
							    : options->kind;
	int said = 0;
	for (size_t i = 0; !said && i < keeper->hold.count; i++)
		said = other_kind_say(keeper->hold.clients[i], options->name, wanted);
	for (size_t i = 0; i < options->also_count; i++)
		other_kind_say(keeper->hold.clients[0], options->also[i], wanted);
}

/* Tells what the library reported about the names. */
static int keeper_trouble(const struct keeper *keeper, const lk_error *error)
{
	int code = trouble_library(error);
	if (error->code == LK_EWRONGTYPE)
		other_kinds_say(keeper);
	return code;
}

static void holder_tell(struct keeper *keeper)
{
	char holder[OWNER_TEXT_SIZE] = "";
	if (telling_wants_holder(&keeper->telling))
		wait_status_holder(&keeper->waiting, holder, sizeof(holder));
	telling_missed(&keeper->telling, holder, keeper->options->wait_ms == 0);
}

/* The exit code when there is no lock, which -E may have made 0. */
static int acquire_fail(struct keeper *keeper, const lk_error *error)
{
	int number = relay_cause();
	if (error->code == LK_ECANCELLED && number) {
		front_finish(&keeper->front, number == SIGINT ? number : 0);
		return EXIT_SIGNAL_BASE + (number == SIGTSTP ? SIGHUP : number);
	}
	if (error->code != LK_EBUSY && error->code != LK_ETIMEDOUT)
		return keeper_trouble(keeper, error);
	keeper->skipped = 1;
	holder_tell(keeper);
	wait_status_nested(&keeper->waiting);
	/* A conflict is an answer, no failure: the exit code tells of it, and who has the lock. */
	if (keeper->options->told.verbose) {
		message("%s", library_text(error));
		report_missed(&keeper->report);
	}
	wait_status_conclude(&keeper->waiting);
	return keeper->options->conflict_code;
}

/* As many as there is room for. */
static void names_fill(struct keeper *keeper)
{
	const struct keeper_options *options = keeper->options;
	char *names = keeper->names;
	size_t size = sizeof(keeper->names);
	size_t used = (size_t)snprintf(names, size, "%.200s", options->name);
	for (size_t i = 0; i < options->also_count && used < size; i++)
		used += (size_t)snprintf(names + used, size - used, ", %.200s", options->also[i]);
}

/* Asks the holder to give the lock up: 0, and it is waited for; or -1, with the error. */
static int replace(const struct keeper *keeper, lk_error *error)
{
	switch (asker_ask(keeper->hold.lock, NULL, error)) {
	case ASKED_FAILED:
		return -1;
	case ASKED_UNHEARD:
		asker_say_unheard(keeper->hold.clients[0], keeper->options->name);
		error->code = LK_EBUSY;
		return -1;
	default:
		return 0;
	}
}

/* 0 with the lock held; else -1, and the exit code. */
static int acquire(struct keeper *keeper, int *code_out)
{
	lk_error error = {0};
	int64_t wait_ms = keeper->options->wait_ms, left_ms = wait_ms, began_ns = clock_now_ns();
	struct wait_status_wish told = keeper->options->told;
	told.group = keeper->front.group;
	told.also = keeper->options->also;
	told.also_count = keeper->options->also_count;
	names_fill(keeper);
	report_begin(&keeper->report, keeper->names, told.verbose);
	told.once = wait_ms == 0;
	if (!keeper->options->election)
		wait_status_begin(&keeper->waiting, keeper->hold.clients[0], keeper->hold.lock,
				  keeper->options->name, &told);
	if (keeper->options->replaces && replace(keeper, &error)) {
		wait_status_end(&keeper->waiting);
		*code_out = acquire_fail(keeper, &error);
		return -1;
	}
	for (;;) {
		int64_t waited_ms = (clock_now_ns() - began_ns) / NS_PER_MS;
		if (wait_ms > 0)
			left_ms = wait_ms > waited_ms ? wait_ms - waited_ms : 0;
		int result = acquire_once(keeper, left_ms, &error);
		if (result == 0)
			break;
		if (result == LK_ECANCELLED && relay_cause() == SIGTSTP && suspend(keeper) == 0)
			continue;
		if (keeper->hold.unset && left_ms > 0 && trouble_passes(keeper->config, result)) {
			poll(&(struct pollfd){relay_fd(), POLLIN, 0}, 1, PREPARE_PAUSE_MS);
			continue;
		}
		wait_status_end(&keeper->waiting);
		if (keeper->options->outcome && lk_error_is_retryable(result))
			keeper->options->outcome->passes = 1;
		*code_out = acquire_fail(keeper, &error);
		return -1;
	}
	wait_status_end(&keeper->waiting);
	keeper->acquired = 1;
	report_acquired(&keeper->report);
	keeper->granted_ns = clock_now_ns();
	return 0;
}

/* The last notice's reason, with the server unless that is said already. */
static const char *reason_text(const struct keeper *keeper, int names_server)
{
	static char text[LK_NODE_SIZE + LK_EVENT_REASON_SIZE + 4];
	const lk_event *notice = &keeper->notice;
	int server = *notice->server && !(names_server && !strcmp(notice->server, notice->node));
	snprintf(text, sizeof(text), "%s%s%s", server ? notice->server : "", server ? ": " : "",
		 notice->reason);
	return text;
}

/* Copies the deadline into the guard's page; a hold that is lost has none. */
static void deadline_refresh(struct keeper *keeper)
{
	int64_t deadline_ns;
	lk_error error = {0};
	if (run_hold_deadline(&keeper->hold, &deadline_ns, &error) == 0) {
		guard_publish(&keeper->guard, deadline_ns);
	} else if (!keeper->gone) {
		keeper->gone = keeper->lost = 1;
		const char *why = reason_text(keeper, 1);
		message("%s: %s%s%s%s%s", keeper->options->name, library_text(&error),
			*keeper->notice.node ? ", last confirmed by " : "", keeper->notice.node,
			*why ? ": " : "", why);
		guard_send(&keeper->guard, GUARD_KILL, 0);
		if (keeper->started)
			telling_lost(&keeper->telling);
	}
}

/* Somebody asks for the lock. A command that is not started yet is ended once it is. */
static void asked_for(struct keeper *keeper, const char *why)
{
	const struct keeper_options *options = keeper->options;
	telling_asked(&keeper->telling, why);
	if (options->yields || options->told.verbose)
		message("%.200s is asked for%s%s%s%s", options->name, *why ? " (" : "", why,
			*why ? ")" : "", options->yields ? ": ending the command" : "");
	if (!options->yields)
		return;
	keeper->yielding = 1;
	if (keeper->started)
		guard_send(&keeper->guard, GUARD_END, 0);
}

static void events_read(struct keeper *keeper)
{
	keeper->notice.struct_size = sizeof(keeper->notice);
	while (lk_event_wait(keeper->hold.clients[0], &keeper->notice, 0, NULL, NULL) == 1) {
		const char *why = reason_text(keeper, 0);
		if (keeper->notice.type == LK_EVENT_ASKED)
			asked_for(keeper, why);
		if (keeper->notice.type != LK_EVENT_AT_RISK)
			continue;
		telling_risk(&keeper->telling);
		if (keeper->options->told.verbose)
			message("the lease of %s is about to end%s%s", keeper->options->name,
				*why ? ": " : "", why);
	}
	deadline_refresh(keeper);
}

static void signals_read(struct keeper *keeper)
{
	struct relay_signal taken;
	while (relay_read(&taken)) {
		if (taken.number == SIGCONT)
			keeper->suspended = 0;
		if (!taken.shared)
			guard_send(&keeper->guard, GUARD_FORWARD, taken.number);
	}
}

/* The guard has died, and the command by the kernel with it; what it left has come to us. What
 * cannot be ended keeps the lock as long as there is one. */
static void guard_lost(struct keeper *keeper)
{
	struct kill_rounds rounds;
	struct tree_denied denied = {0, 0};
	keeper->guard_died = 1;
	keeper->ended = 1;
	message(keeper->guard_killed
			? "the guard did not end the command in time: lockkeeper killed both"
			: "the guard was killed; ending the command");
	kill_rounds_begin(&rounds);
	for (;;) {
		int living = tree_signal(getpid(), 0, SIGKILL, &denied);
		while (waitpid(-1, NULL, WNOHANG) > 0) {}
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return;
		kill_rounds_judge(&rounds, living, &denied);
		deadline_refresh(keeper);
		if (rounds.left && keeper->gone) {
			kill_rounds_give_up(&rounds);
			return;
		}
		if (rounds.left)
			kill_rounds_say(&rounds);
		poll(NULL, 0, (int)(rounds.pause_ns / NS_PER_MS));
	}
}

static void report_take(struct keeper *keeper, const struct guard_message *report)
{
	const char *why;
	switch (report->type) {
	case GUARD_JOINED:
		front_joined(&keeper->front, report->value);
		break;
	case GUARD_STARTED:
		keeper->started = 1;
		telling_started(&keeper->telling);
		if (keeper->yielding)
			guard_send(&keeper->guard, GUARD_END, 0);
		break;
	case GUARD_FAILED:
		keeper->exec_errno = report->value;
		keeper->ended = 1;
		break;
	case GUARD_STOPPED:
		keeper->suspended = keeper->front.fd >= 0;
		front_stop(&keeper->front, report->value);
		break;
	case GUARD_ENDING:
		keeper->lost = 1;
		events_read(keeper);
		why = reason_text(keeper, 0);
		message("the lease of %s cannot be renewed: ending the command%s%s%s",
			keeper->options->name, *why ? " (" : "", why, *why ? ")" : "");
		telling_lost(&keeper->telling);
		break;
	case GUARD_DENIED:
		keeper->denied = 1;
		break;
	case GUARD_LEFT:
		keeper->lost = keeper->ended = 1;
		break;
	case GUARD_ENDED:
		keeper->status = report->value;
		keeper->ended = 1;
		break;
	}
}

static void reports_read(struct keeper *keeper)
{
	struct guard_message report;
	int got = 0;
	while (!keeper->ended && (got = guard_read(&keeper->guard, &report)) == 1)
		report_take(keeper, &report);
	if (!keeper->ended && got < 0)
		guard_lost(keeper);
}

/* The front was killed: nobody waits for the command any more. A stopped job whose shell has gone
 * is hung up, as the kernel does with others. */
static void front_check(struct keeper *keeper, int front_gone)
{
	if (front_gone) {
		guard_send(&keeper->guard, GUARD_END, 0);
		keeper->front.fd = -1;
	} else if (keeper->suspended && front_is_orphaned(&keeper->front)) {
		keeper->suspended = 0;
		guard_send(&keeper->guard, GUARD_FORWARD, SIGHUP);
		guard_send(&keeper->guard, GUARD_FORWARD, SIGCONT);
		kill(-keeper->front.group, SIGHUP);
		kill(-keeper->front.group, SIGCONT);
	}
}

/* The guard of the guard: one that is stopped, and should have ended all by now, is killed. */
static void guard_check(struct keeper *keeper)
{
	const struct guard_page *page = keeper->guard.page;
	if (keeper->ended || keeper->denied ||
	    clock_now_ns() <= page->deadline_ns - page->slack_ns / 2)
		return;
	keeper->guard_killed = 1;
	kill(keeper->guard.pid, SIGKILL);
}

/* The leader is asked to give its place to another: the command ends first. */
static void asked_obey(const struct keeper *keeper)
{
	message("%s: asked to %s%s: ending the command", keeper->options->name,
		elect_watch_names_one(keeper->asked) ? "hand over to " : "", keeper->asked);
	guard_send(&keeper->guard, GUARD_END, 0);
}

/* How often it looks around while the command runs. */
static int64_t keep_turn_ms(const struct keeper_options *options)
{
	int64_t turn_ms = options->lease_ms / 20;
	int64_t shows_ms = options->election ? options->election->progress_ms : 0;
	if (shows_ms && turn_ms > shows_ms / PROGRESS_LOOKS)
		turn_ms = shows_ms / PROGRESS_LOOKS;
	return turn_ms > REFRESH_MAX_MS ? REFRESH_MAX_MS : turn_ms;
}

static void keep(struct keeper *keeper)
{
	int64_t turn_ms = keep_turn_ms(keeper->options);
	int events = lk_event_fd(keeper->hold.clients[0], NULL);
	int asked = keeper->watch.begun ? keeper->watch.asked_fd : -1;
	guard_send(&keeper->guard, GUARD_START, 0);
	while (!keeper->ended) {
		struct pollfd ready[] = {
			{keeper->guard.fd, POLLIN, 0}, {relay_fd(), POLLIN, 0}, {events, POLLIN, 0},
			{keeper->front.fd, POLLIN, 0}, {asked, POLLIN, 0},
		};
		/* Whatever poll() says, the command is not left alone. */
		if (poll(ready, 5, (int)turn_ms) < 0 && errno != EINTR)
			poll(NULL, 0, 1);
		elect_watch_progress(&keeper->watch);
		events_read(keeper);
		reports_read(keeper);
		int front_ready = front_is_ready(&keeper->front);
		signals_read(keeper); /* before GO: what the front relayed before it was ready */
		if (front_ready)
			guard_send(&keeper->guard, GUARD_GO, 0);
		front_check(keeper, ready[3].revents & (POLLHUP | POLLERR));
		guard_check(keeper);
		if (elect_watch_asked(&keeper->watch, keeper->asked))
			asked_obey(keeper);
	}
}

/* A guard that was killed for the lease's sake was only too slow. */
static int is_lost(const struct keeper *keeper)
{
	return keeper->lost || keeper->guard_killed;
}

static int exit_code(const struct keeper *keeper)
{
	if (keeper->exec_errno)
		return keeper->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
	if (is_lost(keeper))
		return EXIT_LOST;
	if (keeper->guard_died)
		return EXIT_TROUBLE;
	return WIFSIGNALED(keeper->status) ? EXIT_SIGNAL_BASE + WTERMSIG(keeper->status)
					   : WEXITSTATUS(keeper->status);
}

/* For how long the lock is to stay behind its command, if that ran. */
static int64_t keep_ms(const struct keeper *keeper)
{
	int64_t passed_ms = (clock_now_ns() - keeper->granted_ns) / NS_PER_MS;
	return keeper->started && passed_ms < keeper->options->hold_ms
		       ? keeper->options->hold_ms - passed_ms
		       : 0;
}

static void release_unknown(const struct keeper *keeper)
{
	int64_t kept_ms = keep_ms(keeper);
	if (kept_ms) {
		message("unknown whether %s stays locked for %" PRId64
			" ms, as --hold-at-least wants: it may be free before, or locked for "
			"%" PRId64 " ms",
			keeper->options->name, kept_ms,
			kept_ms > keeper->options->lease_ms ? kept_ms : keeper->options->lease_ms);
		return;
	}
	message("unknown whether %s was released: it may stay locked for %" PRId64 " ms",
		keeper->options->name, keeper->options->lease_ms);
}

static void release_take(struct keeper *keeper, int64_t kept_ms, int result, const lk_error *error)
{
	keeper->released = result == 0;
	if (result == 0)
		report_released(&keeper->report, kept_ms);
	if (result == 0 || keeper->lost)
		return;
	message("%s", library_text(error));
	if (result == LK_ELOST || result == LK_ENOTOWNER)
		keeper->lost = keeper->started;
	else
		release_unknown(keeper);
}

/* The library repeats the release until the lease is over, which may be an hour; we wait less. */
static void release(struct keeper *keeper, int code)
{
	lk_error error = {0};
	int64_t kept_ms = keep_ms(keeper);
	report_held(&keeper->report);
	telling_releasing(&keeper->telling, code, is_lost(keeper));
	relay_release(code, RELEASE_LIMIT_S, kept_ms > 0);
	int result = LK_EBUSY;
	if (elect_watch_names_one(keeper->asked))
		result = lk_election_transfer(keeper->hold.election, keeper->asked, &error);
	if (result && result != LK_EMAYBEHELD && result != LK_ENOTDURABLE)
		result = run_hold_release(&keeper->hold, kept_ms, &error);
	release_take(keeper, kept_ms, result, &error);
	relay_released();
}

/* Without the lock there may still be a try that was granted unheard; and a failover may undo a
 * release that replicas lack. */
static void clients_close(const struct keeper *keeper)
{
	int unknown = run_hold_close(&keeper->hold);
	if (unknown && (!keeper->acquired || (keeper->released && keeper->hold.count == 1)))
		release_unknown(keeper);
	relay_released();
}

static void exec_failed(const struct keeper *keeper)
{
	const char *file = keeper->options->argv[0];
	trouble_errno(keeper->exec_errno, "cannot execute %s", file);
	if (keeper->exec_errno == ENOENT && *file == '-')
		message("the options of %s stand before NAME", keeper->options->command);
	else if (keeper->exec_errno == ENOENT && strchr(file, ' ') && !strchr(file, '/'))
		message("%s -c STRING takes a line of the shell", keeper->options->command);
}

/* Waits until the others of a barrier have left, which they do as their commands end. Returns the
 * exit code: another than `code` where they have not, or a signal ended the wait. */
static int others_await(struct keeper *keeper, int code)
{
	lk_error error = {0};
	int result;
	if (!keeper->hold.others_inside || is_lost(keeper))
		return code;
	if (keeper->options->told.verbose)
		message("%s: others are still inside", keeper->options->name);
	relay_wait();
	lk_cancel_reset(keeper->cancel);
	do
		result = lk_barrier_leave(keeper->hold.barrier, -1, keeper->cancel, &error);
	while (result == LK_ECANCELLED && relay_cause() == SIGTSTP && suspend(keeper) == 0);
	if (result == 0)
		return code;
	return result == LK_ECANCELLED ? acquire_fail(keeper, &error) : trouble_library(&error);
}

/* The exit code, with what there is to say about it. */
static int exit_say(const struct keeper *keeper)
{
	int code = exit_code(keeper);
	if (keeper->lost || keeper->guard_died || WIFSIGNALED(keeper->status))
		front_restore(&keeper->front);
	if (keeper->exec_errno) {
		exec_failed(keeper);
	} else if (code > EXIT_SIGNAL_BASE && WIFSIGNALED(keeper->status)) {
		if (keeper->options->told.verbose)
			message("SIG%s ended the command", signal_name(WTERMSIG(keeper->status)));
		front_finish(&keeper->front, WTERMSIG(keeper->status) == SIGINT ? SIGINT : 0);
	}
	return code;
}

/* Without it the leader is not asked anything, and leads. */
static int watch_begin(struct keeper *keeper)
{
	const struct keeper_options *options = keeper->options;
	return options->election
		       ? elect_watch_begin(&keeper->watch, keeper->hold.clients[0], options->name,
					   keeper->hold.election, options->election)
		       : 0;
}

/* With the lock held: runs the command, and releases. */
static int work(struct keeper *keeper)
{
	lk_error error = {0};
	struct guard_page *page = keeper->guard.page;
	if (run_hold_deadline(&keeper->hold, &page->deadline_ns, &error) ||
	    run_hold_owner(&keeper->hold, page->owner, sizeof(page->owner), &error)) {
		trouble_library(&error);
		return EXIT_TROUBLE; /* lost before anything ran under it */
	}
	page->fence = run_hold_fence(&keeper->hold);
	telling_granted(&keeper->telling, page->owner, page->fence);
	outer_text(keeper->hold.clients, keeper->hold.count, page->outer);
	report_owner(&keeper->report, page->owner, keeper->hold.clients[0]);
	relay_run();
	relay_resume(); /* a suspension that came too late for the wait is meant for the command */
	if (relay_cause()) {
		/* The grant was faster than the cancel: it goes back unused. */
		release(keeper, EXIT_SIGNAL_BASE + relay_cause());
		front_finish(&keeper->front, relay_cause() == SIGINT ? SIGINT : 0);
		return EXIT_SIGNAL_BASE + relay_cause();
	}
	job_metrics_started(&keeper->metrics);
	watch_begin(keeper);
	keep(keeper);
	release(keeper, exit_code(keeper));
	int code = others_await(keeper, exit_say(keeper));
	telling_over(&keeper->telling, code, is_lost(keeper));
	job_metrics_ended(&keeper->metrics, code, keeper->lost);
	return code;
}

/* Warns if a lease is too short for a failover, in which the command would be ended. Blocks for
 * about 3 s at most, and in a cluster for the command limit. */
static void failover_warn(const struct keeper *keeper)
{
	int64_t lease_ms = keeper->options->lease_ms, ends_ms = end_ms(keeper);
	int64_t failover_ms = 0;
	if (lk_failover_time(keeper->hold.clients[0], &failover_ms, NULL))
		return;
	if (failover_ms <= lease_ms - lease_ms / RENEWED_PART - ends_ms)
		return;
	int64_t most_ms = ends_ms > END_MOST_MS ? ends_ms : END_MOST_MS;
	int64_t least_ms = (failover_ms + most_ms) * RENEWED_PART / (RENEWED_PART - 1);
	message("a failover may take %" PRId64 " ms, and the command would be ended in it: a lease "
		"of %" PRId64 " s outlasts it (-l)",
		failover_ms, (least_ms + 999) / 1000);
}

static int keeper_serve(struct keeper *keeper, lk_config *config, const sigset_t *relayed)
{
	lk_error error = {0};
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return trouble_errno(errno, "cannot become a subreaper");
	size_t servers = keeper->options->nodes.count;
	int code = descriptors_check(servers ? servers : 1);
	keeper->config = config;
	log_begin(config, keeper->options->told.verbose);
	if (code == 0)
		code = run_hold_open(&keeper->hold, keeper->options, config);
	if (code)
		return code;
	if (lk_cancel_new(&keeper->cancel, &error))
		return trouble_library(&error);
	if (run_hold_make(&keeper->hold, margin_ms(keeper), &error))
		return keeper_trouble(keeper, &error);
	code = relay_begin(relayed, keeper->front.pid, keeper->cancel);
	if (code)
		return code;
	if (keeper->options->told.verbose)
		servers_say(keeper->hold.clients, keeper->hold.count);
	if (keeper->options->election && keeper->options->election->ready_file)
		code = watch_begin(keeper);
	if (code)
		return code;
	if (acquire(keeper, &code) == 0) {
		if (keeper->options->told.verbose && keeper->hold.count == 1)
			failover_warn(keeper);
		return work(keeper);
	}
	relay_release(code, RELEASE_LIMIT_S, 0);
	return code;
}

static void outcome_note(const struct keeper *keeper)
{
	struct keeper_outcome *outcome = keeper->options->outcome;
	if (!outcome || !keeper->acquired)
		return;
	outcome->acquired = 1;
	outcome->started = keeper->started;
	outcome->asked = *keeper->asked != '\0';
	outcome->leaving = keeper->watch.leaving;
	outcome->held_ms = (clock_now_ns() - keeper->granted_ns) / NS_PER_MS;
}

int keeper_run(lk_config *config, const struct keeper_options *options)
{
	struct keeper keeper = {.options = options, .started_pid = getpid()};
	sigset_t relayed, mask;
	message_limit(MESSAGE_LIMIT_MS);
	relay_block(&relayed, &mask);
	child_save_signals();
	job_metrics_begin(&keeper.metrics, options->metrics_file, options->name);
	int code = front_split(&keeper.front, config, &relayed);
	telling_begin(&keeper.telling, &options->tell, options->name, &mask, config);
	if (code == 0)
		code = guard_fill(&keeper, config, &mask);
	if (code == 0)
		code = keeper_serve(&keeper, config, &relayed);
	if (!keeper.metrics.granted_ns)
		job_metrics_missed(&keeper.metrics, keeper.skipped);
	telling_over(&keeper.telling, code, is_lost(&keeper));
	outcome_note(&keeper);
	elect_watch_end(&keeper.watch);
	clients_close(&keeper);
	guard_end(&keeper.guard);
	wait_status_join(&keeper.waiting);
	run_hold_free(&keeper.hold);
	telling_end(&keeper.telling);
	lk_cancel_free(keeper.cancel);
	front_finish(&keeper.front, 0);
	return code;
}
