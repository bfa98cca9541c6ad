/* SPDX-License-Identifier: MIT */
/*
 * Lockkeeper in C++20: coroutines that wait for locks, permits and latches. <lockkeeper.hpp>
 * includes this file where the compiler has coroutines.
 *
 *     lk::hold hold = co_await queue.acquire(mutex);
 *     ...
 *     co_await queue.release(hold);
 *
 * An lk::queue collects what has completed. The program's loop watches queue.fd() and calls
 * queue.take(), which resumes the coroutines, in the thread that calls it. A coroutine that waits
 * costs no thread and no command. Nothing else resumes it.
 *
 * A COROUTINE MAY BE DESTROYED WHILE IT WAITS, as long as no other thread takes meanwhile. Its
 * request is then cancelled; what is granted to it all the same goes back when a take() learns it.
 *
 * A HOLD that a queue has acquired does not wait for the server in its destructor: it sends the
 * release. Await release() to learn whether the lock was held to the end.
 *
 * THREADS. Any thread may start a request. Any number may take; each coroutine is resumed by one.
 */
#ifndef LOCKKEEPER_AWAIT_HPP
#define LOCKKEEPER_AWAIT_HPP

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <lockkeeper.hpp>

namespace lk
{

namespace detail
{

class request_table;

/* A request without its handle and what its operation uses. */
inline lk_request request_of(int operation) noexcept
{
	lk_request made{};
	made.struct_size = sizeof(made);
	made.operation = operation;
	return made;
}

/* One request. The table has it until its completion is taken; the coroutine may go before. */
struct request {
	std::coroutine_handle<> waiter; /* null: nobody waits for it */
	std::uint64_t id = 0;           /* the library's, and its key in the table */
	bool in_flight = false;
	lk_error error{};

	request() = default;
	request(const request &) = delete;
	request &operator=(const request &) = delete;
	virtual ~request() = default;

	/* Its lk_queue_start(). */
	virtual int start(lk_queue *queue, lk_error *details) noexcept = 0;

	/* It has completed, and nobody waits for that. */
	virtual void unclaimed(request_table &) noexcept
	{
	}
};

/* The requests of a queue. They are known by number, so that a coroutine may go at any time. */
class request_table
{
      public:
	using pointer = std::shared_ptr<request>;

	request_table(client_pointer client, std::size_t capacity) : client_(std::move(client))
	{
		lk_error details{};
		detail::check(lk_queue_new(&queue_, capacity, &details), details);
	}

	request_table(const request_table &) = delete;
	request_table &operator=(const request_table &) = delete;

	~request_table() = default; /* end() has freed what it could */

	/* False: it was not started, as `made->error` says. Who takes finds the request in the table:
	 * its completion waits for the mutex. `started` runs before. */
	template <class Started> bool start(const pointer &made, Started started)
	{
		std::map<std::uint64_t, pointer> one;
		one.emplace(0, made);
		auto node = one.extract(0); /* made before the start; to put it in cannot fail */
		const std::lock_guard guard(mutex_);
		if (!queue_) {
			made->error = closed();
			return false;
		}
		if (made->start(queue_, &made->error) < 0)
			return false;
		made->in_flight = true;
		node.key() = made->id;
		requests_.insert(std::move(node));
		started();
		return true;
	}

	/* The coroutine is being destroyed. */
	void leave(request &left) noexcept
	{
		{
			const std::lock_guard guard(mutex_);
			left.waiter = nullptr;
		}
		cancel(left.id);
	}

	/* Also by a stop token, in any thread. */
	void cancel(std::uint64_t id) const noexcept
	{
		const std::lock_guard guard(ending_);
		if (queue_)
			lk_queue_cancel(queue_, id, nullptr); /* a release cannot be: it ends */
	}

	/* False: nothing came. */
	bool take_one(std::int64_t wait_ms)
	{
		if (!queue_)
			return false;
		lk_error details{};
		lk_completion completion{};
		completion.struct_size = sizeof(completion);
		const int count = lk_queue_take(queue_, &completion, 1, wait_ms, &details);
		detail::check(count, details);
		if (count > 0)
			deliver(completion);
		return count > 0;
	}

	int fd() const
	{
		lk_error details{};
		const int descriptor = lk_queue_fd(queue_, &details);
		detail::check(descriptor, details);
		return descriptor;
	}

	void report(const lk_error &details) const noexcept
	{
		client_->report(details);
	}

	/* Ends what is in flight. Coroutines that still wait are not resumed any more. */
	void end(std::chrono::milliseconds limit) noexcept
	{
		const auto until = std::chrono::steady_clock::now() + limit;
		lk_error details{};
		try {
			for (const auto id : left_alone())
				cancel(id);
			while (!empty() && std::chrono::steady_clock::now() < until)
				take_one(to_ms(left_until(until)));
		} catch (...) { /* what is left says the next call */
		}
		const std::scoped_lock guard(mutex_, ending_);
		if (lk_queue_free(queue_, &details) < 0)
			report(details);
		queue_ = nullptr;
	}

      private:
	static lk_error closed() noexcept
	{
		lk_error details{};
		details.code = LK_ECLOSED;
		std::snprintf(details.message, sizeof(details.message), "the queue has ended");
		return details;
	}

	void deliver(const lk_completion &completion)
	{
		pointer done;
		std::coroutine_handle<> waiter;
		{
			const std::lock_guard guard(mutex_);
			auto node = requests_.extract(completion.id);
			if (!node)
				return;
			done = std::move(node.mapped());
			done->in_flight = false;
			done->error = completion.error;
			waiter = std::exchange(done->waiter, nullptr);
		}
		if (waiter)
			waiter.resume();
		else
			done->unclaimed(*this);
	}

	std::vector<std::uint64_t> left_alone()
	{
		const std::lock_guard guard(mutex_);
		std::vector<std::uint64_t> ids;
		for (auto &[id, left] : requests_) {
			left->waiter = nullptr;
			ids.push_back(id);
		}
		return ids;
	}

	bool empty() const
	{
		const std::lock_guard guard(mutex_);
		return requests_.empty();
	}

	client_pointer client_;
	lk_queue *queue_ = nullptr;
	mutable std::mutex mutex_;  /* may be held when ending_ is taken */
	mutable std::mutex ending_; /* while queue_ is used without mutex_ */
	std::map<std::uint64_t, pointer> requests_;
};

struct acquire_request final : request {
	using result_type = hold;

	acquire_request(hold made, std::int64_t limit_ms, const options &how)
	    : hold_(std::move(made)), limit_ms_(limit_ms), how_(how)
	{
		hold_.no_wait_ = true;
	}

	~acquire_request() override
	{
		hold_.forget(); /* it was not granted, or has been moved from */
	}

	int start(lk_queue *queue, lk_error *details) noexcept override
	{
		const lk_acquire_options asked = how_.made(hold_.owner());
		lk_request what = request_of(LK_OP_ACQUIRE);
		what.lock = hold_.lock_.get();
		what.wait_ms = limit_ms_;
		what.acquire = &asked;
		return lk_queue_start(queue, &what, &id, details);
	}

	void unclaimed(request_table &) noexcept override
	{
		if (error.code == 0)
			hold_.give_up();
	}

	hold result()
	{
		detail::check(error.code, error);
		return std::move(hold_);
	}

      private:
	hold hold_;
	std::int64_t limit_ms_;
	options how_;
};

struct release_request final : request {
	using result_type = void;

	explicit release_request(hold &held) : from_(&held)
	{
	}

	~release_request() override
	{
		hold_.forget();
	}

	void unclaimed(request_table &table) noexcept override
	{
		if (error.code == LK_ENOMEM) /* it is still held */
			hold_.give_up();
		else if (error.code != 0)
			table.report(error);
	}

	int start(lk_queue *queue, lk_error *details) noexcept override
	{
		lk_release_options how{};
		how.struct_size = sizeof(how);
		how.owner = from_->owner();
		lk_request what = request_of(LK_OP_RELEASE);
		what.lock = from_->lock_.get();
		what.release = &how;
		const int result = lk_queue_start(queue, &what, &id, details);
		if (result == 0)
			hold_ = std::move(*from_); /* empty from now on: nobody releases it twice */
		return result;
	}

	void result()
	{
		if (error.code == LK_ENOMEM && hold_)
			*from_ = std::move(hold_); /* it is still held */
		detail::check(error.code, error);
	}

      private:
	hold *from_; /* only while the coroutine is there */
	hold hold_;
};

struct permits_back final : request {
	using result_type = void;

	permits_back(std::shared_ptr<lk_semaphore> semaphore, std::int64_t permits)
	    : semaphore_(std::move(semaphore)), permits_(permits)
	{
	}

	int start(lk_queue *queue, lk_error *details) noexcept override
	{
		lk_request what = request_of(LK_OP_RELEASE);
		what.semaphore = semaphore_.get();
		what.number = permits_;
		return lk_queue_start(queue, &what, &id, details);
	}

	void unclaimed(request_table &table) noexcept override
	{
		if (error.code != 0)
			table.report(error);
	}

	void result()
	{
		detail::check(error.code, error);
	}

      private:
	std::shared_ptr<lk_semaphore> semaphore_;
	std::int64_t permits_;
};

struct permits_request final : request {
	using result_type = void;

	permits_request(std::shared_ptr<lk_semaphore> semaphore, std::int64_t permits,
			std::int64_t limit_ms)
	    : semaphore_(std::move(semaphore)), permits_(permits), limit_ms_(limit_ms)
	{
	}

	int start(lk_queue *queue, lk_error *details) noexcept override
	{
		lk_request what = request_of(LK_OP_ACQUIRE);
		what.semaphore = semaphore_.get();
		what.wait_ms = limit_ms_;
		what.number = permits_;
		return lk_queue_start(queue, &what, &id, details);
	}

	void unclaimed(request_table &table) noexcept override
	{
		if (error.code != 0)
			return;
		try {
			const auto back = std::make_shared<permits_back>(semaphore_, permits_);
			if (!table.start(back, [] {}))
				table.report(back->error);
		} catch (...) {
			lk_error details{};
			details.code = LK_ENOMEM;
			table.report(details);
		}
	}

	void result()
	{
		detail::check(error.code, error);
	}

      private:
	std::shared_ptr<lk_semaphore> semaphore_;
	std::int64_t permits_, limit_ms_;
};

struct latch_request final : request {
	using result_type = void;

	latch_request(std::shared_ptr<lk_latch> latch, std::int64_t limit_ms)
	    : latch_(std::move(latch)), limit_ms_(limit_ms)
	{
	}

	int start(lk_queue *queue, lk_error *details) noexcept override
	{
		lk_request what = request_of(LK_OP_AWAIT);
		what.latch = latch_.get();
		what.wait_ms = limit_ms_;
		return lk_queue_start(queue, &what, &id, details);
	}

	void result()
	{
		detail::check(error.code, error);
	}

      private:
	std::shared_ptr<lk_latch> latch_;
	std::int64_t limit_ms_;
};

} // namespace detail

/* What `co_await` waits for. It is not to be kept: write the call behind `co_await`. */
template <class Request> class [[nodiscard]] awaitable
{
      public:
	awaitable(std::shared_ptr<detail::request_table> table, std::shared_ptr<Request> made)
	    : table_(std::move(table)), request_(std::move(made))
	{
	}

	awaitable(const awaitable &) = delete;
	awaitable &operator=(const awaitable &) = delete;

	~awaitable()
	{
		if (suspended_ && request_->in_flight)
			table_->leave(*request_);
	}

#if defined(__cpp_lib_jthread)
	/* A request to stop ends the wait with LK_ECANCELLED, unless the grant was faster. */
	awaitable stopped_by(std::stop_token stop) &&
	{
		return {std::move(table_), std::move(request_), std::move(stop)};
	}
#endif

	bool await_ready() const noexcept
	{
		return false;
	}

	bool await_suspend(std::coroutine_handle<> waiter)
	{
		/* Another thread may have resumed the coroutine, and this object may be gone, as soon
		 * as the request is in the table: what is needed until the end is here. */
		const auto table = table_;
		const auto made = request_;
		made->waiter = waiter;
		suspended_ = true;
		return table->start(made, [this] { listen(); });
	}

	typename Request::result_type await_resume()
	{
		unlisten();
		return request_->result();
	}

      private:
#if defined(__cpp_lib_jthread)
	awaitable(std::shared_ptr<detail::request_table> table, std::shared_ptr<Request> made,
		  std::stop_token stop)
	    : table_(std::move(table)), request_(std::move(made)), stop_(std::move(stop))
	{
	}

	struct stopper {
		detail::request_table *table;
		std::uint64_t id;

		void operator()() const noexcept
		{
			table->cancel(id);
		}
	};

	/* With the table's mutex, which the stopper does not need. */
	void listen()
	{
		if (stop_.stop_possible())
			listener_.emplace(stop_, stopper{table_.get(), request_->id});
	}

	void unlisten() noexcept
	{
		listener_.reset();
	}
#else
	void listen() const noexcept
	{
	}

	void unlisten() const noexcept
	{
	}
#endif

	std::shared_ptr<detail::request_table> table_;
	std::shared_ptr<Request> request_;
	bool suspended_ = false;
#if defined(__cpp_lib_jthread)
	std::stop_token stop_;
	std::optional<std::stop_callback<stopper>> listener_;
#endif
};

class queue
{
      public:
	static constexpr std::size_t at_once = 64; /* completions that one take() delivers */
	static constexpr std::chrono::seconds end_limit{5};

	/* 0: LK_QUEUE_CAPACITY requests. Throws lk::error. */
	explicit queue(const client &client, std::size_t capacity = 0)
	    : client_(client.shared()),
	      table_(std::make_shared<detail::request_table>(client.shared(), capacity))
	{
	}

	queue(const queue &) = delete;
	queue &operator=(const queue &) = delete;

	/* Cancels what is in flight and waits for it, end_limit at most; what has no end by then is
	 * told to the client's handler. Coroutines that still wait are never resumed. */
	~queue()
	{
		table_->end(end_limit);
	}

	/* Readable exactly while there is something to take. The queue owns it. */
	int fd() const
	{
		return table_->fd();
	}

	/* Resumes the coroutines of what has completed, and returns how many completions there were,
	 * at_once at most. Waits for the first one, for `limit` at most. What a coroutine throws out
	 * of itself comes out here; the other completions stay. */
	std::size_t take(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) const
	{
		const auto table = table_; /* a coroutine may destroy the queue */
		std::size_t count = 0;
		std::int64_t wait_ms = limit.count();
		while (count < at_once && table->take_one(wait_ms)) {
			count++;
			wait_ms = 0;
		}
		return count;
	}

	/* Waits without a limit. */
	awaitable<detail::acquire_request> acquire(basic_lockable &lock, const options &how = {})
	{
		return acquired(lock, -1, how);
	}

	/* Throws at the limit (LK_ETIMEDOUT), or after one try with a limit of 0 (LK_EBUSY). */
	template <class Rep, class Period>
	awaitable<detail::acquire_request> acquire_for(basic_lockable &lock,
						       std::chrono::duration<Rep, Period> limit,
						       const options &how = {})
	{
		return acquired(lock, detail::to_ms(limit), how);
	}

	/* As hold::release(). The hold is empty from the start of the wait on. */
	awaitable<detail::release_request> release(hold &held)
	{
		return {table_, std::make_shared<detail::release_request>(held)};
	}

	awaitable<detail::permits_request> acquire(const semaphore &semaphore,
						   std::int64_t permits = 1)
	{
		return {table_,
			std::make_shared<detail::permits_request>(semaphore.handle_, permits, -1)};
	}

	template <class Rep, class Period>
	awaitable<detail::permits_request> acquire_for(const semaphore &semaphore,
						       std::chrono::duration<Rep, Period> limit,
						       std::int64_t permits = 1)
	{
		return {table_, std::make_shared<detail::permits_request>(
					semaphore.handle_, permits, detail::to_ms(limit))};
	}

	awaitable<detail::permits_back> release(const semaphore &semaphore,
						std::int64_t permits = 1)
	{
		return {table_, std::make_shared<detail::permits_back>(semaphore.handle_, permits)};
	}

	awaitable<detail::latch_request> wait(const latch &latch)
	{
		return {table_, std::make_shared<detail::latch_request>(latch.handle_, -1)};
	}

	template <class Rep, class Period>
	awaitable<detail::latch_request> wait_for(const latch &latch,
						  std::chrono::duration<Rep, Period> limit)
	{
		return {table_, std::make_shared<detail::latch_request>(latch.handle_,
									detail::to_ms(limit))};
	}

      private:
	awaitable<detail::acquire_request> acquired(basic_lockable &lock, std::int64_t limit_ms,
						    const options &how)
	{
		return {table_, std::make_shared<detail::acquire_request>(
					hold(lock.client_, lock.handle_), limit_ms, how)};
	}

	detail::client_pointer client_; /* outlives the queue's requests */
	std::shared_ptr<detail::request_table> table_;
};

} // namespace lk

#endif
