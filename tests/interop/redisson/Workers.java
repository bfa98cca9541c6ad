import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * Runs commands from stdin, each on the thread that it names, which is made at first use ("-" is the
 * reading thread). Of all peers in Java.
 */
final class Workers {
	/** CLOCK_BOOTTIME less CLOCK_MONOTONIC, which is what nanoTime() reads. */
	private static final long OFFSET_NS = Long.getLong("boottime.offset.ns", 0);

	private final Map<String, Worker> workers = new ConcurrentHashMap<>();
	private final Consumer<Command> run;

	Workers(Consumer<Command> run) {
		this.run = run;
	}

	private final class Worker extends Thread {
		final BlockingQueue<Command> commands = new LinkedBlockingQueue<>();

		Worker(String name) {
			super(name);
			setDaemon(true);
		}

		@Override
		public void run() {
			while (true) {
				try {
					run.accept(commands.take());
				} catch (InterruptedException e) {
					// An interrupt that came behind the call it was for.
				}
			}
		}
	}

	static long nowNs() {
		return System.nanoTime() + OFFSET_NS;
	}

	/** Until stdin ends, or the verb "quit": then the program does. */
	void read() throws IOException {
		BufferedReader in = new BufferedReader(
			new InputStreamReader(System.in, StandardCharsets.UTF_8));
		for (String line; (line = in.readLine()) != null;) {
			Command command = new Command(line);
			if (command.verb.equals("quit"))
				break;
			if (command.thread.equals("-"))
				run.accept(command);
			else
				worker(command.thread).commands.add(command);
		}
		Runtime.getRuntime().halt(0);
	}

	private Worker worker(String name) {
		return workers.computeIfAbsent(name, missing -> {
			Worker worker = new Worker(missing);
			worker.start();
			return worker;
		});
	}

	void interrupt(String name) {
		worker(name).interrupt();
	}

	/** How many are so. */
	long count(Predicate<Thread> condition) {
		return workers.values().stream().filter(condition).count();
	}
}
