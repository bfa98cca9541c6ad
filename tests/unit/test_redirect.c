/* Two nodes of a cluster over streams of the test's own: where a request goes when the first says
 * that the other has its key, and what it counts as. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <lockkeeper/config.h>

#include "base/clock.h"
#include "conf/config.h"
#include "conn/node.h"
#include "conn/request.h"
#include "lock/operation.h"
#include "net/stream.h"
#include "resp/reply.h"

#define SECOND_US INT64_C(1000000)
#define MOVED "-MOVED 7 127.0.0.1:2\r\n"

struct side {
	struct lk__stream stream; /* first */
	struct lk__node node;
	struct lk__conn *conn;
	char written[4096];
	size_t size;
	const char *says; /* one answer, then nothing */
};

static struct side here, there;
static struct lk__node *target; /* where a redirect leads to */
static int suspected;
static struct lk__thread thread;
static lk_config *config;

static ssize_t stream_read(struct lk__stream *stream, void *bytes, size_t size)
{
	struct side *side = (struct side *)stream;
	if (!side->says)
		return -EAGAIN;
	size_t got = strlen(side->says);
	assert_true(got <= size);
	memcpy(bytes, side->says, got);
	side->says = NULL;
	return (ssize_t)got;
}

static ssize_t stream_write(struct lk__stream *stream, const void *bytes, size_t size)
{
	struct side *side = (struct side *)stream;
	assert_true(side->size + size < sizeof(side->written));
	memcpy(side->written + side->size, bytes, size);
	side->size += size;
	return (ssize_t)size;
}

static void stream_close(struct lk__stream *stream)
{
}

static const struct lk__stream_ops stream_ops = {
	.read = stream_read, .write = stream_write, .close = stream_close};

static int finder_find(struct lk__finder *finder, struct lk_config *place, uint64_t *generation_out,
		       uint64_t *asked, int64_t deadline_ns, lk_error *error)
{
	snprintf(error->message, sizeof(error->message), "nowhere");
	return error->code = LK_EUNREACHABLE;
}

static void finder_suspect(struct lk__finder *finder)
{
	suspected++;
}

static struct lk__node *finder_redirect(struct lk__finder *finder, const char *words,
					const char *place)
{
	assert_non_null(strstr(words, "127.0.0.1:2"));
	return target;
}

static void finder_unref(struct lk__finder *finder)
{
	atomic_fetch_sub(&finder->refs, 1);
}

static const struct lk__finder_ops finder_ops = {.find = finder_find,
						 .suspect = finder_suspect,
						 .redirect = finder_redirect,
						 .unref = finder_unref};
static struct lk__finder finder = {.ops = &finder_ops};

static void ignore(void *context)
{
}

static const struct lk__node_events events = {
	.attention = ignore, .lost = ignore, .up = ignore, .connecting = ignore};

static void side_open(struct side *side, int64_t server_us)
{
	lk_error error;
	memset(side, 0, sizeof(*side));
	side->stream.ops = &stream_ops;
	side->stream.fd = -1;
	assert_int_equal(lk__node_init(&side->node, config, &events, NULL, &error), 0);
	side->node.finder = &finder;
	side->conn = side->node.scripts[0];
	side->conn->stream = &side->stream;
	side->conn->reader = lk__reader_new();
	side->conn->state = LK__CONN_UP;
	atomic_store(&side->node.was_up, true);
	for (int i = 0; i < LK__SCRIPT_COUNT; i++)
		side->conn->scripts[i] = true;
	int64_t now_ns = lk__now_ns();
	lk__node_hear_time(&side->node, server_us, now_ns, now_ns);
}

static int set_up(void **state)
{
	lk_error error;
	assert_int_equal(lk_config_new(&config, &error), 0);
	assert_int_equal(lk_config_set(config, "url", "redis-cluster://nowhere.test", &error), 0);
	side_open(&here, 1000 * SECOND_US);
	side_open(&there, 9000 * SECOND_US);
	target = &there.node;
	suspected = 0;
	return 0;
}

static int tear_down(void **state)
{
	lk__node_close(&here.node);
	lk__node_close(&there.node);
	lk__node_destroy(&here.node);
	lk__node_destroy(&there.node);
	config = lk_config_free(config);
	return 0;
}

static struct lk__request *call(void)
{
	struct lk__words words = {0};
	lk__words_text(&words, "key");
	lk__words_deadline(&words);
	struct lk__request *request = lk__words_script(&words, LK__SCRIPT_LOCK_ACQUIRE, 1);
	assert_non_null(request);
	request->resend = true;
	request->deadline_ns = lk__now_ns() + 5000 * LK__MS;
	return request;
}

/* Waits for the answer for a moment. */
static int called(struct lk__request *request)
{
	return lk__conn_call(here.conn, request, &thread, lk__now_ns() + 20 * LK__MS, NULL);
}

static bool wrote(const struct side *side, const char *text)
{
	return memmem(side->written, side->size, text, strlen(text)) != NULL;
}

/* Waits until it is. */
static void sent_again(struct lk__request *request)
{
	int64_t until_ns = lk__now_ns() + 4000 * LK__MS;
	while (!wrote(&here, "EVALSHA")) {
		assert_true(lk__now_ns() < until_ns);
		assert_int_equal(lk__conn_await(request, &thread, lk__now_ns() + 20 * LK__MS, NULL),
				 LK__WAIT_TIME_UP);
	}
}

static void test_it_goes_where_its_key_is(void **state)
{
	struct lk__request *request = call();
	here.says = MOVED;
	there.says = ":7\r\n";
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_int_equal(request->code, 0);
	assert_int_equal(request->reply->integer, 7);
	assert_int_equal(request->sends, 1); /* the first has not run */
	assert_int_equal(request->redirects, 1);
	assert_ptr_equal(request->conn, there.conn);
	assert_true(wrote(&here, "EVALSHA") && wrote(&there, "EVALSHA"));
	assert_false(wrote(&there, "ASKING"));
	assert_int_equal(here.conn->state, LK__CONN_UP);
	lk__request_free(request);
}

/* Each server is told the deadline by its own clock. */
static void test_its_deadline_is_told_anew(void **state)
{
	struct lk__request *request = call();
	here.says = MOVED;
	there.says = ":7\r\n";
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_true(wrote(&here, "$16\r\n00000010050") || wrote(&here, "$16\r\n00000010049"));
	assert_true(wrote(&there, "$16\r\n00000090050") || wrote(&there, "$16\r\n00000090049"));
	lk__request_free(request);
}

static void test_asking_goes_before_it(void **state)
{
	struct lk__request *request = call();
	here.says = "-ASK 7 127.0.0.1:2\r\n";
	there.says = "+OK\r\n:7\r\n";
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_int_equal(request->reply->integer, 7);
	const char *asking = memmem(there.written, there.size, "ASKING", 6);
	assert_non_null(asking);
	assert_non_null(strstr(asking, "EVALSHA"));
	lk__request_free(request);
}

static void finish(struct lk__request *request)
{
	*(bool *)request->owner = true;
}

static void test_one_that_nobody_waits_for_is_followed(void **state)
{
	bool finished = false;
	struct lk__request *request = call();
	request->finish = finish;
	request->owner = &finished;
	lk__conn_submit(here.conn, request);
	here.says = MOVED;
	lk__conn_attend(here.conn, &thread, false);
	assert_false(finished || request->done);
	there.says = ":7\r\n";
	lk__conn_attend(there.conn, &thread, false);
	assert_true(finished);
	assert_int_equal(request->reply->integer, 7);
	lk__request_free(request);
}

static struct lk__request *pings(size_t count)
{
	struct lk__request *batch = lk__request_batch(count);
	assert_non_null(batch);
	for (size_t i = 0; i < count; i++) {
		struct lk__words words = {0};
		lk__words_text(&words, "PING");
		assert_true(lk__words_batch(batch, &words));
	}
	return batch;
}

static void *attend(void *other)
{
	lk__conn_attend(here.conn, other, false);
	return NULL;
}

/* It is in no connection for a moment, in which nobody can withdraw it. */
static void test_one_on_its_way_is_not_withdrawn(void **state)
{
	bool finished = false;
	struct lk__thread other = {0};
	pthread_t reader;
	struct lk__request *request = call();
	request->finish = finish;
	request->owner = &finished;
	lk__conn_submit(here.conn, request);
	here.says = MOVED;
	pthread_mutex_lock(&there.conn->mutex);
	assert_int_equal(pthread_create(&reader, NULL, attend, &other), 0);
	int64_t until_ns = lk__now_ns() + 5000 * LK__MS;
	while (atomic_load(&here.conn->finishing) == 0 && lk__now_ns() < until_ns)
		sched_yield();
	assert_int_equal(atomic_load(&here.conn->finishing), 1);
	until_ns = lk__now_ns() + 100 * LK__MS;
	while (lk__now_ns() < until_ns)
		assert_false(lk__conn_withdraw(request));
	pthread_mutex_unlock(&there.conn->mutex);
	pthread_join(reader, NULL);
	assert_ptr_equal(request->conn, there.conn);
	there.says = ":7\r\n";
	lk__conn_attend(there.conn, &thread, false);
	assert_true(finished);
	lk__request_free(request);
}

static void test_a_batch_is_followed_as_a_whole(void **state)
{
	struct lk__request *batch = pings(2);
	here.says = MOVED MOVED;
	there.says = ":1\r\n:2\r\n";
	assert_int_equal(called(batch), LK__WAIT_READY);
	assert_int_equal(batch->reply->elements, 2);
	assert_int_equal(batch->reply->element[1]->integer, 2);
	lk__request_free(batch);
}

/* A command that has no key is answered anywhere. */
static void test_a_batch_is_followed_for_its_keys(void **state)
{
	struct lk__request *batch = pings(2);
	here.says = "+PONG\r\n" MOVED;
	there.says = "+PONG\r\n:2\r\n";
	assert_int_equal(called(batch), LK__WAIT_READY);
	assert_int_equal(batch->code, 0);
	assert_int_equal(batch->reply->element[1]->integer, 2);
	lk__request_free(batch);
}

/* ASKING serves one command. */
static void test_a_batch_is_not_asked_for(void **state)
{
	struct lk__request *batch = pings(1);
	here.says = "-ASK 7 127.0.0.1:2\r\n";
	assert_int_equal(called(batch), LK__WAIT_READY);
	assert_int_equal(batch->code, LK_EUNAVAILABLE);
	assert_int_equal(batch->sends, 0);
	assert_int_equal(there.size, 0);
	lk__request_free(batch);
}

static void test_circles_end(void **state)
{
	struct lk__request *request = call();
	int rc = 0;
	target = &here.node;
	request->thread = &thread;
	lk__conn_submit(here.conn, request);
	for (int i = 0; i < 100 && rc != LK__WAIT_READY; i++) {
		here.says = MOVED;
		rc = lk__conn_await(request, &thread, lk__now_ns() + LK__MS, NULL);
	}
	assert_int_equal(rc, LK__WAIT_READY);
	assert_true(request->code < 0 && request->redirects <= 16);
	lk__request_free(request);
}

static void test_after_its_deadline_it_is_not_followed(void **state)
{
	struct lk__request *request = call();
	request->deadline_ns = lk__now_ns() - 1;
	here.says = MOVED;
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_int_equal(request->code, LK_EUNREACHABLE);
	assert_int_equal(request->sends, 0);
	assert_int_equal(there.size, 0);
	lk__request_free(request);
}

/* The next map may tell of it: the request waits for that, and others go on meanwhile. */
static void test_a_target_that_nobody_knows(void **state)
{
	struct lk__request *request = call(), *other = call();
	target = NULL;
	request->thread = &thread;
	lk__conn_submit(here.conn, request);
	here.says = MOVED;
	lk__conn_attend(here.conn, &thread, false);
	assert_false(request->done);
	assert_int_equal(request->sends, 0);
	here.says = ":1\r\n";
	assert_int_equal(called(other), LK__WAIT_READY);
	assert_int_equal(other->reply->integer, 1);
	lk__request_free(other);
	target = &there.node;
	here.size = 0;
	sent_again(request);
	here.says = MOVED;
	lk__conn_attend(here.conn, &thread, false);
	there.says = ":7\r\n";
	assert_int_equal(lk__conn_await(request, &thread, lk__now_ns() + 5000 * LK__MS, NULL),
			 LK__WAIT_READY);
	assert_int_equal(request->reply->integer, 7);
	assert_int_equal(request->sends, 1);
	lk__request_free(request);
}

/* An earlier copy may have run here before the slot moved: it counts on. */
static void test_a_copy_counts_on(void **state)
{
	struct lk__request *request = call();
	request->thread = &thread;
	request->sends = 1; /* over a connection that was lost */
	lk__conn_submit(here.conn, request);
	here.says = MOVED;
	there.says = ":7\r\n";
	assert_int_equal(lk__conn_await(request, &thread, lk__now_ns() + 20 * LK__MS, NULL),
			 LK__WAIT_READY);
	assert_int_equal(request->sends, 2);
	lk__request_free(request);
}

/* What its first copy did nobody knows, unless it is a question, which does nothing. */
static void test_a_second_copy_is_refused(void **state)
{
	static const char *const words[] = {"-CLUSTERDOWN The cluster is down\r\n", MOVED};
	target = NULL;
	for (int i = 0; i < 4; i++) {
		struct lk__request *request = call();
		bool question = i % 2;
		request->thread = &thread;
		request->sends = 1; /* over a connection that was lost */
		request->question = question;
		lk__conn_submit(here.conn, request);
		request->deadline_ns = lk__now_ns() + 20 * LK__MS; /* no map tells more by then */
		here.says = words[i / 2];
		assert_int_equal(
			lk__conn_await(request, &thread, lk__now_ns() + 5000 * LK__MS, NULL),
			LK__WAIT_READY);
		assert_int_equal(request->code, question ? LK_EUNAVAILABLE : LK_EMAYBEHELD);
		lk__request_free(request);
	}
}

/* Refused because some of its keys have moved, and some have not. */
static struct lk__request *postponed(void)
{
	struct lk__request *request = call();
	request->patient = true;
	request->thread = &thread;
	lk__conn_submit(here.conn, request);
	here.says = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
	lk__conn_attend(here.conn, &thread, false);
	assert_false(request->done);
	assert_int_equal(request->sends, 0);
	assert_false(lk__conn_is_idle(here.conn));
	here.size = 0;
	return request;
}

static void test_while_keys_move_it_waits(void **state)
{
	int64_t begun_ns = lk__now_ns();
	struct lk__request *request = postponed();
	lk__conn_attend(here.conn, &thread, false);
	if (lk__now_ns() < begun_ns + 50 * LK__MS)
		assert_int_equal(here.size, 0); /* not at once */
	sent_again(request);
	here.says = ":7\r\n";
	assert_int_equal(lk__conn_await(request, &thread, begun_ns + 5000 * LK__MS, NULL),
			 LK__WAIT_READY);
	assert_int_equal(request->reply->integer, 7);
	assert_int_equal(request->sends, 1);
	assert_true(lk__conn_is_idle(here.conn));
	lk__request_free(request);
}

static void test_who_has_no_patience_is_told(void **state)
{
	struct lk__request *request = call();
	here.says = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_int_equal(request->code, LK_EUNAVAILABLE);
	lk__request_free(request);
}

static void test_who_has_no_time_is_told(void **state)
{
	struct lk__request *request = call();
	request->patient = true;
	request->deadline_ns = lk__now_ns() + 20 * LK__MS;
	here.says = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
	assert_int_equal(called(request), LK__WAIT_READY);
	assert_int_equal(request->code, LK_EUNAVAILABLE);
	lk__request_free(request);
}

static void test_what_waits_can_be_left(void **state)
{
	struct lk__request *request = postponed();
	assert_false(lk__conn_leave(request, lk__request_forget));
	assert_int_equal(request->code, LK_EUNREACHABLE);
	assert_non_null(strstr(request->reason, "moved"));
	assert_true(lk__conn_is_idle(here.conn));
	lk__request_free(request);
}

/* It is in flight again, for the next connection; and is done when there is none. */
static void test_what_waits_outlives_a_connection(void **state)
{
	struct lk__request *request = postponed();
	here.says = "?\r\n";
	lk__conn_attend(here.conn, &thread, false);
	pthread_mutex_lock(&here.conn->mutex); /* a connector is at work by now */
	bool up = here.conn->state == LK__CONN_UP;
	bool done = request->done;
	pthread_mutex_unlock(&here.conn->mutex);
	assert_false(up);
	assert_false(done);
	lk__node_close(&here.node);
	assert_true(request->done);
	assert_int_equal(request->code, LK_ECLOSED);
	lk__request_free(request);
}

/* Its time may be over before it is asked: a call that asks twice has one limit for both. */
static void test_a_question_at_its_limit_ends(void **state)
{
	(void)state;
	lk_error error = {.code = 0};
	lk_client client = {.config = config};
	assert_int_equal(lk__ask(&client, here.conn, &thread, lk__question(call()), "ask",
				 lk__now_ns() - LK__MS, &error),
			 LK_EUNREACHABLE);
	assert_int_equal(error.code, LK_EUNREACHABLE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_it_goes_where_its_key_is),
		TEST(test_its_deadline_is_told_anew),
		TEST(test_asking_goes_before_it),
		TEST(test_one_that_nobody_waits_for_is_followed),
		TEST(test_one_on_its_way_is_not_withdrawn),
		TEST(test_a_batch_is_followed_as_a_whole),
		TEST(test_a_batch_is_followed_for_its_keys),
		TEST(test_a_batch_is_not_asked_for),
		TEST(test_circles_end),
		TEST(test_after_its_deadline_it_is_not_followed),
		TEST(test_a_target_that_nobody_knows),
		TEST(test_a_copy_counts_on),
		TEST(test_a_second_copy_is_refused),
		TEST(test_while_keys_move_it_waits),
		TEST(test_who_has_no_patience_is_told),
		TEST(test_who_has_no_time_is_told),
		TEST(test_what_waits_can_be_left),
		TEST(test_what_waits_outlives_a_connection),
		TEST(test_a_question_at_its_limit_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
