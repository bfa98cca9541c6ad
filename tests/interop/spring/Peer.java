import java.net.URI;
import java.util.Arrays;
import java.util.ConcurrentModificationException;
import java.util.concurrent.locks.Lock;

import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * Spring Integration's RedisLockRegistry, of the key "reg", in the hands of a Python program, as
 * tests/interop/redisson does for Redisson.
 */
public final class Peer {
	private static final Workers WORKERS = new Workers(Peer::run);
	private static LettuceConnectionFactory connections;
	private static RedisLockRegistry registry;

	public static void main(String[] arguments) throws Exception {
		WORKERS.read();
	}

	private static void run(Command command) {
		Answer answer = new Answer().add("id", command.id).add("start_ns", Workers.nowNs());
		try {
			call(command, answer);
		} catch (ConcurrentModificationException e) {
			answer.code("LK_ENOTOWNER").add("message", String.valueOf(e.getMessage()));
		} catch (Throwable e) {
			answer.code("EXCEPTION").add("message", e + " of " + e.getCause());
		}
		answer.add("end_ns", Workers.nowNs()).send();
	}

	private static void call(Command command, Answer answer) throws Exception {
		switch (command.verb) {
		case "open" -> open(command);
		case "close" -> {
			registry.destroy();
			connections.destroy();
		}
		case "stats" -> answer.add("waiting", WORKERS.count(Peer::waits));
		case "acquire" -> lock(command).lockInterruptibly();
		case "try" -> {
			if (!lock(command).tryLock()) {
				answer.code("LK_EBUSY");
				return;
			}
		}
		case "release" -> lock(command).unlock();
		default -> throw new IllegalArgumentException("verb");
		}
		answer.result(0);
	}

	private static Lock lock(Command command) {
		return registry.obtain(command.name());
	}

	/** Whether it sleeps in a call of the registry, and not for an answer of the server. */
	private static boolean waits(Thread thread) {
		Thread.State state = thread.getState();
		var classes = Arrays.stream(thread.getStackTrace()).map(StackTraceElement::getClassName).toList();
		return (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING)
			&& classes.stream().anyMatch(name -> name.startsWith(RedisLockRegistry.class.getName()))
			&& classes.stream().noneMatch(name -> name.startsWith("io.lettuce."));
	}

	private static void open(Command command) {
		URI url = URI.create(command.text("url", null));
		connections = new LettuceConnectionFactory(url.getHost(), url.getPort());
		connections.afterPropertiesSet();
		connections.start();
		registry = new RedisLockRegistry(connections, "reg", command.number("lease", 60000));
		registry.setRedisLockType(RedisLockType.valueOf(command.text("type", "SPIN_LOCK")));
	}
}
