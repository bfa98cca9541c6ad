"""--notify: a plain lock's release wakes the waiters of other libraries, as their own release does.

Their waiters are played by the commands that they wait with; the libraries themselves are in
tests/interop.
"""
from __future__ import annotations

import threading

import pytest

from servers import Subscriber
from waiting import until

PUBLISHED = {
    "redis-lock-py": ("orders", "rlock-channel:orders", b"ok"),
    "spring": ("reg:orders", "reg-channel:reg:orders", b"reg:orders"),
    "publish told:{1} it:is:{1}": ("orders", "told:orders", b"it:is:orders"),
}
PUSHED = {
    "python-redis-lock": ("lock:orders", "lock-signal:orders"),
    "walrus": ("lock:orders", "lock.event:orders"),
    "push list:{1} 1 500": ("orders", "list:orders"),
}


class Popper:
    """One that waits with BLPOP."""

    def __init__(self, server, name: str):
        self.popped = None

        def pop():
            with server.connect(timeout=60) as connection:
                self.popped = connection.call("BLPOP", name, 30)
        self.thread = threading.Thread(target=pop)
        self.thread.start()
        until(lambda: "blocked_clients:1" in server.call("INFO", "clients").decode(), 10)

    def join(self):
        self.thread.join(40)
        return self.popped


@pytest.mark.parametrize("notify", PUSHED)
def test_a_release_pushes_what_the_library_pops(cli, server, notify):
    key, name = PUSHED[notify]
    popper = Popper(server, name)
    assert cli("run", "--plain", "--notify", notify, key, "true").returncode == 0
    assert popper.join() == [name.encode(), b"1"]
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("notify", PUSHED)
def test_a_push_that_nobody_pops_has_a_time_to_live(cli, server, notify):
    key, name = PUSHED[notify]
    for _ in range(2):
        assert cli("run", "--plain", "--notify", notify, key, "true").returncode == 0
        assert server.call("LLEN", name) in (0, 1)
    until(lambda: not server.call("EXISTS", name), 10, "it is over")


@pytest.mark.parametrize("notify", PUBLISHED)
def test_a_release_publishes_what_the_library_listens_to(cli, server, notify):
    key, channel, message = PUBLISHED[notify]
    heard = Subscriber(server, channel)
    assert cli("run", "--plain", "--notify", notify, key, "true").returncode == 0
    until(lambda: heard.messages == [message], 10)
    heard.stop()


def test_unlock_and_only_for_its_own_token(cli, server):
    owner = cli("lock", "--plain", "-l", "20", "lock:orders").stdout.strip()
    server.call("SET", "lock:orders", "the token of another", "PX", 60000)
    late = cli("unlock", "--plain", "--notify", "python-redis-lock", "lock:orders", owner)
    assert late.returncode == 123 and server.call("EXISTS", "lock-signal:orders") == 0
    server.call("SET", "lock:orders", owner, "PX", 60000)
    popper = Popper(server, "lock-signal:orders")
    assert cli("unlock", "--plain", "--notify", "python-redis-lock", "lock:orders",
               owner).returncode == 0
    assert popper.join() == [b"lock-signal:orders", b"1"]


def test_a_user_without_the_rights_releases_all_the_same(cli, server):
    server.call("ACL", "SETUSER", "few", "on", "nopass", "~lock:*", "~lockkeeper_client:*",
                "+@all", "resetchannels", "&redisson_*")
    result = cli("run", "--plain", "--notify", "python-redis-lock", "lock:orders", "true",
                 LOCKKEEPER_USERNAME="few", LOCKKEEPER_PASSWORD="x")
    assert result.returncode == 0, result.stderr
    assert server.call("EXISTS", "lock:orders", "lock-signal:orders") == 0


def test_break_of_a_lock_of_ours_wakes_whom_it_is_told_to(cli, server):
    assert cli("lock", "--plain", "-l", "60", "lock:orders").returncode == 0
    popper = Popper(server, "lock-signal:orders")
    broken = cli("break", "--yes", "--notify", "python-redis-lock", "lock:orders")
    assert broken.returncode == 0, broken.stderr
    assert popper.join() == [b"lock-signal:orders", b"1"]
    assert cli("lock", "-l", "60", "orders").returncode == 0
    refused = cli("break", "--yes", "--notify", "spring", "orders")
    assert refused.returncode == 125 and "--notify is for plain locks" in refused.stderr
    assert server.call("EXISTS", "orders") == 1


@pytest.mark.parametrize("args, said", [
    (["run", "--plain", "--notify", "walrus", "orders", "true"], "keys of the form lock:*"),
    (["run", "--plain", "--notify", "nobody", "orders", "true"], "neither a library"),
    (["run", "--plain", "--notify", "push a b", "orders", "true"], "neither a library"),
    (["run", "--plain", "--notify", "push a b 0", "orders", "true"], "neither a library"),
    (["run", "--notify", "walrus", "lock:orders", "true"], "--notify needs --plain"),
    (["unlock", "--notify", "walrus", "lock:orders", "token"], "--notify needs --plain"),
    (["lock", "--notify", "walrus", "-l", "5", "lock:orders"], "--notify needs --plain"),
])
def test_what_is_refused(cli, server, args, said):
    refused = cli(*args)
    assert refused.returncode == 125 and said in refused.stderr
    assert server.call("DBSIZE") == 0


def test_break_says_what_is_wrong_with_it_though_nothing_is_held(cli, server):
    seen = cli("break", "--yes", "--notify", "nobody", "lock:x")
    assert seen.returncode == 125 and '"nobody"' in seen.stderr, seen.stderr
    server.call("SET", "lock:x", "x" * 32, "PX", 60000)
    assert cli("break", "--yes", "--notify", "nobody", "lock:x").stderr.endswith(seen.stderr)
    assert server.call("EXISTS", "lock:x") == 1
