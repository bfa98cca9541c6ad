#include "base/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { EMPTY, TOKEN, ASLEEP };

static void park_sleep(struct lk__park *park, int64_t deadline_ns)
{
	struct timespec left, *limit = NULL;
	if (deadline_ns != LK__NEVER) {
		int64_t left_ns = deadline_ns - lk__now_ns();
		if (left_ns <= 0)
			return;
		left.tv_sec = (time_t)(left_ns / INT64_C(1000000000));
		left.tv_nsec = (long)(left_ns % INT64_C(1000000000));
		limit = &left;
	}
	syscall(SYS_futex, &park->state, FUTEX_WAIT_PRIVATE, ASLEEP, limit, NULL, 0);
}

void lk__park_wait(struct lk__park *park, int64_t deadline_ns)
{
	uint32_t state = EMPTY;
	if (atomic_compare_exchange_strong(&park->state, &state, ASLEEP))
		park_sleep(park, deadline_ns);
	atomic_store(&park->state, EMPTY);
}

void lk__park_wake(struct lk__park *park)
{
	if (atomic_exchange(&park->state, TOKEN) == ASLEEP) {
		int saved = errno;
		syscall(SYS_futex, &park->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		errno = saved;
	}
}
