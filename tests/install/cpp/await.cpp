// What <lockkeeper/await.hpp> says, on the server of LOCKKEEPER_URL. Prints the name of each part
// that passed; a check that fails ends it.
#include <lockkeeper.hpp>
#include <lockkeeper/await.hpp>

#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.hpp"

// gcc 12 says it of what it makes of a coroutine, whatever that has.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif

using namespace std::chrono_literals;

// A coroutine that begins at once, and is destroyed with this object, wherever it waits.
class task
{
      public:
	struct promise_type {
		task get_return_object()
		{
			return task(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			throw;
		}
	};

	explicit task(std::coroutine_handle<promise_type> handle) : handle_(handle)
	{
	}
	task(task &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
	{
	}
	~task()
	{
		if (handle_)
			handle_.destroy();
	}

      private:
	std::coroutine_handle<promise_type> handle_;
};

template <class Condition> static void until(const lk::queue &queue, Condition done)
{
	const auto end = std::chrono::steady_clock::now() + 60s;
	while (!done()) {
		CHECK(std::chrono::steady_clock::now() < end);
		pollfd readable{queue.fd(), POLLIN, 0};
		CHECK(poll(&readable, 1, 10) >= 0);
		CHECK(queue.take() <= lk::queue::at_once);
	}
}

static bool free(lk::mutex &mutex)
{
	return mutex.try_acquire().has_value();
}

static task work(lk::queue &queue, lk::mutex &mutex, int &inside, int &ran)
{
	lk::hold hold = co_await queue.acquire(mutex);
	CHECK(++inside == 1 && hold.is_held());
	inside--;
	co_await queue.release(hold);
	CHECK(!hold);
	ran++;
}

static void many(const lk::client &client)
{
	lk::queue queue(client);
	lk::mutex mutex(client, "many");
	std::vector<task> tasks;
	int inside = 0, ran = 0;
	for (int i = 0; i < 1000; i++)
		tasks.push_back(work(queue, mutex, inside, ran));
	until(queue, [&] { return ran == 1000; });
	CHECK(free(mutex) && queue.take() == 0);
}

static task waits(lk::queue &queue, lk::mutex &mutex, int &ran)
{
	const lk::hold hold = co_await queue.acquire(mutex);
	ran++;
}

static void destroyed_while_they_wait(const lk::client &client)
{
	lk::queue queue(client);
	lk::mutex mutex(client, "destroyed");
	int ran = 0;
	{
		const lk::hold other = mutex.acquire();
		std::vector<task> tasks;
		for (int i = 0; i < 100; i++)
			tasks.push_back(waits(queue, mutex, ran));
		CHECK(queue.take(10ms) == 0);
	}
	for (int i = 0; i < 50; i++) {
		const task granted = waits(queue, mutex, ran); // perhaps, when it goes
		std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
	}
	until(queue, [&] { return free(mutex); });
	CHECK(ran == 0);
	std::optional<task> last = waits(queue, mutex, ran);
	until(queue, [&] { return ran == 1; });
	last.reset(); // at its end
	until(queue, [&] { return free(mutex); });
}

static void granted_to_nobody(const lk::client &client)
{
	lk::queue queue(client);
	lk::mutex mutex(client, "nobody's");
	lk::semaphore semaphore(client, "nobody's permits");
	CHECK(semaphore.try_set(3));
	int ran = 0;
	auto both = [&]() -> task {
		co_await queue.acquire(semaphore, 2);
		ran++;
	};
	{
		const task one = waits(queue, mutex, ran), two = both();
		pollfd readable{queue.fd(), POLLIN, 0};
		CHECK(poll(&readable, 1, 10000) == 1);
		while (semaphore.available() == 3)
			std::this_thread::yield();
		const auto end = std::chrono::steady_clock::now() + 10s;
		while (free(mutex))
			CHECK(std::chrono::steady_clock::now() < end);
	}
	until(queue, [&] { return free(mutex) && semaphore.available() == 3; });
	CHECK(ran == 0);
}

static void the_queue_goes_first(const lk::client &client)
{
	lk::mutex mutex(client, "first");
	lk::hold other = mutex.acquire();
	std::optional<lk::queue> queue(std::in_place, client);
	int ran = 0;
	std::vector<task> tasks;
	for (int i = 0; i < 10; i++)
		tasks.push_back(waits(*queue, mutex, ran));
	queue.reset();
	tasks.clear();
	other.release();
	CHECK(ran == 0 && free(mutex));
}

static task fails(lk::queue &queue, lk::mutex &mutex, std::error_code &why)
{
	try {
		const lk::hold none = co_await queue.acquire_for(mutex, 20ms);
	} catch (const lk::error &error) {
		why = error.code();
	}
}

static task loses(lk::queue &queue, lk::mutex &mutex, lk::hold &hold, std::error_code &why)
{
	lk::options brief;
	brief.lease = 100ms;
	hold = co_await queue.acquire(mutex, brief);
	while (hold.is_held())
		std::this_thread::sleep_for(1ms);
	try {
		co_await queue.release(hold);
	} catch (const lk::error &error) {
		why = error.code();
	}
}

static task throws(lk::queue &queue, lk::mutex &mutex)
{
	const lk::hold hold = co_await queue.acquire(mutex);
	throw std::runtime_error("out of the coroutine");
}

static void what_fails(const lk::client &client)
{
	lk::queue queue(client), small(client, 1);
	lk::mutex mutex(client, "fails"), other(client, "fails too");
	std::error_code why, full;
	{
		const lk::hold held = mutex.acquire();
		const task one = fails(queue, mutex, why);
		until(queue, [&] { return static_cast<bool>(why); });
		CHECK(why == std::errc::timed_out);
		int ran = 0;
		const task first = waits(small, mutex, ran), second = fails(small, mutex, full);
		CHECK(full.value() == LK_ELIMIT); // it has not waited
	}
	lk::hold hold;
	const task lost = loses(queue, mutex, hold, why);
	until(queue, [&] { return why.value() == LK_ELOST; });
	CHECK(!hold);
	int ran = 0;
	const task one = throws(queue, other), two = waits(queue, mutex, ran);
	bool thrown = false;
	try {
		until(queue, [] { return false; });
	} catch (const std::runtime_error &) {
		thrown = true;
	}
	until(queue, [&] { return ran == 1; });
	CHECK(thrown && free(other)); // the other completion has not gone with it
}

static void permits_and_latches(const lk::client &client)
{
	lk::queue queue(client);
	lk::semaphore semaphore(client, "permits");
	lk::latch latch(client, "latch");
	CHECK(semaphore.try_set(1) && latch.try_set(1));
	int steps = 0;
	auto taker = [&]() -> task {
		co_await queue.acquire(semaphore);
		steps++;
		latch.count_down();
		co_await queue.release(semaphore);
		steps++;
	};
	auto waiter = [&]() -> task {
		co_await queue.wait(latch);
		co_await queue.acquire_for(semaphore, 10s);
		steps++;
		co_await queue.release(semaphore);
		co_await queue.wait_for(latch, 0ms);
		steps++;
	};
	const task one = waiter(), two = taker();
	until(queue, [&] { return steps == 4; });
	CHECK(semaphore.available() == 1);
}

#if defined(__cpp_lib_jthread)
static void stops(const lk::client &client)
{
	lk::queue queue(client);
	lk::mutex mutex(client, "stopped");
	const lk::hold other = mutex.acquire();
	std::stop_source source;
	std::error_code why;
	auto waiter = [&]() -> task {
		try {
			const lk::hold none = co_await queue.acquire(mutex).stopped_by(
				source.get_token());
		} catch (const lk::error &error) {
			why = error.code();
		}
	};
	{
		const task one = waiter();
		std::thread([&] { source.request_stop(); }).join();
		until(queue, [&] { return static_cast<bool>(why); });
		CHECK(why == std::errc::operation_canceled);
	}
	why = {};
	const task late = waiter(); // asked to stop before
	until(queue, [&] { return static_cast<bool>(why); });
	CHECK(why == std::errc::operation_canceled);
}
#endif

int main()
{
	lk::client client;
	many(client);
	std::puts("many");
	destroyed_while_they_wait(client);
	std::puts("destroyed while they wait");
	granted_to_nobody(client);
	std::puts("granted to nobody");
	the_queue_goes_first(client);
	std::puts("the queue goes first");
	what_fails(client);
	std::puts("what fails");
	permits_and_latches(client);
	std::puts("permits and latches");
#if defined(__cpp_lib_jthread)
	stops(client);
	std::puts("stops");
#endif
	client.close();
}
