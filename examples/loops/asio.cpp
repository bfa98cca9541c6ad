/*
 * A lock in a loop of Boost.Asio.
 *
 * usage: asio NAME [MS]
 */
#include <boost/asio.hpp>
#include <chrono>
#include <functional>

#include "job.h"

namespace asio = boost::asio;

/* ---- the adapter ---- */

/* Calls a function whenever a descriptor of the library is readable, until its destruction. */
class watch
{
      public:
	watch(asio::io_context &loop, int fd, std::function<void()> function)
	    : stream(loop, fd), ready(std::move(function))
	{
		wait();
	}
	~watch()
	{
		stream.release(); // the library closes it
	}
	watch(const watch &) = delete;
	watch &operator=(const watch &) = delete;

      private:
	void wait()
	{
		stream.async_wait(stream.wait_read, [this](const boost::system::error_code &error) {
			if (error) // it is being destroyed
				return;
			ready();
			wait();
		});
	}
	asio::posix::stream_descriptor stream;
	std::function<void()> ready;
};

/* ---- the program ---- */

static asio::io_context loop;
static asio::steady_timer timer(loop);

static void work(job *of)
{
	timer.expires_after(std::chrono::milliseconds(of->work_ms));
	timer.async_wait([of](const boost::system::error_code &error) {
		if (!error)
			job_worked(of);
	});
}

static void end(job *)
{
	loop.stop();
}

int main(int argc, char **argv)
{
	job of = {};
	of.work = work;
	of.end = end;
	job_start(&of, argc, argv);
	{
		watch queue(loop, lk_queue_fd(of.queue, nullptr), [&of] { job_ready(&of); });
		loop.run();
	}
	return job_end(&of);
}
