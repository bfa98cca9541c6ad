// What both programs check with: a condition that does not hold ends them.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			std::fprintf(stderr, "%d: %s\n", __LINE__, #condition);                    \
			std::exit(1);                                                              \
		}                                                                                  \
	} while (false)

#endif
