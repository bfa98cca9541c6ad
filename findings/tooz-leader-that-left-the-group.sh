#!/bin/bash
# tooz 9.1.0 (redis-py 5.3.1, Redis 7.0), the coordination library of OpenStack, with its Redis driver:
# a member that was elected, and then leaves the group and gives up its watch, goes on leading it. Its
# heartbeat renews each lock that the coordinator has ever taken, the leader's too, and neither
# leave_group() nor unwatch_elected_as_leader() releases it. The group has no leader among its members,
# and nobody else is elected until the whole coordinator is stopped. Silently.
# A good guess is wrong: who is not in the group cannot be its leader, at the latest behind its lease.
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
cat > "$d/t.py" <<'E'
import os
import sys
import time
from tooz import coordination

URL = "redis://127.0.0.1:%s?timeout=2&lock_timeout=2&membership_timeout=2" % os.environ["PORT"]
elected = []


def member(name):
    coordinator = coordination.get_coordinator(URL, name)
    coordinator.start(start_heart=True)
    return coordinator


def watch_for(coordinator, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        coordinator.run_watchers()
        time.sleep(0.2)


a, b = member(b"a"), member(b"b")
a.create_group(b"cron").get()
on_a, on_b = lambda event: elected.append("a"), lambda event: elected.append("b")
for coordinator, hook in (a, on_a), (b, on_b):
    coordinator.join_group(b"cron").get()
    coordinator.watch_elected_as_leader(b"cron", hook)
    coordinator.run_watchers()
print("elected: %s" % elected)
a.leave_group(b"cron").get()
a.unwatch_elected_as_leader(b"cron", on_a)
members = b.get_members(b"cron").get()
watch_for(b, 8)
print("a left; members: %s; 8 s later, with leases of 2 s, elected: %s" % (members, elected))
left = list(elected)
a.stop()
watch_for(b, 1)
print("a's coordinator was stopped; elected: %s" % elected)
b.stop()
ok = members == {b"b"} and left == ["a"] and elected == ["a", "b"]
print("as stated" if ok else "DIFFERS")
sys.exit(not ok)
E
"$d/v/bin/python" "$d/t.py"
