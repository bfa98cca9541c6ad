// What <lockkeeper.hpp> says, on the server of LOCKKEEPER_URL. Prints the name of each part that
// passed; a check that fails ends it.
#include <lockkeeper.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "check.hpp"

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<lk::hold>);
static_assert(std::is_nothrow_move_constructible_v<lk::hold>);
static_assert(std::is_nothrow_move_assignable_v<lk::hold>);
static_assert(!std::is_copy_constructible_v<lk::mutex>);

template <class Call> static std::error_code thrown(Call call)
{
	try {
		call();
	} catch (const lk::error &error) {
		CHECK(!error.message().empty());
		return error.code();
	}
	return {};
}

static void standard_wrappers(const lk::client &client)
{
	lk::mutex one(client, "one"), two(client, "two");
	{
		std::lock_guard guard(one);
		CHECK(one.is_held() && !two.is_held());
		std::unique_lock again(one, std::try_to_lock);
		CHECK(again.owns_lock()); // the owner locks it again, as a recursive_mutex
	}
	CHECK(!one.is_held());
	{
		std::scoped_lock both(one, two);
		CHECK(one.is_held() && two.is_held());
		std::thread([&] {
			CHECK(!one.try_lock());
			CHECK(!two.try_lock_for(20ms));
			CHECK(!two.try_lock_until(std::chrono::steady_clock::now() + 20ms));
		}).join();
	}
	std::lock(one, two);
	one.unlock();
	two.unlock();
	std::unique_lock waits(one, 10s);
	CHECK(waits.owns_lock());
}

static void condition_variable(const lk::client &client)
{
	lk::mutex mutex(client, "condition");
	std::condition_variable_any changed;
	bool ready = false;
	std::thread other([&] {
		std::lock_guard guard(mutex);
		ready = true;
		changed.notify_one();
	});
	std::unique_lock guard(mutex);
	changed.wait(guard, [&] { return ready; });
	guard.unlock();
	other.join();
}

static void shared(const lk::client &client)
{
	lk::shared_mutex mutex(client, "shared");
	std::shared_lock reader(mutex);
	std::thread([&] {
		std::shared_lock beside(mutex, 10s);
		CHECK(beside.owns_lock());
	}).join();
	std::thread([&] { CHECK(!mutex.try_lock()); }).join();
	CHECK(thrown([&] { mutex.try_lock(); }).value() == LK_EUPGRADE);
	reader.unlock();
	std::unique_lock writer(mutex);
	lk::hold read = mutex.reader().acquire_for(0ms, {}, *std::make_unique<std::error_code>());
	CHECK(!read); // a hold's owner is another than this thread
}

static void holds(const lk::client &client)
{
	lk::mutex mutex(client, "held", lk::kind::fenced);
	lk::hold first = mutex.acquire();
	CHECK(first && first.is_held() && first.remaining() > 1s);
	CHECK(!mutex.is_held()); // the thread does not own it
	CHECK(!mutex.try_acquire());
	std::error_code why;
	CHECK(!mutex.acquire_for(20ms, {}, why) && why == std::errc::timed_out);
	CHECK(thrown([&] { auto none = mutex.acquire_for(0ms); }).value() == LK_EBUSY);
	const auto token = first.fence();
	lk::hold moved = std::move(first);
	CHECK(!first && moved.is_held()); // NOLINT: what is moved from is empty
	std::thread([hold = std::move(moved)]() mutable { hold.release(); }).join();
	lk::hold next = mutex.acquire_for(10s);
	CHECK(next.fence() > token);
	next.extend(60s);
	std::error_code failed;
	next.release(failed);
	CHECK(!failed && !next);
	next.release(failed);
	CHECK(failed.value() == LK_EINVAL); // it is empty
	next = mutex.acquire_for(10s);
	next.extend(60s);
	CHECK(next.remaining() > 50s);
	next = lk::hold();
	CHECK(mutex.try_acquire().has_value());
	CHECK(mutex.try_acquire().has_value()); // the one before went with its statement
	lk::hold empty;
	CHECK(!empty && !empty.is_held());
	CHECK(thrown([&] { empty.check(); }).value() == LK_EINVAL);
	CHECK(thrown([&] { empty.release(); }).value() == LK_EINVAL);
}

static void losses(lk::client &client)
{
	int told = 0;
	client.on_error([&](const lk::error &error) {
		told++;
		CHECK(error.code().value() == LK_ELOST);
	});
	lk::mutex mutex(client, "lost");
	lk::options brief;
	brief.lease = 100ms;
	{
		lk::hold hold = mutex.acquire(brief);
		while (hold.is_held())
			std::this_thread::sleep_for(1ms);
		CHECK(thrown([&] { hold.check(); }).value() == LK_ELOST);
		CHECK(hold); // it has not been given up
		CHECK(thrown([&] { hold.release(); }).value() == LK_ELOST);
		CHECK(!hold && told == 0);
	}
	{
		lk::hold hold = mutex.acquire(brief);
		while (hold.is_held())
			std::this_thread::sleep_for(1ms);
	}
	CHECK(told == 1); // the destructor does not throw
	mutex.lock(brief);
	while (mutex.is_held())
		std::this_thread::sleep_for(1ms);
	mutex.unlock();
	CHECK(told == 2);
	client.on_error([](const lk::error &) { throw 1; }); // is not let out of a destructor
	mutex.unlock();
	client.on_error(nullptr);
	mutex.unlock();
}

static void counters(const lk::client &client)
{
	lk::semaphore semaphore(client, "semaphore");
	CHECK(semaphore.try_set(2) && !semaphore.try_set(3));
	semaphore.acquire();
	CHECK(!semaphore.try_acquire(2) && !semaphore.try_acquire_for(20ms, 2));
	CHECK(semaphore.available() == 1);
	semaphore.release();
	CHECK(semaphore.available() == 2);
	lk::latch latch(client, "latch");
	CHECK(latch.try_set(2) && !latch.wait_for(0ms) && latch.count_down() == 1);
	std::thread([&] { latch.count_down(); }).join();
	latch.wait();
	CHECK(latch.wait_for(1s));
	lk::barrier first(client, "step", 2), second(client, "step", 2);
	std::uint64_t others = 0;
	std::thread other([&] { others = second.enter(); });
	const std::uint64_t generation = first.enter();
	other.join();
	CHECK(generation == others && client.held().size() == 2);
	CHECK(thrown([&] { first.leave(20ms); }).value() == LK_ETIMEDOUT);
	second.leave();
	first.leave();
	CHECK(thrown([&] { first.wait(20ms); }).value() == LK_ETIMEDOUT);
	lk::client last;
	lk::barrier third(last, "step", 2);
	CHECK(last.drain(5s).empty());
	CHECK(thrown([&] { third.wait(); }).value() == LK_EDRAINING);
}

static void watches()
{
	lk::client client;
	lk::watch watch(client);
	lk::mutex mutex(client, "watched");
	watch.add("watched");
	CHECK(watch.next()->initial);
	mutex.lock();
	CHECK(watch.next()->kind == LK_CHANGE_ACQUIRED);
	mutex.unlock();
	CHECK(watch.next()->kind == LK_CHANGE_RELEASED);
	CHECK(!watch.next(20ms));
}

static void errors()
{
	const auto bad = thrown([] { lk::client client("nonsense://"); });
	CHECK(bad == std::errc::invalid_argument && bad.category().name()[0] == 'l');
	lk::client nowhere("redis://127.0.0.1:1");
	lk::mutex mutex(nowhere, "unreachable");
	const auto away = thrown([&] { mutex.lock(); });
	CHECK(away == std::errc::host_unreachable && away.value() == LK_EUNREACHABLE);
	std::error_code why;
	CHECK(!mutex.acquire_for(20ms, {}, why) && why.value() == LK_EUNREACHABLE);
	CHECK(thrown([&] { lk::mutex none(nowhere, ""); }) == std::errc::invalid_argument);
	CHECK(!mutex.is_held()); // never true because something is wrong
}

static void lives_of_objects()
{
	std::optional<lk::client> client(std::in_place);
	std::optional<lk::mutex> mutex(std::in_place, *client, "life");
	lk::hold hold = mutex->acquire();
	mutex.reset();
	client.reset(); // the hold keeps what it needs
	CHECK(hold.is_held());
	hold.release();
	lk::client closed;
	lk::mutex late(closed, "life");
	hold = late.acquire();
	closed.close();
	CHECK(!hold.is_held());
}

static void threads(const lk::client &client)
{
	lk::mutex mutex(client, "counted", lk::kind::fair);
	int inside = 0, sum = 0;
	std::vector<std::thread> workers;
	for (int i = 0; i < 8; i++)
		workers.emplace_back([&] {
			for (int turn = 0; turn < 20; turn++) {
				lk::hold hold = mutex.acquire();
				CHECK(++inside == 1);
				sum++;
				inside--;
			}
		});
	for (auto &worker : workers)
		worker.join();
	CHECK(sum == 160);
}

#if defined(__cpp_lib_jthread)
static void stops(const lk::client &client)
{
	lk::mutex mutex(client, "stopped");
	const lk::hold other = mutex.acquire();
	std::error_code seen;
	std::jthread waiter([&](std::stop_token stop) {
		seen = thrown([&] { auto none = mutex.acquire(std::move(stop)); });
	});
	lk_wait_info info{};
	info.struct_size = sizeof(info);
	while (lk_lock_wait_info(mutex.get(), &info, nullptr) == 0)
		std::this_thread::yield();
	waiter.request_stop();
	waiter.join();
	CHECK(seen == std::errc::operation_canceled);
	std::stop_source early;
	CHECK(thrown([&] { auto none = mutex.acquire_for(20ms, early.get_token()); }) ==
	      std::errc::timed_out);
	early.request_stop();
	CHECK(thrown([&] { auto none = mutex.acquire_for(10s, early.get_token()); }).value() ==
	      LK_ECANCELLED);
	CHECK(thrown([&] { auto none = mutex.acquire(early.get_token()); }).value() ==
	      LK_ECANCELLED);
}
#endif

int main()
{
	lk::client client;
	client.ping();
	standard_wrappers(client);
	std::puts("standard wrappers");
	condition_variable(client);
	std::puts("condition variable");
	shared(client);
	std::puts("shared");
	holds(client);
	std::puts("holds");
	losses(client);
	std::puts("losses");
	counters(client);
	std::puts("counters");
	watches();
	errors();
	std::puts("errors");
	lives_of_objects();
	std::puts("lives of objects");
	threads(client);
	std::puts("threads");
#if defined(__cpp_lib_jthread)
	stops(client);
	std::puts("stops");
#endif
	client.close();
}
