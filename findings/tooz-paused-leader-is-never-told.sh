#!/bin/bash
# tooz 9.1.0 (redis-py 5.3.1, Redis 7.0), Redis driver: a leader that was paused for longer than its
# lease is never told that another leads by now. There is an event for "elected" and none for the
# reverse; its heartbeat finds out and writes a warning to the log; its lock's `acquired` is a local
# set that only a release empties, and stays True. Two processes lead until one of them ends.
# A good guess is wrong: `acquired`, or the next run_watchers(), would say so.
set -eu
d=$(mktemp -d); server=
clean() {
	if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
	rm -rf "$d"
}
trap clean EXIT
python3 -m venv "$d/v"
"$d/v/bin/pip" install -q --disable-pip-version-check tooz==9.1.0 redis==5.3.1
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT
redis-server --bind 127.0.0.1 --port "$PORT" --save '' --appendonly no --dir "$d" --logfile "$d/log" &
server=$!
for _ in $(seq 50); do redis-cli -p "$PORT" ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-cli -p "$PORT" info server | grep -E '^redis_version'
"$d/v/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -iE '^(tooz|redis) '
cat > "$d/member.py" <<'E'
import os
import sys
import time
from tooz import coordination

name = sys.argv[1].encode()
coordinator = coordination.get_coordinator(
    "redis://127.0.0.1:%s?timeout=2&lock_timeout=2&membership_timeout=2" % os.environ["PORT"], name)
coordinator.start(start_heart=True)
try:
    coordinator.create_group(b"cron").get()
except coordination.GroupAlreadyExist:
    pass
coordinator.join_group(b"cron").get()
led = []
coordinator.watch_elected_as_leader(b"cron", led.append)
coordinator.run_watchers()
print(len(led), flush=True)
for line in sys.stdin:  # each line asks once more
    coordinator.run_watchers()
    lock = next(iter(coordinator._acquired_locks), None)
    print(len(led), lock is not None and lock.acquired, flush=True)
E
cat > "$d/t.py" <<'E'
import os
import signal
import subprocess
import sys
import time


def member(name):
    return subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "member.py"), name],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True)


def ask(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().split()


a = member("a")
print("a, elected: %s time(s)" % a.stdout.readline().strip())
b = member("b")
print("b, elected: %s time(s)" % b.stdout.readline().strip())
a.send_signal(signal.SIGSTOP)
time.sleep(4)
of_b = ask(b)
a.send_signal(signal.SIGCONT)
time.sleep(5)
of_a = ask(a)
print("a paused for 4 s, with a lease of 2 s; b (times elected, acquired): %s" % of_b)
print("5 s after a goes on, a: %s; b: %s" % (of_a, ask(b)))
for process in a, b:
    process.stdin.close()
    process.wait()
ok = of_b == ["1", "True"] and of_a == ["1", "True"]
print("as stated" if ok else "DIFFERS")
sys.exit(not ok)
E
"$d/v/bin/python" "$d/t.py"
