#!/bin/sh
# Infinispan 16.0.7 (infinispan-server-resp, Maven; seen 2026-11-27, Java 17): a script that is called
# over its RESP endpoint is not atomic. Those of other connections run between its commands.
#
# Who meets it: all who rely on EVAL to compare and then write: locks, limits of rates, queues. Several
# callers of "if the key is not there, make it" are all told that they made it.
#
# Seen, with four connections that call the script at the same time, on a new key in each round:
#     two or more of them "made" the key in 66 and 57 of 300 rounds (Redis 7.0.15: in none)
#     400 increments by a script that reads and writes one field: 308 and 289 (Redis: 400)
#
# The server is embedded, with its defaults: one node, a local cache.
#
# usage: infinispan_scripts.sh   needs Java 17, Maven, Python 3; exits with 1 when it behaves in
#        another way
set -eu

version=16.0.7
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"

cat >pom.xml <<END
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>findings</groupId>
  <artifactId>infinispan</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.infinispan</groupId>
      <artifactId>infinispan-server-resp</artifactId>
      <version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.infinispan</groupId>
      <artifactId>infinispan-api</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <groupId>org.apache.maven.plugins</groupId>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.6.0</version>
      </plugin>
    </plugins>
  </build>
</project>
END
cat >Run.java <<'END'
import org.infinispan.configuration.global.GlobalConfigurationBuilder;
import org.infinispan.globalstate.ConfigurationStorage;
import org.infinispan.manager.DefaultCacheManager;
import org.infinispan.server.resp.RespServer;
import org.infinispan.server.resp.configuration.RespServerConfigurationBuilder;

public final class Run {
	public static void main(String[] arguments) throws Exception {
		GlobalConfigurationBuilder global = new GlobalConfigurationBuilder();
		global.globalState().enable().persistentLocation("state")
			.configurationStorage(ConfigurationStorage.OVERLAY);
		RespServer server = new RespServer();
		server.start(new RespServerConfigurationBuilder().host("127.0.0.1")
			.port(Integer.parseInt(arguments[0])).build(),
			new DefaultCacheManager(global.build()));
		server.postStart();
		Thread.currentThread().join();
	}
}
END
cat >ask.py <<'END'
import socket
import sys
import threading
import time

PORT, CALLERS, ROUNDS, EACH = int(sys.argv[1]), 4, 300, 100
MAKE = ("if redis.call('EXISTS', KEYS[1]) == 0 then "
        "redis.call('HSET', KEYS[1], ARGV[1], '1') return 1 end return 0")
ADD = ("local n = tonumber(redis.call('HGET', KEYS[1], 'n')) "
       "redis.call('HSET', KEYS[1], 'n', tostring(n + 1)) return 1")


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", PORT), 5)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
        line = self.file.readline()
        if line[:1] == b"$":
            line = self.file.read(int(line[1:]) + 2)
        return line.strip()


def answers():
    try:
        return Client().call("PING").endswith(b"PONG")
    except OSError:
        return False


until = time.monotonic() + 60
while not answers():
    assert time.monotonic() < until, "the server does not answer"
    time.sleep(0.1)
made, together = [0] * ROUNDS, threading.Barrier(CALLERS)
first = Client()
first.call("HSET", "count", "n", "0")


def caller(number):
    client = Client()
    for index in range(ROUNDS):
        together.wait()
        said = client.call("EVAL", MAKE, "1", f"key{index}", f"caller{number}")
        assert said in (b":0", b":1"), said
        made[index] += said == b":1"
    for _ in range(EACH):
        assert client.call("EVAL", ADD, "1", "count") == b":1"


threads = [threading.Thread(target=caller, args=(number,)) for number in range(CALLERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
twice, count = sum(times > 1 for times in made), int(first.call("HGET", "count", "n"))
print(f"a key was made more than once in {twice} of {ROUNDS} rounds; "
      f"{CALLERS * EACH} increments: {count}")
sys.exit(not (twice > 0 and count < CALLERS * EACH))
END
mvn -q -B dependency:copy-dependencies "-DoutputDirectory=$folder/jars"
port=$(python3 -c 'import socket
place = socket.socket()
place.bind(("127.0.0.1", 0))
print(place.getsockname()[1])')
java -cp "$folder/jars/*" Run.java "$port" >server.log 2>&1 &
server=$!
python3 ask.py "$port"
