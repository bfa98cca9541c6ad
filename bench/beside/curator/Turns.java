// ZooKeeper with Curator's InterProcessMutex (ephemeral sequential nodes). The arguments, lines and
// figures are those of turns.h. A worker is a thread; they share one client, and so one session.
import java.io.FileWriter;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public final class Turns {
    static final int SESSION_MS = 30_000, CONNECT_MS = 5_000, FAILED_PAUSE_MS = 100;

    static String name = "turns";
    static long threads = 1, ms = 1000, turns, holdUs, pauseUs;
    static boolean same, twice, live;
    static volatile boolean over;
    static PrintWriter history;
    static final long PID = ProcessHandle.current().pid();

    static void read(String word) {
        String[] parts = word.split("=", 2);
        switch (parts[0]) {
            case "name" -> name = parts[1];
            case "threads" -> threads = Long.parseLong(parts[1]);
            case "ms" -> ms = Long.parseLong(parts[1]);
            case "turns" -> turns = Long.parseLong(parts[1]);
            case "hold_us" -> holdUs = Long.parseLong(parts[1]);
            case "pause_us" -> pauseUs = Long.parseLong(parts[1]);
            case "same" -> same = true;
            case "twice" -> twice = true;
            case "live" -> live = true;
            default -> throw new IllegalArgumentException("unknown word: " + word);
        }
    }

    static synchronized void tell(String line) {
        history.println(line);
        if (live) {
            history.flush();
        }
    }

    static void pause(long us) throws InterruptedException {
        if (us > 0) {
            Thread.sleep(us / 1000, (int) (us % 1000 * 1000));
        }
    }

    static void told(Object text) {
        tell("T %d - - %d %s".formatted(PID, System.nanoTime(), text));
    }

    /** The holder takes what it has once more, and gives it back once. */
    static void again(InterProcessMutex lock) throws Exception {
        lock.acquire();
        told("entered again");
        lock.release();
        told("gave it back once");
    }

    /** One pair, in ns; 0: the lock could not be taken. */
    static long turn(InterProcessMutex lock, int index, String named) throws Exception {
        long begun = System.nanoTime();
        try {
            lock.acquire();
        } catch (Exception error) {
            tell("E %d %d %s %d %s".formatted(PID, index, named, System.nanoTime(), error));
            Thread.sleep(FAILED_PAUSE_MS);
            return 0;
        }
        long granted = System.nanoTime();
        tell("G %d %d %s %d %d".formatted(PID, index, named, begun, granted));
        if (twice) {
            again(lock);
        }
        pause(holdUs);
        long release = System.nanoTime();
        String outcome = "ok";
        try {
            lock.release();
        } catch (Exception error) {
            outcome = error.toString();
        }
        long done = System.nanoTime();
        tell("R %d %d %s %d %d %s".formatted(PID, index, named, release, done, outcome));
        return granted - begun + done - release;
    }

    static void worker(CuratorFramework client, int index, List<Long> samples,
                       CountDownLatch ready, CountDownLatch go) {
        String named = name + "-" + (same ? 0 : index);
        InterProcessMutex lock = new InterProcessMutex(client, "/" + named);
        try {
            ready.countDown();
            go.await();
            while (!over && (turns == 0 || samples.size() < turns)) {
                long took = turn(lock, index, named);
                if (took > 0) {
                    samples.add(took);
                }
                pause(pauseUs);
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean)
                ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static void all(CuratorFramework client) throws InterruptedException {
        List<List<Long>> samples = new ArrayList<>();
        List<Thread> workers = new ArrayList<>();
        CountDownLatch ready = new CountDownLatch((int) threads), go = new CountDownLatch(1);
        for (int i = 0; i < threads; i++) {
            int index = i;
            List<Long> own = new ArrayList<>();
            samples.add(own);
            workers.add(new Thread(() -> worker(client, index, own, ready, go)));
            workers.get(i).start();
        }
        ready.await();
        long cpuBefore = cpu(), begun = System.nanoTime();
        go.countDown();
        if (turns == 0) {
            Thread.sleep(ms);
            over = true;
        }
        for (Thread worker : workers) {
            worker.join();
        }
        double seconds = (System.nanoTime() - begun) / 1e9, cpuUs = (cpu() - cpuBefore) / 1e3;
        long[] sorted = samples.stream().flatMap(List::stream).mapToLong(Long::longValue).sorted()
                .toArray();
        System.out.printf(java.util.Locale.ROOT, "{\"pairs\": %d, \"pairs_s\": %.1f, "
                + "\"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu_us\": %.2f}%n", sorted.length,
                sorted.length / seconds, sorted[sorted.length / 2] / 1e3,
                sorted[(int) (sorted.length * 99L / 100)] / 1e3, cpuUs / sorted.length);
    }

    static void keep(CuratorFramework client, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            new InterProcessMutex(client, "/kept-" + i).acquire();
        }
        System.out.println("kept");
        while (System.in.read() >= 0) {
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION_MS, CONNECT_MS,
                new RetryOneTime(100));
        client.getConnectionStateListenable().addListener((one, state) -> {
            if (history != null) {
                told(state);
            }
        });
        client.start();
        client.blockUntilConnected();
        if (args[2].equals("keep")) {
            keep(client, Integer.parseInt(args[3]));
        } else {
            history = new PrintWriter(new FileWriter(args[2], true));
            Arrays.stream(args).skip(3).forEach(Turns::read);
            all(client);
            history.flush();
        }
        // What is held goes with the session, as it does where a program ends without closing it.
        Runtime.getRuntime().halt(0);
    }
}
