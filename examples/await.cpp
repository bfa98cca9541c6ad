/*
 * Three coroutines of one thread take turns. usage: await
 */
#include <coroutine>
#include <cstdio>
#include <exception>

#include <lockkeeper.hpp>

using namespace std::chrono_literals;

struct task { // whatever coroutines your program has; this one runs until its end, by itself
	struct promise_type {
		task get_return_object() noexcept
		{
			return {};
		}
		std::suspend_never initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_never final_suspend() noexcept
		{
			return {};
		}
		void return_void() noexcept
		{
		}
		void unhandled_exception() noexcept
		{
			std::terminate();
		}
	};
};

static task work(lk::queue &queue, lk::mutex &mutex, int number, int &left)
try {
	lk::hold hold = co_await queue.acquire_for(mutex, 10s);
	std::printf("%d: alone at work\n", number);
	co_await queue.release(hold);
	left--;
} catch (const lk::error &error) {
	std::fprintf(stderr, "%d: %s\n", number, error.message().c_str());
	left--;
}

int main()
try {
	lk::client client; // what LOCKKEEPER_URL says
	lk::mutex mutex(client, "backup");
	lk::queue queue(client);
	int left = 3;
	for (int number = 1; number <= 3; number++)
		work(queue, mutex, number, left);
	while (left > 0)
		queue.take(1s); // a loop watches queue.fd() instead, and takes when it is readable
} catch (const lk::error &error) {
	std::fprintf(stderr, "%s\n", error.message().c_str());
	return 1;
}
