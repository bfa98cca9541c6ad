import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/**
 * Threads that acquire and release, and a history of what they believed: one JSON object a line,
 * read by tests/interop/mixed.py. Arguments as the C driver's (tests/system/driver/stress.c).
 */
final class Stress {
	private static final int INVOKE = 1, GRANTED = 2, FAILED = 3, RELEASE = 4, RELEASED = 5;
	private static volatile int stops;

	private final Command command;
	private final String kind;
	private final long waitMs, leaseMs, holdUs;
	private final int permits;
	private final BufferedWriter history;
	private final int begun = stops;
	private final AtomicLong grants = new AtomicLong(), failures = new AtomicLong();
	private volatile String message = "";

	static void stopAll() {
		stops++;
	}

	Stress(Command command) throws IOException {
		this.command = command;
		kind = command.text("kind", "lock");
		waitMs = command.number("wait", -1);
		leaseMs = command.number("lease", 30000);
		holdUs = command.number("hold_us", 0);
		permits = (int) command.number("count", 1);
		history = new BufferedWriter(new FileWriter(command.text("history", "/dev/null")));
	}

	void run(Answer answer) throws Exception {
		List<Thread> threads = new ArrayList<>();
		for (int i = 0; i < command.number("threads", 1); i++) {
			int number = i;
			threads.add(new Thread(() -> work(number)));
			threads.get(i).start();
		}
		for (Thread thread : threads)
			thread.join();
		history.close();
		answer.result(0).add("grants", grants.get()).add("failures", failures.get());
		answer.add("message", message);
	}

	private void work(int thread) {
		try {
			for (int pair = 0; pair < command.number("pairs", 1) && stops == begun; pair++) {
				pair(thread, pair);
				pause(command.number("pause_us", 0));
			}
		} catch (Exception e) {
			failures.incrementAndGet();
			message = e.toString();
		}
	}

	private static void pause(long us) {
		long end = System.nanoTime() + us * 1000;
		while (us > 0 && System.nanoTime() < end)
			LockSupport.parkNanos(end - System.nanoTime());
	}

	private void write(int phase, long timeNs, long deadlineNs, int thread, int pair, long fence)
		throws IOException {
		String line = "{\"phase\":" + phase + ",\"time_ns\":" + timeNs + ",\"deadline_ns\":" + deadlineNs
			+ ",\"thread\":" + thread + ",\"attempt\":" + pair + ",\"fence\":" + fence + "}\n";
		synchronized (history) {
			history.write(line);
		}
	}

	/** What one kind does between invoke and grant, and to give it up again. */
	private interface Grant {
		boolean acquire() throws Exception;

		void release() throws Exception;

		default long fence() {
			return 0;
		}
	}

	private void pair(int thread, int pair) throws Exception {
		Grant grant = grant();
		write(INVOKE, Workers.nowNs(), 0, thread, pair, 0);
		boolean granted = grant.acquire();
		long now = Workers.nowNs();
		if (!granted) {
			write(FAILED, now, 0, thread, pair, 0);
			return;
		}
		long deadline = now + TimeUnit.MILLISECONDS.toNanos(leaseMs);
		grants.incrementAndGet();
		write(GRANTED, now, deadline, thread, pair, grant.fence());
		pause(holdUs);
		write(RELEASE, Workers.nowNs(), deadline, thread, pair, grant.fence());
		grant.release();
		write(RELEASED, Workers.nowNs(), deadline, thread, pair, grant.fence());
	}

	private Grant grant() {
		return switch (kind) {
		case "semaphore" -> semaphore();
		case "permits" -> expirable();
		case "fenced-java" -> fenced();
		default -> lock();
		};
	}

	private Grant lock() {
		RLock lock = Locks.lock(command);
		return new Grant() {
			public boolean acquire() throws Exception {
				if (waitMs >= 0)
					return lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS);
				lock.lock(leaseMs, TimeUnit.MILLISECONDS);
				return true;
			}

			public void release() {
				lock.unlock();
			}
		};
	}

	private Grant fenced() {
		RFencedLock lock = (RFencedLock) Locks.lock(command);
		long limitMs = waitMs < 0 ? 60000 : waitMs;
		return new Grant() {
			private Long token;

			public boolean acquire() {
				token = lock.tryLockAndGetToken(limitMs, leaseMs, TimeUnit.MILLISECONDS);
				return token != null;
			}

			public void release() {
				lock.unlock();
			}

			public long fence() {
				return token;
			}
		};
	}

	private Grant semaphore() {
		RSemaphore semaphore = Peer.client(command).getSemaphore(command.name());
		return new Grant() {
			public boolean acquire() throws Exception {
				if (waitMs >= 0)
					return semaphore.tryAcquire(permits, java.time.Duration.ofMillis(waitMs));
				semaphore.acquire(permits);
				return true;
			}

			public void release() {
				semaphore.release(permits);
			}
		};
	}

	private Grant expirable() {
		RPermitExpirableSemaphore semaphore =
			Peer.client(command).getPermitExpirableSemaphore(command.name());
		return new Grant() {
			private List<String> ids;

			public boolean acquire() throws Exception {
				ids = waitMs < 0 ? semaphore.acquire(permits, leaseMs, TimeUnit.MILLISECONDS)
					: semaphore.tryAcquire(permits, waitMs, leaseMs, TimeUnit.MILLISECONDS);
				return !ids.isEmpty();
			}

			public void release() {
				semaphore.tryRelease(ids);
			}
		};
	}
}
