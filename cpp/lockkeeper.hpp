/* SPDX-License-Identifier: MIT */
/*
 * Lockkeeper in C++17: locks that fit the standard library's wrappers, and holds with owners of
 * their own. One header over <lockkeeper.h>, whose caveats hold here too:
 *
 * A lease is not a mutex. A process that is stopped for longer than its lease has lost the lock and
 * does not know it until it runs again. Ask hold::check() or mutex::is_held() before each step that
 * must not be done by two, and read <lockkeeper/lock.h>.
 *
 *     lk::client client("redis://localhost");
 *     lk::mutex mutex(client, "backup");
 *
 *     std::unique_lock guard(mutex, std::chrono::seconds(10));   // owned by this thread
 *     lk::hold hold = mutex.acquire();                           // owned by `hold`, may be moved
 *
 * WHICH ONE. lk::mutex and lk::shared_mutex are owned by the calling thread, as the standard's are,
 * and the owner may lock them again. std::unique_lock, scoped_lock, shared_lock, std::lock and
 * condition_variable_any take them. An lk::hold has an owner name of its own: it may be moved to
 * another thread and released there; a second hold of the same lock waits, also in its own thread.
 *
 * ERRORS. What fails throws lk::error, a std::system_error whose code is the library's (LK_E…) and
 * whose text names the lock, the server and the reason. Codes compare with std::errc, too:
 * `error.code() == std::errc::timed_out`. Calls with a std::error_code do not throw.
 * Destructors and unlock() never throw: unlock() in a destructor would end the program, and one
 * that throws elsewhere would be called again. What goes wrong there is told to the client's
 * handler, see client::on_error().
 *
 * COROUTINES. In C++20 an lk::queue waits for many of them in one thread: <lockkeeper/await.hpp>.
 *
 * LIFE. A client may be destroyed before its locks: what it has lives as long as the last of them.
 *
 * THREADS. Any thread may make any call. Objects may be moved, not while another thread uses them.
 */
#ifndef LOCKKEEPER_HPP
#define LOCKKEEPER_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif

#include <lockkeeper.h>

#if defined(__cpp_lib_jthread)
#include <stop_token>
#endif

namespace lk
{

/* ---- errors ---- */

class error_category final : public std::error_category
{
      public:
	const char *name() const noexcept override
	{
		return "lockkeeper";
	}

	std::string message(int code) const override
	{
		return lk_error_text(code);
	}

	std::error_condition default_error_condition(int code) const noexcept override
	{
		switch (code) {
		case LK_EINVAL:
			return std::errc::invalid_argument;
		case LK_ENOMEM:
			return std::errc::not_enough_memory;
		case LK_EBUSY:
			return std::errc::device_or_resource_busy;
		case LK_ETIMEDOUT:
			return std::errc::timed_out;
		case LK_ECANCELLED:
			return std::errc::operation_canceled;
		case LK_EUNREACHABLE:
			return std::errc::host_unreachable;
		case LK_EAUTH:
		case LK_EDENIED:
			return std::errc::permission_denied;
		case LK_EPROTOCOL:
			return std::errc::protocol_error;
		default:
			return {code, *this};
		}
	}
};

inline const std::error_category &category() noexcept
{
	static const error_category instance;
	return instance;
}

inline std::error_code make_error_code(const lk_error &error) noexcept
{
	return {error.code, category()};
}

class error : public std::system_error
{
      public:
	explicit error(const lk_error &details)
	    : std::system_error(make_error_code(details), details.message),
	      message_(details.message)
	{
	}

	/* The library's own line, without the text of the code behind it. */
	const std::string &message() const noexcept
	{
		return message_;
	}

	/* The server may hold the lock for us although the call failed. */
	bool maybe_held() const noexcept
	{
		return lk_error_maybe_held(code().value()) == 1;
	}

	/* The same call may succeed later without any change. */
	bool retryable() const noexcept
	{
		return lk_error_is_retryable(code().value()) == 1;
	}

      private:
	std::string message_;
};

using error_handler = std::function<void(const error &)>;

namespace detail
{

inline void check(int result, const lk_error &details)
{
	if (result < 0)
		throw error(details);
}

/* Whole milliseconds, rounded up: a limit of 0.5 ms is not "do not wait". */
template <class Rep, class Period> std::int64_t to_ms(std::chrono::duration<Rep, Period> time)
{
	using milliseconds = std::chrono::duration<double, std::milli>;
	const double count = std::chrono::duration_cast<milliseconds>(time).count();
	if (!(count > 0))
		return 0;
	if (count >= static_cast<double>(LK_WAIT_MAX_MS))
		return LK_WAIT_MAX_MS;
	const auto whole = static_cast<std::int64_t>(count);
	return whole + (static_cast<double>(whole) < count ? 1 : 0);
}

template <class Clock, class Duration> auto left_until(std::chrono::time_point<Clock, Duration> end)
{
	return end - Clock::now();
}

struct shared_client {
	lk_client *client = nullptr;
	error_handler handler;
	std::atomic<std::uint64_t> holds{0};

	shared_client() = default;
	shared_client(const shared_client &) = delete;
	shared_client &operator=(const shared_client &) = delete;

	~shared_client()
	{
		lk_client_free(client);
	}

	void report(const lk_error &details) const noexcept
	{
		try {
			if (handler)
				handler(error(details));
		} catch (...) { /* from a destructor: there is nobody to tell */
		}
	}
};

using client_pointer = std::shared_ptr<shared_client>;

/* lk_…_free() of a handle, for unique_ptr. */
template <class Handle, Handle *(*Free)(Handle *)> struct freed {
	void operator()(Handle *handle) const noexcept
	{
		Free(handle);
	}
};

using cancel_handle = std::unique_ptr<lk_cancel, freed<lk_cancel, lk_cancel_free>>;

struct acquire_request;
struct release_request;

} // namespace detail

class queue;

/* ---- the client ---- */

class client
{
      public:
	/* From LOCKKEEPER_URL and the other variables. Does no I/O. Throws lk::error. */
	client()
	{
		open(nullptr);
	}

	explicit client(const char *url)
	{
		open(url);
	}

	explicit client(const std::string &url)
	{
		open(url.c_str());
	}

	/* With every option that a configuration has; it is copied. */
	explicit client(const lk_config *config)
	{
		lk_error details{};
		detail::check(lk_client_new(&shared_->client, config, &details), details);
	}

	/* What happens to failures that cannot be thrown: of unlock() and of destructors. It runs on
	 * the thread that met the failure. Without a handler they are not told. Set it before the
	 * client is shared between threads. */
	void on_error(error_handler handler)
	{
		shared_->handler = std::move(handler);
	}

	void ping() const
	{
		lk_error details{};
		detail::check(lk_client_ping(get(), &details), details);
	}

	/* What the client holds. */
	std::vector<lk_held> held() const
	{
		lk_error details{};
		std::vector<lk_held> all(16);
		for (;;) {
			all[0].struct_size = sizeof(lk_held);
			const int count = lk_client_held(get(), all.data(), all.size(), &details);
			detail::check(count, details);
			const bool fits = static_cast<std::size_t>(count) <= all.size();
			all.resize(static_cast<std::size_t>(fits ? count : 2 * count));
			if (fits)
				return all;
		}
	}

	/* From now on it takes nothing new: see <lockkeeper/drain.h>. Waits until nothing is held any
	 * more, at most for the limit, and returns what still is. */
	template <class Rep, class Period>
	std::vector<lk_held> drain(std::chrono::duration<Rep, Period> limit) const
	{
		lk_error details{};
		const int result = lk_client_drain(get(), detail::to_ms(limit), nullptr, &details);
		if (result != LK_EHELD)
			detail::check(result, details);
		return held();
	}

	/* Wakes all waiters, gives back what is held if `how` says so, and waits for it: see
	 * lk_client_close(). */
	void close(int how = LK_CLOSE_RELEASE) const
	{
		lk_error details{};
		detail::check(lk_client_close(get(), how, &details), details);
	}

	/* For what this header lacks. It stays the client's. */
	lk_client *get() const noexcept
	{
		return shared_->client;
	}

	const detail::client_pointer &shared() const noexcept
	{
		return shared_;
	}

      private:
	void open(const char *url)
	{
		lk_error details{};
		detail::check(lk_client_open(&shared_->client, url, &details), details);
	}

	detail::client_pointer shared_ = std::make_shared<detail::shared_client>();
};

/* ---- what a wait may be told ---- */

struct options {
	std::chrono::milliseconds lease{0};    /* 0: the watchdog renews; else it ends with this, */
	bool renew = false;                    /* unless the watchdog renews this one, too */
	std::chrono::milliseconds max_hold{0}; /* 0: no limit; else renewal stops then */
	std::chrono::milliseconds margin{0};   /* LK_EVENT_AT_RISK comes so long before the end */
	lk_cancel *cancel = nullptr;
	std::uint64_t tag = 0;

	lk_acquire_options made(const char *owner) const noexcept
	{
		lk_acquire_options made{};
		made.struct_size = sizeof(made);
		made.lease_ms = lease.count();
		made.renew = renew;
		made.max_hold_ms = max_hold.count();
		made.margin_ms = margin.count();
		made.owner = owner;
		made.cancel = cancel;
		made.tag = tag;
		return made;
	}
};

/* ---- holds ---- */

/* A hold of a lock, under an owner name that no other hold has. Destroyed, it is released. */
class hold
{
      public:
	hold() noexcept = default;

	hold(hold &&other) noexcept
	    : client_(std::move(other.client_)), lock_(std::move(other.lock_)),
	      owner_(std::move(other.owner_)), no_wait_(other.no_wait_)
	{
	}

	hold &operator=(hold &&other) noexcept
	{
		if (this != &other) {
			give_up();
			client_ = std::move(other.client_);
			lock_ = std::move(other.lock_);
			owner_ = std::move(other.owner_);
			no_wait_ = other.no_wait_;
		}
		return *this;
	}

	~hold()
	{
		give_up();
	}

	/* It has been acquired and not released; it may be lost all the same: is_held(). */
	explicit operator bool() const noexcept
	{
		return lock_ != nullptr;
	}

	/* A memory read: no error makes it true. */
	bool is_held() const noexcept
	{
		return lock_ && lk_lock_is_held(lock_.get(), owner(), nullptr);
	}

	/* Throws (LK_ELOST, LK_ENOTOWNER) unless the hold is certain now. A memory read. */
	void check() const
	{
		remaining();
	}

	/* For how long it is certain. */
	std::chrono::milliseconds remaining() const
	{
		lk_error details{};
		std::int64_t left_ms = 0;
		detail::check(lk_lock_remaining_ms(lock_.get(), owner(), &left_ms, &details),
			      details);
		return std::chrono::milliseconds(left_ms);
	}

	/* The token of a fenced lock. */
	std::uint64_t fence() const
	{
		lk_error details{};
		std::uint64_t token = 0;
		detail::check(lk_lock_fence(lock_.get(), owner(), &token, &details), details);
		return token;
	}

	/* To at least so long from now; never shorter. */
	void extend(std::chrono::milliseconds lease) const
	{
		lk_error details{};
		lk_extend_options how{};
		how.struct_size = sizeof(how);
		how.owner = owner();
		detail::check(lk_lock_extend(lock_.get(), lease.count(), &how, &details), details);
	}

	/* Gives it back, and throws if it was lost, or if nobody knows. Either way this object has
	 * it no more, unless the call had no memory (LK_ENOMEM). */
	void release()
	{
		lk_error details{};
		const int result = release_now(false, &details);
		if (result != LK_ENOMEM)
			forget();
		detail::check(result, details);
	}

	/* The same without an exception. */
	void release(std::error_code &why) noexcept
	{
		lk_error details{};
		const int result = release_now(false, &details);
		if (result != LK_ENOMEM)
			forget();
		why = result < 0 ? make_error_code(details) : std::error_code();
	}

	/* What names the hold within its client, as calls of <lockkeeper.h> want it. */
	const char *owner() const noexcept
	{
		return owner_.c_str();
	}

      private:
	friend class basic_lockable;
	friend class queue;
	friend struct detail::acquire_request;
	friend struct detail::release_request;

	hold(detail::client_pointer client, std::shared_ptr<lk_lock> lock)
	    : client_(std::move(client)), lock_(std::move(lock)),
	      owner_("hold:" + std::to_string(++client_->holds))
	{
	}

	int release_now(bool no_wait, lk_error *details) const noexcept
	{
		lk_release_options how{};
		how.struct_size = sizeof(how);
		how.owner = owner();
		how.no_wait = no_wait ? 1 : 0;
		return lk_lock_release(lock_.get(), &how, details);
	}

	void give_up() noexcept
	{
		lk_error details{};
		if (lock_ && release_now(no_wait_, &details) < 0)
			client_->report(details);
		forget();
	}

	void forget() noexcept
	{
		lock_.reset();
		client_.reset();
	}

	detail::client_pointer client_; /* behind lock_, so it outlives it */
	std::shared_ptr<lk_lock> lock_;
	std::string owner_;
	bool no_wait_ = false; /* the destructor sends the release, and does not wait for it */
};

/* ---- locks ---- */

enum class kind { reentrant, fair, fenced, spin, plain };

/* What every lock and every side of one can do. */
class basic_lockable
{
      public:
	basic_lockable(const basic_lockable &) = delete;
	basic_lockable &operator=(const basic_lockable &) = delete;

	/* Owned by the calling thread. Waits without a limit. */
	void lock(const options &how = {})
	{
		lk_error details{};
		const lk_acquire_options made = how.made(nullptr);
		detail::check(lk_lock_acquire(handle_.get(), -1, &made, &details), details);
	}

	/* False: another owner has it. Anything else throws. */
	bool try_lock()
	{
		return try_lock_for(std::chrono::milliseconds(0));
	}

	template <class Rep, class Period>
	bool try_lock_for(std::chrono::duration<Rep, Period> limit, const options &how = {})
	{
		lk_error details{};
		const int result = within(limit, how.made(nullptr), &details);
		if (result == LK_EBUSY || result == LK_ETIMEDOUT)
			return false;
		detail::check(result, details);
		return true;
	}

	template <class Clock, class Duration>
	bool try_lock_until(std::chrono::time_point<Clock, Duration> end, const options &how = {})
	{
		return try_lock_for(detail::left_until(end), how);
	}

	/* Never throws: see ERRORS above. */
	void unlock() noexcept
	{
		lk_error details{};
		if (lk_lock_release(handle_.get(), nullptr, &details) < 0)
			client_->report(details);
	}

	/* The calling thread has it, for certain. A memory read: no error makes it true. */
	bool is_held() const noexcept
	{
		return lk_lock_is_held(handle_.get(), nullptr, nullptr);
	}

	/* A hold with an owner of its own. Waits without a limit. */
	[[nodiscard]] hold acquire(const options &how = {})
	{
		lk_error details{};
		hold made(client_, handle_);
		const lk_acquire_options asked = how.made(made.owner());
		const int result = lk_lock_acquire(handle_.get(), -1, &asked, &details);
		return taken(std::move(made), result, details);
	}

	/* Throws at the limit (LK_ETIMEDOUT), or at once with a limit of 0 (LK_EBUSY). */
	template <class Rep, class Period>
	[[nodiscard]] hold acquire_for(std::chrono::duration<Rep, Period> limit,
				       const options &how = {})
	{
		lk_error details{};
		hold made(client_, handle_);
		const int result = within(limit, how.made(made.owner()), &details);
		return taken(std::move(made), result, details);
	}

	/* Does not throw: an empty hold, and why in `why`. */
	template <class Rep, class Period>
	[[nodiscard]] hold acquire_for(std::chrono::duration<Rep, Period> limit, const options &how,
				       std::error_code &why)
	{
		lk_error details{};
		hold made(client_, handle_);
		const int result = within(limit, how.made(made.owner()), &details);
		why = result < 0 ? make_error_code(details) : std::error_code();
		if (result < 0)
			made.forget();
		return made;
	}

	/* The hold, or nothing where another owner has the lock. */
	[[nodiscard]] std::optional<hold> try_acquire(const options &how = {})
	{
		lk_error details{};
		hold made(client_, handle_);
		const int result = within(std::chrono::milliseconds(0), how.made(made.owner()),
					  &details);
		if (result == LK_EBUSY) {
			made.forget();
			return std::nullopt;
		}
		return taken(std::move(made), result, details);
	}

#if defined(__cpp_lib_jthread)
	/* A request to stop ends the wait with LK_ECANCELLED, unless the grant was faster. */
	[[nodiscard]] hold acquire(std::stop_token stop, const options &how = {})
	{
		return stopped_by(std::move(stop), how,
				  [this](const options &asked) { return acquire(asked); });
	}

	template <class Rep, class Period>
	[[nodiscard]] hold acquire_for(std::chrono::duration<Rep, Period> limit,
				       std::stop_token stop, const options &how = {})
	{
		return stopped_by(std::move(stop), how, [this, limit](const options &asked) {
			return acquire_for(limit, asked);
		});
	}
#endif

	/* For what this header lacks. It stays the lock's. */
	lk_lock *get() const noexcept
	{
		return handle_.get();
	}

      protected:
	explicit basic_lockable(const client &client) : client_(client.shared())
	{
	}

	~basic_lockable() = default;

	void adopt(lk_lock *made)
	{
		handle_.reset(made, lk_lock_free);
	}

      private:
	friend class queue;

#if defined(__cpp_lib_jthread)
	template <class Acquire>
	static hold stopped_by(std::stop_token stop, options how, Acquire acquire)
	{
		lk_error details{};
		lk_cancel *made = nullptr;
		detail::check(lk_cancel_new(&made, &details), details);
		const detail::cancel_handle cancel(made);
		how.cancel = made;
		const std::stop_callback wake(std::move(stop), [made] { lk_cancel_now(made); });
		return acquire(how);
	}
#endif

	template <class Rep, class Period>
	int within(std::chrono::duration<Rep, Period> limit, lk_acquire_options asked,
		   lk_error *details) const noexcept
	{
		return lk_lock_acquire(handle_.get(), detail::to_ms(limit), &asked, details);
	}

	static hold taken(hold made, int result, const lk_error &details)
	{
		if (result < 0)
			made.forget();
		detail::check(result, details);
		return made;
	}

	detail::client_pointer client_;
	std::shared_ptr<lk_lock> handle_; /* its last holds keep it */
};

class mutex : public basic_lockable
{
      public:
	mutex(const client &client, std::string_view name, kind which = kind::reentrant)
	    : basic_lockable(client)
	{
		lk_error details{};
		lk_lock *made = nullptr;
		detail::check(make(&made, client.get(), name, which, &details), details);
		adopt(made);
	}

      private:
	static int make(lk_lock **made, lk_client *client, std::string_view name, kind which,
			lk_error *details) noexcept
	{
		switch (which) {
		case kind::fair:
			return lk_fair_lock_new(made, client, name.data(), name.size(), details);
		case kind::fenced:
			return lk_fenced_lock_new(made, client, name.data(), name.size(), nullptr,
						  details);
		case kind::spin:
			return lk_spin_lock_new(made, client, name.data(), name.size(), nullptr,
						details);
		case kind::plain:
			return lk_plain_lock_new(made, client, name.data(), name.size(), nullptr,
						 details);
		default:
			return lk_lock_new(made, client, name.data(), name.size(), details);
		}
	}
};

/* A read/write lock. An owner that writes may read too; one that reads may not write (it would wait
 * for itself): LK_EUPGRADE. */
class shared_mutex : public basic_lockable
{
      public:
	shared_mutex(const client &client, std::string_view name)
	    : basic_lockable(client), reader_(client, name)
	{
		lk_error details{};
		lk_lock *made = nullptr;
		detail::check(lk_write_lock_new(&made, client.get(), name.data(), name.size(),
						nullptr, &details),
			      details);
		adopt(made);
	}

	void lock_shared(const options &how = {})
	{
		reader_.lock(how);
	}

	bool try_lock_shared()
	{
		return reader_.try_lock();
	}

	template <class Rep, class Period>
	bool try_lock_shared_for(std::chrono::duration<Rep, Period> limit, const options &how = {})
	{
		return reader_.try_lock_for(limit, how);
	}

	template <class Clock, class Duration>
	bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> end,
				   const options &how = {})
	{
		return reader_.try_lock_until(end, how);
	}

	void unlock_shared() noexcept
	{
		reader_.unlock();
	}

	/* The read side alone, for holds of it. */
	basic_lockable &reader() noexcept
	{
		return reader_;
	}

      private:
	class read_side : public basic_lockable
	{
	      public:
		read_side(const client &client, std::string_view name) : basic_lockable(client)
		{
			lk_error details{};
			lk_lock *made = nullptr;
			detail::check(lk_read_lock_new(&made, client.get(), name.data(),
						       name.size(), nullptr, &details),
				      details);
			adopt(made);
		}
	};

	read_side reader_;
};

/* ---- counters ---- */

/* A number of permits without owners, as std::counting_semaphore: see <lockkeeper/semaphore.h>. */
class semaphore
{
      public:
	semaphore(const client &client, std::string_view name) : client_(client.shared())
	{
		lk_error details{};
		lk_semaphore *made = nullptr;
		detail::check(lk_semaphore_new(&made, client.get(), name.data(), name.size(),
					       nullptr, &details),
			      details);
		handle_.reset(made, lk_semaphore_free);
	}

	/* True: there was no number yet. */
	bool try_set(std::int64_t permits) const
	{
		return answer([&](lk_error *details) {
			       return lk_semaphore_try_set(handle_.get(), permits, 0, details);
		       }) == 1;
	}

	void acquire(std::int64_t permits = 1) const
	{
		answer([&](lk_error *details) {
			return lk_semaphore_acquire(handle_.get(), permits, -1, nullptr, details);
		});
	}

	/* False: too few were free. */
	template <class Rep, class Period>
	bool try_acquire_for(std::chrono::duration<Rep, Period> limit,
			     std::int64_t permits = 1) const
	{
		lk_error details{};
		const int result = lk_semaphore_acquire(handle_.get(), permits,
							detail::to_ms(limit), nullptr, &details);
		if (result == LK_EBUSY || result == LK_ETIMEDOUT)
			return false;
		detail::check(result, details);
		return true;
	}

	bool try_acquire(std::int64_t permits = 1) const
	{
		return try_acquire_for(std::chrono::milliseconds(0), permits);
	}

	void release(std::int64_t permits = 1) const
	{
		answer([&](lk_error *details) {
			return lk_semaphore_release(handle_.get(), permits, nullptr, details);
		});
	}

	std::int64_t available() const
	{
		std::int64_t permits = 0;
		answer([&](lk_error *details) {
			return lk_semaphore_available(handle_.get(), &permits, details);
		});
		return permits;
	}

	lk_semaphore *get() const noexcept
	{
		return handle_.get();
	}

      private:
	friend class queue;

	template <class Call> static int answer(Call call)
	{
		lk_error details{};
		const int result = call(&details);
		detail::check(result, details);
		return result;
	}

	detail::client_pointer client_;
	std::shared_ptr<lk_semaphore> handle_;
};

/* A count that opens at zero, as std::latch: see <lockkeeper/latch.h>. */
/* One party of a barrier, with one call at a time. A limit that is reached throws LK_ETIMEDOUT. */
class barrier
{
      public:
	barrier(const client &client, std::string_view name, std::int64_t parties)
	    : client_(client.shared())
	{
		lk_error details{};
		lk_barrier *made = nullptr;
		detail::check(lk_barrier_new(&made, client.get(), name.data(), name.size(), parties,
					     nullptr, &details),
			      details);
		handle_.reset(made);
	}

	/* Until all have come: the generation. */
	std::uint64_t wait(std::chrono::milliseconds limit = no_limit) const
	{
		return met(lk_barrier_await, limit);
	}

	/* Until all enter together; it is inside then, until it leaves. */
	std::uint64_t enter(std::chrono::milliseconds limit = no_limit) const
	{
		return met(lk_barrier_enter, limit);
	}

	/* Until all that entered with it have left. */
	void leave(std::chrono::milliseconds limit = no_limit) const
	{
		lk_error details{};
		detail::check(lk_barrier_leave(handle_.get(), limit.count(), nullptr, &details),
			      details);
	}

      private:
	static constexpr std::chrono::milliseconds no_limit{-1};
	using call = int (*)(lk_barrier *, std::int64_t, lk_cancel *, std::uint64_t *, lk_error *);

	std::uint64_t met(call way, std::chrono::milliseconds limit) const
	{
		lk_error details{};
		std::uint64_t generation = 0;
		detail::check(way(handle_.get(), limit.count(), nullptr, &generation, &details),
			      details);
		return generation;
	}

	detail::client_pointer client_; /* outlives the handle */
	std::unique_ptr<lk_barrier, detail::freed<lk_barrier, lk_barrier_free>> handle_;
};

/* Locks from outside: their present state, and each change (<lockkeeper/watch.h>). One thread at a
 * time. */
class watch
{
      public:
	explicit watch(const client &client) : client_(client.shared())
	{
		lk_error details{};
		lk_watch *made = nullptr;
		detail::check(lk_watch_new(&made, client.get(), nullptr, &details), details);
		handle_.reset(made);
	}

	void add(std::string_view name)
	{
		lk_error details{};
		detail::check(lk_watch_add(handle_.get(), name.data(), name.size(), &details),
			      details);
	}

	/* The next change; NULL at the limit. It is there until the next call. */
	const lk_change *next(std::chrono::milliseconds limit = std::chrono::milliseconds(-1))
	{
		lk_error details{};
		change_ = LK_CHANGE_INIT;
		const int came = lk_watch_next(handle_.get(), limit.count(), nullptr, &change_,
					       &details);
		detail::check(came, details);
		return came ? &change_ : nullptr;
	}

      private:
	detail::client_pointer client_; /* outlives the handle */
	std::unique_ptr<lk_watch, detail::freed<lk_watch, lk_watch_free>> handle_;
	lk_change change_{};
};

class latch
{
      public:
	latch(const client &client, std::string_view name) : client_(client.shared())
	{
		lk_error details{};
		lk_latch *made = nullptr;
		detail::check(lk_latch_new(&made, client.get(), name.data(), name.size(), nullptr,
					   &details),
			      details);
		handle_.reset(made, lk_latch_free);
	}

	/* True: the latch was open, and has the count now. */
	bool try_set(std::int64_t count) const
	{
		lk_error details{};
		const int result = lk_latch_try_set(handle_.get(), count, &details);
		detail::check(result, details);
		return result == 1;
	}

	/* Returns what is left. */
	std::int64_t count_down(std::int64_t by = 1) const
	{
		lk_error details{};
		std::int64_t left = 0;
		detail::check(lk_latch_count_down(handle_.get(), by, &left, &details), details);
		return left;
	}

	void wait() const
	{
		lk_error details{};
		detail::check(lk_latch_await(handle_.get(), -1, nullptr, &details), details);
	}

	/* False: it is still closed. */
	template <class Rep, class Period>
	bool wait_for(std::chrono::duration<Rep, Period> limit) const
	{
		lk_error details{};
		const int result = lk_latch_await(handle_.get(), detail::to_ms(limit), nullptr,
						  &details);
		if (result == LK_EBUSY || result == LK_ETIMEDOUT)
			return false;
		detail::check(result, details);
		return true;
	}

	lk_latch *get() const noexcept
	{
		return handle_.get();
	}

      private:
	friend class queue;

	detail::client_pointer client_;
	std::shared_ptr<lk_latch> handle_;
};

} // namespace lk

#if defined(__cpp_impl_coroutine)
#include <lockkeeper/await.hpp>
#endif

#endif
