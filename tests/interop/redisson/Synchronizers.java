import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/** The verbs on semaphores and latches. */
final class Synchronizers {
	private Synchronizers() {
	}

	private static void granted(boolean yes, Command command, Answer answer) {
		if (yes)
			answer.result(0);
		else
			answer.code(command.number("wait", 0) > 0 ? "LK_ETIMEDOUT" : "LK_EBUSY");
	}

	static void semaphore(Command command, Answer answer) throws Exception {
		RSemaphore semaphore = Peer.client(command).getSemaphore(command.name());
		int count = (int) command.number("count", 1);
		Duration wait = Duration.ofMillis(command.number("wait", 0));
		switch (command.verb) {
		case "set" -> answer.result(semaphore.trySetPermits(count) ? 1 : 0);
		case "add" -> {
			semaphore.addPermits(count);
			answer.result(0);
		}
		case "acquire" -> {
			semaphore.acquire(count);
			answer.result(0);
		}
		case "within" -> granted(semaphore.tryAcquire(count, wait), command, answer);
		case "try" -> granted(semaphore.tryAcquire(count), command, answer);
		case "release" -> {
			semaphore.release(count);
			answer.result(0);
		}
		case "drain" -> answer.result(semaphore.drainPermits());
		case "available" -> answer.result(semaphore.availablePermits());
		default -> throw new IllegalArgumentException("verb");
		}
	}

	static void permits(Command command, Answer answer) throws Exception {
		RPermitExpirableSemaphore semaphore =
			Peer.client(command).getPermitExpirableSemaphore(command.name());
		int count = (int) command.number("count", 1);
		long leaseMs = command.number("lease", -1);
		List<String> ids = Arrays.asList(command.text("ids", "").split(","));
		switch (command.verb) {
		case "set" -> answer.result(semaphore.trySetPermits(count) ? 1 : 0);
		case "add" -> {
			semaphore.addPermits(count);
			answer.result(0);
		}
		case "acquire" -> {
			List<String> made = semaphore.acquire(count, leaseMs, TimeUnit.MILLISECONDS);
			answer.result(0).add("ids", String.join(",", made));
		}
		case "within", "try" -> {
			List<String> made = semaphore.tryAcquire(count, command.number("wait", 0), leaseMs,
								 TimeUnit.MILLISECONDS);
			granted(!made.isEmpty(), command, answer);
			answer.add("ids", String.join(",", made));
		}
		case "release" -> answer.result(semaphore.tryRelease(ids));
		case "extend" -> answer.result(
			semaphore.updateLeaseTime(ids.get(0), leaseMs, TimeUnit.MILLISECONDS) ? 1 : 0);
		case "lease" -> answer.result(0).add("value", semaphore.getLeaseTime(ids.get(0)));
		case "available" -> answer.result(semaphore.availablePermits());
		case "taken" -> answer.result(semaphore.acquiredPermits());
		default -> throw new IllegalArgumentException("verb");
		}
	}

	static void latch(Command command, Answer answer) throws Exception {
		RCountDownLatch latch = Peer.client(command).getCountDownLatch(command.name());
		long waitMs = command.number("wait", 0);
		switch (command.verb) {
		case "set" -> answer.result(latch.trySetCount(command.number("count", 1)) ? 1 : 0);
		case "down" -> {
			latch.countDown();
			answer.result(0);
		}
		case "acquire" -> {
			latch.await();
			answer.result(0);
		}
		case "within" -> granted(latch.await(waitMs, TimeUnit.MILLISECONDS), command, answer);
		case "count" -> answer.result(latch.getCount());
		case "delete" -> answer.result(latch.delete() ? 1 : 0);
		default -> throw new IllegalArgumentException("verb");
		}
	}
}
