#!/usr/bin/env bash
# Apache Curator 5.9.0, InterProcessMutex: the release of a lock that was lost returns without an error.
# When the holder's session has ended, its node is gone and the next one has the lock. The first one's
# release() then finds no node, and says nothing; isAcquiredInThisProcess() says true until then. So
# "release() threw nothing" does not mean that its work was alone: only a ConnectionStateListener tells.
# A good guess is an exception, as release() throws one where the thread does not own the lock.
# Versions: curator-recipes and curator-test 5.9.0 (with its ZooKeeper), Java 17.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >pom.xml <<'XML'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.curator</groupId><artifactId>curator-recipes</artifactId><version>5.9.0</version></dependency>
    <dependency><groupId>org.apache.curator</groupId><artifactId>curator-test</artifactId><version>5.9.0</version></dependency>
  </dependencies>
</project>
XML
mvn -B -q -Dmaven.repo.local="$dir/m2" dependency:copy-dependencies -DoutputDirectory="$dir/lib" >mvn.log 2>&1 ||
	{ cat mvn.log; exit 1; }
basename lib/curator-recipes-*.jar
basename lib/zookeeper-[0-9]*.jar
cat >Finding.java <<'JAVA'
import java.util.concurrent.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.test.TestingServer;
import org.apache.zookeeper.*;

public class Finding {
    static boolean wrong;

    static void expect(String what, boolean is) {
        System.out.println((is ? "seen     " : "NOT SEEN ") + what);
        wrong |= !is;
    }

    static CuratorFramework client(TestingServer server) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server.getConnectString(), 10_000, 5_000, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    /** Ends a session at the server, as its timeout would: by closing it from a second connection. */
    static void end(TestingServer server, CuratorFramework client) throws Exception {
        ZooKeeper of = client.getZookeeperClient().getZooKeeper();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper second = new ZooKeeper(server.getConnectString(), 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, of.getSessionId(), of.getSessionPasswd());
        if (!connected.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no second connection");
        }
        second.close();
    }

    public static void main(String[] args) throws Exception {
        try (TestingServer server = new TestingServer(); CuratorFramework a = client(server); CuratorFramework b = client(server)) {
            InterProcessMutex first = new InterProcessMutex(a, "/orders"), second = new InterProcessMutex(b, "/orders");
            first.acquire();
            end(server, a);
            expect("A's session has ended, and B has the lock", second.acquire(20, TimeUnit.SECONDS));
            expect("A is told that it has it too", first.isAcquiredInThisProcess());
            String says = "nothing";
            try {
                first.release();
            } catch (Exception error) {
                says = error.toString();
            }
            System.out.println("A.release() throws: " + says);
            expect("A's release returns without an error", says.equals("nothing"));
            second.release();
            says = "nothing";
            try {
                second.release();
            } catch (IllegalMonitorStateException error) {
                says = error.getClass().getSimpleName();
            }
            System.out.println("B.release(), once too often, throws: " + says);
            expect("one that the thread does not own throws", !says.equals("nothing"));
        }
        System.exit(wrong ? 1 : 0);
    }
}
JAVA
javac -cp 'lib/*' Finding.java
timeout 120 java -cp 'lib/*:.' Finding 2>java.log || { cat java.log; exit 1; }
echo "as stated"
