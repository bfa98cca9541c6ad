#include <cstdio>
#include <mutex>

#include <lockkeeper.hpp>

int main()
try {
	using namespace std::chrono_literals;
	lk::client client; // what LOCKKEEPER_URL says
	lk::mutex backup(client, "backup");

	lk::hold hold = backup.acquire_for(2s); // a lease of 30 s, renewed until the release
	std::puts("alone at work");
	hold.check();   // throws if the lock has been lost
	hold.release(); // throws if it was lost before: then somebody else may have worked, too

	std::lock_guard guard(backup); // as with std::mutex; the thread owns it
	std::puts("still alone");
} catch (const lk::error &error) {
	std::fprintf(stderr, "%s\n", error.message().c_str());
	return 1;
}
