#include "drive/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/fail.h"
#include "drive/hangup.h"
#include "drive/take_back.h"
#include "drive/watch.h"

#define TICK_MS 5     /* while answers are expected that nobody reads */
#define IDLE_TICKS 20 /* ticks without any before it stops */

struct lk__loop {
	lk_client *client;
	pthread_t pthread;
	struct lk__thread thread; /* its place as a reader */
	uv_loop_t uv;
	uv_async_t wake;
	uv_poll_t timer;
	uv_timer_t tick;
	int timer_fd;
	unsigned idle_ticks;
	struct lk__hangups hangups;
	_Atomic bool attending, verify, stop;
};

static void loop_arm(struct lk__loop *loop, int64_t at_ns)
{
	struct itimerspec when = {0};
	if (at_ns != LK__NEVER) {
		when.it_value.tv_sec = (time_t)(at_ns / INT64_C(1000000000));
		when.it_value.tv_nsec = (long)(at_ns % INT64_C(1000000000));
	}
	timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void loop_turn(struct lk__loop *loop)
{
	if (atomic_exchange(&loop->verify, false))
		lk__watch_all(loop->client);
	int64_t watch_ns = lk__watch_turn(loop->client);
	int64_t take_back_ns = lk__take_back_turn(loop->client);
	loop_arm(loop, watch_ns < take_back_ns ? watch_ns : take_back_ns);
}

static bool loop_read(struct lk__loop *loop)
{
	struct lk__topo *topo = loop->client->topo;
	struct lk__node *node;
	bool expected = false;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++) {
		for (size_t j = 0; j < node->script_count; j++)
			expected |= lk__conn_attend(&node->scripts[j], &loop->thread);
		expected |= lk__conn_attend(&node->messages, &loop->thread);
		expected |= lk__conn_attend(&node->work, &loop->thread);
	}
	return expected;
}

static void loop_on_tick(uv_timer_t *tick)
{
	struct lk__loop *loop = tick->data;
	loop->idle_ticks = loop_read(loop) ? 0 : loop->idle_ticks + 1;
	if (loop->idle_ticks < IDLE_TICKS)
		return;
	uv_timer_stop(tick);
	atomic_store(&loop->attending, false);
	if (loop_read(loop))
		lk__loop_attend(loop->client);
}

static void loop_on_timer(uv_poll_t *timer, int status, int events)
{
	struct lk__loop *loop = timer->data;
	uint64_t count;
	ssize_t got = read(loop->timer_fd, &count, sizeof(count));
	(void)got;
	(void)status;
	(void)events;
	loop_turn(loop);
}

static void loop_watch_connections(struct lk__loop *loop)
{
	struct lk__topo *topo = loop->client->topo;
	struct lk__node *node;
	for (size_t i = 0; (node = topo->ops->node_at(topo, i)); i++)
		lk__hangups_turn(&loop->hangups, node);
}

static void loop_on_wake(uv_async_t *wake)
{
	struct lk__loop *loop = wake->data;
	if (atomic_load(&loop->stop)) {
		uv_stop(&loop->uv);
		return;
	}
	loop_watch_connections(loop);
	loop_turn(loop);
	if (atomic_load(&loop->attending) && !uv_is_active((uv_handle_t *)&loop->tick)) {
		loop->idle_ticks = 0;
		uv_timer_start(&loop->tick, loop_on_tick, TICK_MS, TICK_MS);
	}
}

static void *loop_main(void *argument)
{
	struct lk__loop *loop = argument;
	pthread_setname_np(pthread_self(), "lockkeeper");
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	return NULL;
}

static int loop_init(struct lk__loop *loop, lk_client *client, lk_error *error)
{
	loop->client = client;
	loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return lk__fail_errno(error, LK_ESYSTEM, errno, "timerfd");
	int rc = uv_loop_init(&loop->uv);
	if (rc < 0) {
		close(loop->timer_fd);
		return lk__fail_errno(error, LK_ESYSTEM, -rc, "background loop");
	}
	rc = uv_async_init(&loop->uv, &loop->wake, loop_on_wake);
	if (rc == 0)
		rc = uv_poll_init(&loop->uv, &loop->timer, loop->timer_fd);
	if (rc == 0)
		rc = uv_timer_init(&loop->uv, &loop->tick);
	loop->wake.data = loop->timer.data = loop->tick.data = loop;
	loop->hangups = (struct lk__hangups){.uv = &loop->uv, .thread = &loop->thread};
	if (rc == 0)
		rc = uv_poll_start(&loop->timer, UV_READABLE, loop_on_timer);
	return rc < 0 ? lk__fail_errno(error, LK_ESYSTEM, -rc, "background loop") : 0;
}

static int loop_launch(lk_client *client, lk_error *error)
{
	struct lk__loop *loop = calloc(1, sizeof(*loop));
	if (!loop)
		return lk__fail(error, LK_ENOMEM, "background loop: out of memory");
	int rc = loop_init(loop, client, error);
	if (rc == 0) {
		rc = lk__thread_start(&loop->pthread, 0, loop_main, loop);
		if (rc)
			rc = lk__fail_errno(error, LK_ESYSTEM, rc,
					    "cannot start the background thread");
	}
	if (rc < 0) {
		free(loop);
		return rc;
	}
	atomic_store(&client->loop, loop);
	return 0;
}

static struct lk__loop *client_loop(lk_client *client)
{
	return atomic_load_explicit(&client->loop, memory_order_acquire);
}

int lk__loop_start(lk_client *client, lk_error *error)
{
	int rc = 0;
	if (client_loop(client))
		return 0;
	pthread_mutex_lock(&client->mutex);
	if (!client_loop(client))
		rc = loop_launch(client, error);
	pthread_mutex_unlock(&client->mutex);
	return rc;
}

void lk__loop_stop(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (!loop || atomic_exchange(&loop->stop, true))
		return;
	uv_async_send(&loop->wake);
	pthread_join(loop->pthread, NULL);
}

void lk__loop_free(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (!loop)
		return;
	lk__loop_stop(client);
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_close((uv_handle_t *)&loop->timer, NULL);
	uv_close((uv_handle_t *)&loop->tick, NULL);
	lk__hangups_close(&loop->hangups);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	uv_loop_close(&loop->uv);
	close(loop->timer_fd);
	atomic_store(&client->loop, NULL);
	free(loop);
}

void lk__loop_attend(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop && !atomic_exchange(&loop->attending, true))
		uv_async_send(&loop->wake);
}

void lk__loop_wake(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop)
		uv_async_send(&loop->wake);
}

void lk__loop_verify(lk_client *client)
{
	struct lk__loop *loop = client_loop(client);
	if (loop && !atomic_exchange(&loop->verify, true))
		uv_async_send(&loop->wake);
}
