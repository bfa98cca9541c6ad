"""A walk asks for a page of keys at once: a little of each, and for each alone if it must."""
from __future__ import annotations

import pytest

from proxy import Replace

OWNER = "12345678-1234-4234-8234-123456789abc"
FEW, MANY = 3, 50


class Asked:
    """A rule that keeps what was asked with these verbs, and refuses the first so many."""

    def __init__(self, *verbs: bytes, refused: int = 0, words: bytes = b"LOADING"):
        self.verbs, self.refused, self.refusal, self.words = verbs, refused, words, []

    def __call__(self, message):
        verb = message.argv[0]
        if not message.reply and verb in self.verbs:
            self.words.append(message.argv)
        if message.reply and verb in self.verbs and self.refused:
            self.refused -= 1
            return Replace(b"-%s not now\r\n" % self.refusal)
        return None


@pytest.fixture
def through(server, proxy, make_keeper):
    for number in range(FEW):
        server.call("HSET", f"job{number}", f"{OWNER}:{number}", 1)
    return make_keeper(proxy.unix_url)


def test_what_is_refused_for_all_is_asked_for_each(proxy, through):
    proxy.rule = rule = Asked(b"HSCAN", refused=FEW)
    assert through.call("scan").ok().result == FEW
    assert not rule.refused and len(rule.words) == 2 * FEW
    proxy.rule = rule = Asked(b"TIME", refused=1)  # the first of the batch
    assert through.call("scan").ok().result == FEW
    assert not rule.refused


@pytest.mark.parametrize("words, code", [(b"NOPERM", "LK_EDENIED"), (b"LOADING", "LK_EUNAVAILABLE"),
                                         (b"ERR what", "LK_EUNAVAILABLE")])
def test_a_key_that_the_server_tells_nothing_of_is_an_error(proxy, through, words, code):
    proxy.rule = Asked(b"HSCAN", refused=99, words=words)
    assert words.decode() in through.call("show", "job1").is_code(code).message
    through.call("scan").is_code(code)


def test_a_negative_thread_id_is_an_owner(server, through):
    """Java's asynchronous calls take any number."""
    server.call("HSET", "negative", f"{OWNER}:-7", 1)
    server.call("HSET", "negative-writer", "mode", "write", f"{OWNER}:-7:write", 1)
    assert through.call("scan").ok().result == FEW + 2
    assert through.call("show", "negative").ok().result == 1
    assert through.call("show", "negative-writer").ok().result == 1


def test_only_what_has_many_is_asked_for_in_full(server, proxy, through):
    for number in range(MANY):
        server.call("RPUSH", "redisson_lock_queue:{job1}", f"{OWNER}:{100 + number}")
        server.call("HSET", "many", f"{OWNER}:{number}", 1)
        server.call("HSET", "data", f"{OWNER}:{number}", "not a count")
    server.call("CONFIG", "SET", "hash-max-listpack-entries", 1)
    for name in ("many", "data"):
        server.call("HSET", name, f"{OWNER}:0", 1)
    proxy.rule = rule = Asked(b"LRANGE", b"HSCAN")
    assert through.call("scan").ok().result == FEW + 1
    full = [words[1] for words in rule.words if words[-1] in (b"999", b"1000")]
    assert sorted(full) == [b"job1", b"many", b"redisson_lock_queue:{job1}",
                            b"redisson_lock_queue:{many}"]
