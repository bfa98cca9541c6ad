"""The read/write lock in Redis is Redisson's, and stays right beside Redisson's own scripts."""
from __future__ import annotations

import re
import threading

import pytest

import lua
import resp
from redisson_rw import JavaReadWriteLock, channel_of_rw, timeout_of
from servers import Subscriber
from waiting import never, until

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
NAMES = ["plain", "with space", "a{b}c", "{tag}", "ü", "redisson:{x}:y"]
FAR = 10 ** 17  # a deadline that does not come, µs


def fields_of(server, name) -> dict[str, str]:
    return {field.decode(): value.decode() for field, value in server.holders(name).items()}


def script(server, name: str, keys: list, *args):
    text = lua.text_of("rw", name)
    return server.call("EVAL", text, len(keys), *keys, *args)


def read_raw(server, name, field, lease=30000, deadline=FAR, under="", prefer=0):
    keys = [name, timeout_of(name, field), f"lockkeeper_writers:{{{name}}}"]
    return script(server, "read_acquire", keys, field, lease, deadline, under, prefer)


def write_raw(server, name, field, lease=30000, deadline=FAR, prefer=0):
    return script(server, "write_acquire", [name, f"lockkeeper_writers:{{{name}}}"],
                  field + ":write", lease, deadline, prefer)


def release_raw(server, name, field, message="0"):
    field += ":write" if message == "1" else ""
    keys = [name, timeout_of(name, field), f"lockkeeper_writers:{{{name}}}"]
    return script(server, "release", keys, field, channel_of_rw(name), message)


# ---- what is there ----

@pytest.mark.parametrize("name", NAMES)
def test_read_lock_in_redis(server, keeper, name):
    bare = Subscriber(server, channel_of_rw(name))
    keeper.call("acquire", name, kind="read").ok()
    fields = fields_of(server, name)
    assert fields.pop("mode") == "read"
    (field, count), = fields.items()
    assert re.fullmatch(UUID + r":\d+", field) and count == "1"
    timeout = timeout_of(name, field)
    assert sorted(server.call("KEYS", "*")) == sorted([name.encode(), timeout])
    assert server.call("GET", timeout) == b"1"
    assert 25000 < server.call("PTTL", timeout) <= 30000
    assert 25000 < server.call("PTTL", name) <= 30000
    keeper.call("release", name, kind="read").ok()
    until(lambda: bare.messages == [b"0"], 5, "one message, 0")
    assert server.call("DBSIZE") == 0
    bare.stop()


@pytest.mark.parametrize("name", NAMES)
def test_write_lock_in_redis(server, keeper, name):
    bare = Subscriber(server, channel_of_rw(name))
    keeper.call("acquire", name, kind="write", lease=7000).ok()
    fields = fields_of(server, name)
    assert fields.pop("mode") == "write"
    (field, count), = fields.items()
    assert re.fullmatch(UUID + r":\d+:write", field) and count == "1"
    assert server.call("KEYS", "*") == [name.encode()]
    assert 5000 < server.call("PTTL", name) <= 7000
    keeper.call("release", name, kind="write").ok()
    until(lambda: bare.messages == [b"1"], 5, "one message, 1")
    assert server.call("DBSIZE") == 0
    bare.stop()


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("name", ["foo{bar", "a}b", "{}"])
def test_names_across_slots_are_refused(server, keeper, kind, name):
    keeper.call("acquire", name, kind=kind).is_code("LK_EINVAL")
    assert server.call("DBSIZE") == 0


def test_read_under_the_own_write_shares_its_number_once(server, keeper):
    keeper.call("acquire", "both", kind="write").ok()
    (writer,) = [field for field in fields_of(server, "both") if field != "mode"]
    number = writer.removesuffix(":write")
    keeper.call("acquire", "both", kind="read").ok()
    assert fields_of(server, "both") == {"mode": "write", writer: "1", number: "1"}
    keeper.call("release", "both", kind="read").ok()
    assert fields_of(server, "both") == {"mode": "write", writer: "1"}
    keeper.call("acquire", "both", kind="read").ok()
    again = set(fields_of(server, "both")) - {"mode", writer}
    assert again and number not in again, "a late release of the first would free the second"
    keeper.call("release", "both", kind="write").ok()
    assert set(fields_of(server, "both")) == {"mode"} | again
    keeper.call("release", "both", kind="read").ok()
    assert server.call("DBSIZE") == 0


def test_downgrade_in_redis(server, keeper):
    """The write side goes first: mode read, the reader's lease, message 1."""
    keeper.call("acquire", "down", kind="write", lease=60000).ok()
    keeper.call("acquire", "down", kind="read", lease=5000).ok()
    assert server.call("PTTL", "down") > 50000
    bare = Subscriber(server, channel_of_rw("down"))
    keeper.call("release", "down", kind="write").ok()
    until(lambda: bare.messages == [b"1"], 5, "one message, 1")
    assert fields_of(server, "down")["mode"] == "read"
    assert 3000 < server.call("PTTL", "down") <= 5000, "no longer than its readers"
    keeper.call("release", "down", kind="read").ok()
    until(lambda: bare.messages == [b"1", b"0"], 5)
    assert server.call("DBSIZE") == 0
    bare.stop()


def test_hash_lasts_as_long_as_the_longest_hold(server, keeper):
    for thread, lease in ("a", 20000), ("b", 60000), ("c", 5000):
        keeper.call("acquire", "max", thread=thread, kind="read", lease=lease).ok()
    assert 55000 < server.call("PTTL", "max") <= 60000
    keeper.call("release", "max", thread="b", kind="read").ok()
    assert 15000 < server.call("PTTL", "max") <= 20000, "the longest of those left"
    keeper.call("release", "max", thread="c", kind="read").ok()
    assert 15000 < server.call("PTTL", "max") <= 20000
    keeper.call("release", "max", thread="a", kind="read").ok()
    assert server.call("DBSIZE") == 0


def test_renewal_renews_the_hash_and_the_own_key_only(server, make_keeper):
    java = JavaReadWriteLock(server, "renewed", lease_ms=1000)
    keeper = make_keeper(server.unix_url, watchdog_ms=1500)
    keeper.call("acquire", "renewed", kind="read").ok()
    assert java.read() is None
    theirs = java.timeout + ":1"
    until(lambda: not server.call("EXISTS", theirs), 5, "the other's hold is over")
    (field,) = set(fields_of(server, "renewed")) - {"mode", java.field}
    for _ in range(40):
        for key in "renewed", timeout_of("renewed", field):
            assert 0 < server.call("PTTL", key) <= 1500
        never(lambda: server.call("EXISTS", theirs), 0.05, "a stranger's hold is renewed")
    assert keeper.call("is_held", "renewed", kind="read").result == 1
    keeper.call("release", "renewed", kind="read").ok()
    assert server.call("DBSIZE") == 0, "the dead one keeps nothing"
    java.close()


def test_renewal_is_not_stopped_by_a_key_of_another_type(server):
    names = ["a", "b", "c"]
    for name in names:
        assert read_raw(server, name, "u:1", lease=5000) is None
    server.call("SET", "b", "text")
    keys = [key for name in names for key in (name, timeout_of(name, "u:1"))]
    assert script(server, "read_renew", keys, *3 * ["u:1", 30000]) == [1, 0, 1]
    assert all(server.call("PTTL", name) > 20000 for name in ("a", "c"))


def test_renewal_never_shortens(server, make_keeper):
    keeper = make_keeper(server.unix_url, watchdog_ms=600)
    keeper.call("acquire", "long", thread="a", kind="read", lease=60000).ok()
    keeper.call("acquire", "long", thread="b", kind="read").ok()
    renewals = keeper.stats().renewals
    until(lambda: keeper.stats().renewals >= renewals + 3, 10)
    assert server.call("PTTL", "long") > 40000
    for thread in "a", "b":
        keeper.call("release", "long", thread=thread, kind="read").ok()


# ---- the scripts by themselves ----

@pytest.mark.parametrize("take", [read_raw, write_raw])
def test_acquire_scripts_validate_before_they_write(server, take):
    for lease in 0, -1, "1.5", "1e3", 31536000001, "x":
        with pytest.raises(resp.ErrorReply, match="bad lease"):
            take(server, "n", "u:1", lease=lease)
    for deadline in "x", "":
        with pytest.raises(resp.ErrorReply, match="bad lease"):
            take(server, "n", "u:1", deadline=deadline)
    assert re.fullmatch(r"LATE \d{16}", take(server, "n", "u:1", deadline=1))
    assert server.call("DBSIZE") == 0


def test_writer_that_may_not_leave_the_queue_has_the_lock(server):
    server.call("ACL", "SETUSER", "default", "-zrem")
    assert write_raw(server, "n", "u:1", prefer=3000) is None
    assert fields_of(server, "n") == {"mode": "write", "u:1:write": "1"}


@pytest.mark.parametrize("kind", ["read", "write", "lock", "fair", "fenced"])
def test_release_of_a_field_of_the_other_side(server, keeper, kind):
    """By mistake: the lock stays whose it is."""
    assert write_raw(server, "n", "u:1") is None
    for field in "mode", "u:1:write":
        keeper.call("release_field", "n", kind=kind, field=field).is_code("LK_ENOTOWNER")
    assert fields_of(server, "n") == {"mode": "write", "u:1:write": "1"}
    keeper.call("release_field", "n", kind="write", field="u:1").ok()
    assert server.call("DBSIZE") == 0


def test_acquires_sent_twice(server):
    for _ in range(2):
        assert read_raw(server, "n", "u:1") is None
    assert fields_of(server, "n") == {"mode": "read", "u:1": "1"}
    assert server.call("DBSIZE") == 2
    assert release_raw(server, "n", "u:1") == 0
    assert release_raw(server, "n", "u:1") is None
    for _ in range(2):
        assert write_raw(server, "n", "u:2", lease=20000) is None
    assert fields_of(server, "n") == {"mode": "write", "u:2:write": "1"}
    assert server.call("PTTL", "n") <= 20000, "not added up"
    assert release_raw(server, "n", "u:2", "1") == 0
    assert release_raw(server, "n", "u:2", "1") is None
    assert server.call("DBSIZE") == 0


def test_a_late_second_release_frees_nobody(server):
    assert read_raw(server, "n", "u:1") is None
    assert read_raw(server, "n", "v:1") is None
    assert release_raw(server, "n", "u:1") == 0
    assert release_raw(server, "n", "u:1") is None
    assert fields_of(server, "n") == {"mode": "read", "v:1": "1"}
    assert release_raw(server, "n", "v:1") == 0
    assert write_raw(server, "n", "w:1") is None
    assert release_raw(server, "n", "u:1") is None
    assert fields_of(server, "n") == {"mode": "write", "w:1:write": "1"}


def test_a_stranger_does_not_read_under_a_write(server):
    assert write_raw(server, "n", "u:1") is None
    assert 25000 < read_raw(server, "n", "v:1") <= 30000
    assert 25000 < read_raw(server, "n", "v:1", under="v:1:write") <= 30000
    assert read_raw(server, "n", "u:9", under="u:1:write") is None
    assert server.call("EXISTS", timeout_of("n", "v:1")) == 0


def test_renewal_makes_no_key(server):
    assert read_raw(server, "n", "u:1", lease=5000) is None
    both = ["n", timeout_of("n", "u:1"), "n", timeout_of("n", "v:1")]
    assert script(server, "read_renew", both, "u:1", 9000, "v:1", 9000) == [1, 0]
    assert server.call("PTTL", "n") > 8000 and server.call("PTTL", both[1]) > 8000
    server.call("DEL", both[1])
    assert script(server, "read_renew", both, "u:1", 9000, "v:1", 9000) == [0, 0]
    server.call("DEL", "n")
    assert script(server, "read_renew", both, "u:1", 9000, "v:1", 9000) == [0, 0]
    assert server.call("DBSIZE") == 0


def test_release_works_without_memory(server):
    assert write_raw(server, "n", "u:1") is None
    assert read_raw(server, "n", "u:1", under="u:1:write") is None
    server.set("maxmemory", 1)
    with pytest.raises(resp.ErrorReply, match="OOM"):
        read_raw(server, "n", "u:7", under="u:1:write")
    assert release_raw(server, "n", "u:1", "1") == 0
    assert fields_of(server, "n") == {"mode": "read", "u:1": "1"}
    assert release_raw(server, "n", "u:1") == 0
    assert server.call("DBSIZE") == 0


def test_a_refused_expiry_leaves_no_lock_without_one(server):
    server.call("ACL", "SETUSER", "poor", "on", "nopass", "~*", "&*", "+@all", "-pexpire",
                "-pexpireat")
    with server.connect() as connection:
        connection.call("AUTH", "poor", "x")
        for name, keys, field in (("read_acquire", ["n", timeout_of("n", "u:1"), "w"], "u:1"),
                                  ("write_acquire", ["n", "w"], "u:1:write")):
            text = lua.text_of("rw", name)
            more = ["", 0] if name == "read_acquire" else [0]
            with pytest.raises(resp.ErrorReply, match="(?i)can.t run this command|no permissions"):
                connection.call("EVAL", text, len(keys), *keys, field, 5000, FAR, *more)
            assert server.call("DBSIZE") == 0


# ---- something else under the name ----

@pytest.mark.parametrize("kind", ["read", "write"])
def test_another_type_is_refused_and_both_are_named(server, keeper, kind):
    keeper.call("acquire", "a-lock").ok()
    answer = keeper.call("try", "a-lock", kind=kind).is_code("LK_EWRONGTYPE")
    assert "is a lock, not a read/write lock" in answer.message
    server.call("SET", "a-string", "x")
    answer = keeper.call("try", "a-string", kind=kind).is_code("LK_EWRONGTYPE")
    assert "is a string, not a read/write lock" in answer.message
    keeper.call("acquire", "rw", kind=kind).ok()
    answer = keeper.call("try", "rw", thread="other").is_code("LK_EWRONGTYPE")
    assert "is a read/write lock, not a lock" in answer.message
    keeper.call("release", "rw", kind=kind).ok()
    keeper.call("release", "a-lock").ok()
    assert server.call("KEYS", "*") == [b"a-string"]
    keeper.call("force", "a-string", kind=kind).is_code("LK_EWRONGTYPE")


# ---- beside Java ----

def test_java_and_ours_read_together(server, keeper):
    java = JavaReadWriteLock(server, "shared")
    assert java.read() is None
    keeper.call("acquire", "shared", kind="read").ok()
    keeper.call("try", "shared", kind="write", thread="w").is_code("LK_EBUSY")
    assert java.write() > 25000
    assert java.unlock_read() == 0, "ours reads on"
    assert keeper.call("is_held", "shared", kind="read").result == 1
    keeper.call("try", "shared", kind="write", thread="w").is_code("LK_EBUSY")
    assert java.read() is None
    keeper.call("release", "shared", kind="read").ok()
    assert java.write() > 25000, "Java reads on"
    keeper.call("try", "shared", kind="write", thread="w").is_code("LK_EBUSY")
    assert java.unlock_read() == 1
    assert server.call("DBSIZE") == 0
    java.close()


def test_java_reads_twice_and_stays(server, keeper):
    """Its first hold's key is gone, the second keeps it."""
    java = JavaReadWriteLock(server, "twice")
    assert java.read(300) is None
    assert java.read(30000) is None
    keeper.call("acquire", "twice", kind="read").ok()
    until(lambda: not server.call("EXISTS", java.timeout + ":1"), 5)
    keeper.call("release", "twice", kind="read").ok()
    assert fields_of(server, "twice") == {"mode": "read", java.field: "2"}
    assert server.call("PTTL", "twice") > 25000
    assert java.unlock_read() == 1, "it drops the key of the second, and the first is over"
    java.close()


def test_dead_readers_do_not_keep_the_lock(server, keeper):
    """Neither a Java reader's field without keys, nor one of ours."""
    java = JavaReadWriteLock(server, "dead")
    keeper.call("acquire", "dead", kind="read", lease=60000).ok()
    assert java.read(100) is None
    assert read_raw(server, "dead", "ours:1", lease=100) is None
    until(lambda: not server.call("EXISTS", java.timeout + ":1"), 5)
    until(lambda: not server.call("EXISTS", timeout_of("dead", "ours:1")), 5)
    assert len(fields_of(server, "dead")) == 4
    keeper.call("release", "dead", kind="read").ok()
    assert server.call("DBSIZE") == 0
    java.close()


def test_dead_readers_are_swept_while_others_read(server, keeper):
    for number in range(50):
        assert read_raw(server, "swept", f"dead:{number}", lease=50) is None
        keeper.call("acquire", "swept", thread="a", kind="read", lease=60000).ok()
        keeper.call("acquire", "swept", thread="b", kind="read", lease=50000).ok()
        until(lambda: not server.call("EXISTS", timeout_of("swept", f"dead:{number}")), 5)
        keeper.call("release", "swept", thread="a", kind="read").ok()
        assert len(fields_of(server, "swept")) <= 3
        keeper.call("release", "swept", thread="b", kind="read").ok()
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("ours", ["read", "write"])
def test_java_waits_for_ours_and_is_woken(server, keeper, ours):
    java = JavaReadWriteLock(server, "wake")
    keeper.call("acquire", "wake", kind=ours).ok()
    wait = threading.Thread(target=java.wait, args=(java.write,))
    wait.start()
    until(lambda: server.channels(), 5)
    keeper.call("release", "wake", kind=ours).ok()
    wait.join(10)
    assert not wait.is_alive(), "woken by message, not by the lease of 30 s"
    keeper.call("try", "wake", kind="read").is_code("LK_EBUSY")
    assert java.unlock_write() == 1
    java.close()


@pytest.mark.parametrize("ours", ["read", "write"])
def test_ours_waits_for_java_and_is_woken(server, keeper, ours):
    java = JavaReadWriteLock(server, "wake")
    assert java.write() is None
    waits = keeper.say("acquire", "wake", kind=ours)
    until(lambda: server.channels(), 5)
    assert java.unlock_write() == 1
    assert waits.result(10).ok().took < 10
    assert (java.read() is None) == (ours == "read")
    keeper.call("release", "wake", kind=ours).ok()
    java.close()


def test_our_downgrade_lets_java_readers_in(server, keeper):
    java = JavaReadWriteLock(server, "down")
    keeper.call("acquire", "down", kind="write").ok()
    keeper.call("acquire", "down", kind="read").ok()
    wait = threading.Thread(target=java.wait, args=(java.read,))
    wait.start()
    until(lambda: server.channels(), 5)
    keeper.call("release", "down", kind="write").ok()
    wait.join(10)
    assert not wait.is_alive(), "woken by message, not by the lease of 30 s"
    assert java.unlock_read() == 0
    keeper.call("release", "down", kind="read").ok()
    assert server.call("DBSIZE") == 0
    java.close()


def test_java_downgrades_and_ours_reads_beside_it(server, keeper):
    """Redisson's downgrade says nothing: ours finds out at the ttl."""
    java = JavaReadWriteLock(server, "down", lease_ms=1500)
    assert java.write() is None and java.read() is None
    waits = keeper.say("acquire", "down", kind="read")
    until(lambda: server.channels(), 5)
    assert java.unlock_write() == 1
    assert fields_of(server, "down")["mode"] == "read"
    java.lease_ms = 30000
    assert java.renew_read() == 1
    waits.result(10).ok()
    assert java.unlock_read() == 0
    assert keeper.call("is_held", "down", kind="read").result == 1
    keeper.call("release", "down", kind="read").ok()
    java.close()


def test_what_java_sees_of_ours(server, keeper):
    """HLEN > 2 under mode write is what Redisson's isLocked() of the read side asks."""
    assert keeper.call("is_locked", "seen", kind="write").result == 0
    keeper.call("acquire", "seen", kind="write").ok()
    assert keeper.call("is_locked", "seen", kind="write").result == 1
    assert keeper.call("is_locked", "seen", kind="read").result == 0
    keeper.call("acquire", "seen", kind="read").ok()
    assert server.call("HLEN", "seen") == 3
    assert keeper.call("is_locked", "seen", kind="read").result == 1
    keeper.call("release", "seen", kind="write").ok()
    assert keeper.call("is_locked", "seen", kind="write").result == 0
    assert keeper.call("is_locked", "seen", kind="read").result == 1
    keeper.call("release", "seen", kind="read").ok()
    assert keeper.call("is_locked", "seen", kind="read").result == 0


def test_force_release_is_of_one_side(server, keeper):
    bare = Subscriber(server, channel_of_rw("force"))
    keeper.call("acquire", "force", kind="read").ok()
    assert keeper.call("force", "force", kind="write", thread="x").result == 0
    assert bare.messages == [] and server.call("EXISTS", "force") == 1
    assert keeper.call("force", "force", kind="read", thread="x").result == 1
    until(lambda: b"0" in bare.messages, 5)
    keeper.call("release", "force", kind="read").is_code("LK_ELOST")
    keeper.call("acquire", "force", kind="write").ok()
    assert keeper.call("force", "force", kind="read", thread="x").result == 0
    assert keeper.call("force", "force", kind="write", thread="x").result == 1
    # Also of a release that finds nothing. The client makes sure of a lost hold of its own by one
    # more, at a time of its own.
    until(lambda: bare.messages.count(b"0") >= 2 and b"1" in bare.messages, 5)
    keeper.call("release", "force", kind="write").is_code("LK_ELOST")
    bare.stop()


def test_wire_fields_of_both_sides(server, keeper, make_keeper):
    """Exported, then found, extended and freed by another process."""
    other = make_keeper(server.unix_url)
    for kind in "read", "write":
        keeper.call("acquire", "handed", kind=kind).ok()
        field = keeper.call("export", "handed", kind=kind).ok().field
        assert re.fullmatch(UUID + r":\d+", field)
        assert other.call("is_held_by", "handed", kind=kind, field=field).result == 1
        other.call("extend_field", "handed", kind=kind, field=field, lease=60000).ok()
        assert server.call("PTTL", "handed") > 50000
        other.call("release_field", "handed", kind=kind, field=field).ok()
        assert server.call("DBSIZE") == 0
        other.call("release_field", "handed", kind=kind, field=field).is_code("LK_ENOTOWNER")
        keeper.call("release", "handed", kind=kind).is_code("LK_ELOST")
