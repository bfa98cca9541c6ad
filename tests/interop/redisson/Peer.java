import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * Redisson in the hands of a Python program: reads commands from stdin and runs each on the named
 * thread, made at first use ("-" is the reading thread), as tests/system/driver does for C.
 */
public final class Peer {
	private static final Map<String, RedissonClient> CLIENTS = new ConcurrentHashMap<>();
	private static final Workers WORKERS = new Workers(Peer::run);

	static RedissonClient client(Command command) {
		return CLIENTS.get(command.text("c", "c"));
	}

	public static void main(String[] arguments) throws Exception {
		WORKERS.read();
	}

	/**
	 * Whether it sleeps in a call of Redisson until it is told, or tries again. Who waits for an
	 * answer has a future; but a fenced lock has one for its whole wait.
	 */
	private static boolean waits(Thread thread) {
		Thread.State state = thread.getState();
		var classes = Arrays.stream(thread.getStackTrace()).map(StackTraceElement::getClassName).toList();
		return (state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING)
			&& classes.stream().anyMatch(name -> name.startsWith("org.redisson."))
			&& (classes.stream().noneMatch(name -> name.endsWith(".CompletableFuture"))
				|| classes.contains("org.redisson.RedissonFencedLock"));
	}

	private static void run(Command command) {
		Answer answer = new Answer().add("id", command.id).add("start_ns", Workers.nowNs());
		try {
			call(command, answer);
		} catch (IllegalMonitorStateException e) {
			answer.code("LK_ENOTOWNER").add("message", String.valueOf(e.getMessage()));
		} catch (InterruptedException e) {
			answer.code("LK_ECANCELLED").add("message", "interrupted");
		} catch (Throwable e) {
			answer.code("EXCEPTION").add("message", e + " of " + e.getCause());
		}
		answer.add("end_ns", Workers.nowNs()).send();
	}

	private static void call(Command command, Answer answer) throws Exception {
		switch (command.verb) {
		case "open" -> open(command, answer);
		case "close" -> {
			CLIENTS.remove(command.text("c", "c")).shutdown();
			answer.result(0);
		}
		case "stats" -> answer.result(0).add("waiting",
			WORKERS.count(Peer::waits));
		case "clock" -> answer.result(0).add("value", Workers.nowNs());
		case "interrupt" -> {
			WORKERS.interrupt(command.text("target", "main"));
			answer.result(0);
		}
		case "stress" -> new Stress(command).run(answer);
		case "stop" -> {
			Stress.stopAll();
			answer.result(0);
		}
		default -> {
			switch (command.text("kind", "lock")) {
			case "semaphore" -> Synchronizers.semaphore(command, answer);
			case "permits" -> Synchronizers.permits(command, answer);
			case "latch" -> Synchronizers.latch(command, answer);
			default -> Locks.call(command, answer);
			}
		}
		}
	}

	/** The servers of a URL of ours, as Redisson names them. */
	private static String[] nodes(String url) {
		String places = url.replaceFirst("^[^:]*://", "").replaceFirst("/.*$", "");
		return Arrays.stream(places.split(",")).map(place -> "redis://" + place).toArray(String[]::new);
	}

	/** The URL is one of ours; messages=plain: not the sharded ones, its default in a cluster. */
	private static void serve(Config config, Command command) {
		String url = command.text("url", null);
		if (url.startsWith("redis-cluster:"))
			small(config.useClusterServers()).addNodeAddress(nodes(url))
				.setShardedSubscriptionMode(command.text("messages", "").equals("plain")
					? ShardedSubscriptionMode.OFF : ShardedSubscriptionMode.AUTO);
		else if (url.startsWith("redis-sentinel:"))
			small(config.useSentinelServers()).addSentinelAddress(nodes(url))
				.setMasterName(url.substring(url.lastIndexOf('/') + 1));
		else
			config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1)
				.setSubscriptionConnectionMinimumIdleSize(1);
	}

	private static <T extends BaseMasterSlaveServersConfig<T>> T small(T servers) {
		return servers.setMasterConnectionMinimumIdleSize(1).setSlaveConnectionMinimumIdleSize(1)
			.setSubscriptionConnectionMinimumIdleSize(1);
	}

	private static void open(Command command, Answer answer) {
		Config config = new Config();
		config.setThreads(4).setNettyThreads(4);
		config.setLockWatchdogTimeout(command.number("watchdog_ms", 30000));
		config.setFairLockWaitTimeout(command.number("fair_wait_ms", 300000));
		serve(config, command);
		RedissonClient client = Redisson.create(config);
		CLIENTS.put(command.text("c", "c"), client);
		answer.result(0).add("uuid", client.getId());
	}
}
