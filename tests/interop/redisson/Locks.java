import java.util.Arrays;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** The verbs on locks of every kind: each a call of Redisson. */
final class Locks {
	private Locks() {
	}

	static RLock lock(Command command) {
		return lock(command, command.name());
	}

	static RLock lock(Command command, String name) {
		var client = Peer.client(command);
		return switch (command.text("kind", "lock")) {
		case "lock" -> client.getLock(name);
		case "fair" -> client.getFairLock(name);
		case "read" -> client.getReadWriteLock(name).readLock();
		case "write" -> client.getReadWriteLock(name).writeLock();
		case "fenced-java" -> client.getFencedLock(name);
		case "multi" -> client.getMultiLock(
			Arrays.stream(name.split(",")).map(client::getLock).toArray(RLock[]::new));
		case "spin" -> client.getSpinLock(name);
		default -> throw new IllegalArgumentException("kind");
		};
	}

	static void call(Command command, Answer answer) throws Exception {
		RLock lock = lock(command);
		switch (command.verb) {
		case "acquire" -> acquire(command, lock, answer);
		case "within", "try" -> within(command, lock, answer);
		case "release" -> {
			lock.unlock();
			answer.result(0);
		}
		case "force" -> answer.result(lock.forceUnlock() ? 1 : 0);
		case "is_locked" -> answer.result(lock.isLocked() ? 1 : 0);
		case "is_held" -> answer.result(lock.isHeldByCurrentThread() ? 1 : 0);
		case "hold_count" -> answer.result(lock.getHoldCount());
		case "ttl" -> answer.result(0).add("value", lock.remainTimeToLive());
		case "token" -> answer.result(0).add("value", ((RFencedLock) lock).getToken());
		default -> throw new IllegalArgumentException("verb");
		}
	}

	private static void acquire(Command command, RLock lock, Answer answer) throws Exception {
		long leaseMs = command.number("lease", -1);
		if (lock instanceof RFencedLock fenced && leaseMs < 0)
			answer.add("fence", fenced.lockAndGetToken());
		else
			lock.lockInterruptibly(leaseMs, TimeUnit.MILLISECONDS);
		answer.result(0).add("thread", Thread.currentThread().getId());
	}

	/** Without a limit it asks once. */
	private static void within(Command command, RLock lock, Answer answer) throws Exception {
		long waitMs = command.number("wait", 0);
		long leaseMs = command.number("lease", -1);
		boolean granted;
		if (lock instanceof RFencedLock fenced) {
			Long token = fenced.tryLockAndGetToken(waitMs, leaseMs, TimeUnit.MILLISECONDS);
			granted = token != null;
			answer.add("fence", granted ? token : -1);
		} else if (waitMs == 0 && leaseMs < 0) {
			granted = lock.tryLock();
		} else {
			granted = lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS);
		}
		if (granted)
			answer.result(0).add("thread", Thread.currentThread().getId());
		else
			answer.code(waitMs > 0 ? "LK_ETIMEDOUT" : "LK_EBUSY");
	}
}
