import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.ConcurrentModificationException;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.Lock;

import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

/**
 * Spring Integration's RedisLockRegistry, of the key "reg", in the hands of a Python program, as
 * tests/interop/redisson does for Redisson.
 */
public final class Peer {
	/** CLOCK_BOOTTIME less CLOCK_MONOTONIC, which is what nanoTime() reads. */
	private static final long OFFSET_NS = Long.getLong("boottime.offset.ns", 0);
	private static final Map<String, Worker> WORKERS = new ConcurrentHashMap<>();
	private static LettuceConnectionFactory connections;
	private static RedisLockRegistry registry;

	private static final class Worker extends Thread {
		final BlockingQueue<Command> commands = new LinkedBlockingQueue<>();

		Worker(String name) {
			super(name);
			setDaemon(true);
		}

		@Override
		public void run() {
			while (true) {
				try {
					Peer.run(commands.take());
				} catch (InterruptedException e) {
					return;
				}
			}
		}
	}

	public static void main(String[] arguments) throws Exception {
		BufferedReader in = new BufferedReader(
			new InputStreamReader(System.in, StandardCharsets.UTF_8));
		for (String line; (line = in.readLine()) != null;) {
			Command command = new Command(line);
			if (command.verb.equals("quit"))
				break;
			if (command.thread.equals("-"))
				run(command);
			else
				worker(command.thread).commands.add(command);
		}
		Runtime.getRuntime().halt(0);
	}

	private static Worker worker(String name) {
		return WORKERS.computeIfAbsent(name, missing -> {
			Worker worker = new Worker(missing);
			worker.start();
			return worker;
		});
	}

	private static long nowNs() {
		return System.nanoTime() + OFFSET_NS;
	}

	private static void run(Command command) {
		Answer answer = new Answer().add("id", command.id).add("start_ns", nowNs());
		try {
			call(command, answer);
		} catch (ConcurrentModificationException e) {
			answer.code("LK_ENOTOWNER").add("message", String.valueOf(e.getMessage()));
		} catch (Throwable e) {
			answer.code("EXCEPTION").add("message", e + " of " + e.getCause());
		}
		answer.add("end_ns", nowNs()).send();
	}

	private static void call(Command command, Answer answer) throws Exception {
		switch (command.verb) {
		case "open" -> open(command);
		case "close" -> {
			registry.destroy();
			connections.destroy();
		}
		case "stats" -> answer.add("waiting", WORKERS.values().stream().filter(Peer::waits).count());
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
