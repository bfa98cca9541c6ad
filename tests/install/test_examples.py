"""The examples do what their first lines say."""
from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from conftest import BUILD, ROOT, run, until


@pytest.fixture
def start(server):
    made = []

    def begin(name, *arguments, **options):
        folder, _, program = name.rpartition("/")
        path = BUILD / "examples" / folder / f"example-{program}"
        made.append(subprocess.Popen([str(path), *arguments],
                                     env={"LOCKKEEPER_URL": server.url, **options}, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()


def hold(server, name):
    server.ask("HSET", name, "other:1", "1")
    server.ask("PEXPIRE", name, "60000")


def test_lock(start):
    process = start("lock")
    assert process.communicate(timeout=20) == ("alone at work\n", "")
    assert process.returncode == 0


def test_fence(start, server):
    process = start("fence", "first")
    out, error = process.communicate(timeout=20)
    assert (out[:19], error) == ("written with token ", "")
    assert server.ask("HGET", "report-text", "value") == "first"
    server.ask("HSET", "report-text", "token", str(2**53 - 1))  # one that is newer than all
    process = start("fence", "second")
    assert "has been seen" in process.communicate(timeout=20)[1]
    assert process.returncode == 1
    assert server.ask("HGET", "report-text", "value") == "first"


def test_election(start, server):
    first = start("election", "web", "a")
    assert first.stdout.readline().startswith("leading, term ")
    second = start("election", "web", "b")
    until("the other waits", lambda: server.ask("HLEN", "lockkeeper_candidates:{web}") == "1")
    until("it works", lambda: server.ask("HGET", "served-by", "value") == "a")
    first.terminate()
    assert second.stdout.readline().startswith("leading, term ")
    until("the other works", lambda: server.ask("HGET", "served-by", "value") == "b")
    second.terminate()
    for process in (first, second):
        assert (process.communicate(timeout=20)[1], process.returncode) == ("", 0)


def test_many(start):
    process = start("many")
    out, error = process.communicate(timeout=20)
    assert (out, error) == ("from account:7 to account:9\nfrom account:9 to account:7\n", "")
    assert process.returncode == 0


def test_queue(start, server):
    hold(server, "oven")
    process = start("queue", "table", "oven", "table", "sink")
    until("the others had them", lambda: server.ask("EXISTS", "table", "sink") == "0" and
          server.ask("PUBSUB", "NUMSUB", "redisson_lock__channel:{oven}").endswith("1"))
    server.ask("DEL", "oven")
    server.ask("PUBLISH", "redisson_lock__channel:{oven}", "0")
    out, error = process.communicate(timeout=20)
    assert (sorted(out.splitlines()), error) == (
        ["oven is ours", "sink is ours", "table is ours", "table is ours"], "")
    assert out.splitlines()[-1] == "oven is ours"
    assert process.returncode == 0


def test_threadless(start, server):
    process = start("threadless", "oven", "60000")
    assert process.stdout.readline() == "oven is ours\n"
    assert "Threads:\t1\n" in pathlib.Path(f"/proc/{process.pid}/status").read_text()
    assert server.ask("EXISTS", "oven") == "1"
    process.kill()
    process.communicate()
    server.ask("DEL", "oven")
    process = start("threadless", "oven", "1")
    assert process.communicate(timeout=20) == ("oven is ours\n", "")
    assert process.returncode == 0
    assert server.ask("EXISTS", "oven") == "0"


def test_throttle(start, server):
    server.ask("SET", "ovens", "0")  # somebody has them all
    names = [f"loaf-{number}" for number in range(20)]
    process = start("throttle", *names)
    until("one waits", lambda: server.ask("PUBSUB", "NUMSUB",
                                          "redisson_sc:{ovens}").endswith("1"))
    server.ask("SET", "ovens", "2")
    server.ask("PUBLISH", "redisson_sc:{ovens}", "2")
    out, error = process.communicate(timeout=20)
    assert (out.splitlines(), error) == ([f"{name} is baked" for name in names], "")
    assert process.returncode == 0
    assert server.ask("GET", "ovens") == "2"


# The libraries are in CI; elsewhere the build leaves out what it cannot make.
LOOPS = ("epoll", "libuv", "glib", "sd_event", "asio", "messages")


@pytest.fixture(params=LOOPS)
def loop(request):
    if not (BUILD / f"examples/loops/example-{request.param}").exists():
        pytest.skip(f"built without the library of {request.param}")
    return f"loops/{request.param}"


def test_loop(start, server, loop):
    process = start(loop, "oven")
    assert process.communicate(timeout=20) == ("oven is ours\n", "")
    assert process.returncode == 0
    assert server.ask("EXISTS", "oven") == "0"


def test_loop_waits_for_its_lock(start, server, loop):
    hold(server, "oven")
    process = start(loop, "oven", "1")
    until("it waits", lambda: server.ask("PUBSUB", "NUMSUB",
                                         "redisson_lock__channel:{oven}").endswith("1"))
    break_lock(server, "oven")
    assert process.communicate(timeout=20) == ("oven is ours\n", "")
    assert process.returncode == 0


def test_loop_hears_that_its_lock_is_lost(start, server, loop):
    process = start(loop, "oven", "60000", LOCKKEEPER_WATCHDOG_MS="3000")
    assert process.stdout.readline() == "oven is ours\n"
    break_lock(server, "oven")
    assert process.communicate(timeout=20)[1] == "oven is lost: the work must stop\n"
    assert process.returncode == 1


def test_loop_sleeps_while_nothing_comes(start, server, loop):
    """A descriptor that stays readable, or a loop that asks again and again, would cost its CPU."""
    process = start(loop, "oven", "60000")
    assert process.stdout.readline() == "oven is ours\n"
    time.sleep(1)
    ticks = pathlib.Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]
    assert sum(map(int, ticks)) < 0.3 * os.sysconf("SC_CLK_TCK")


def test_an_adapter_has_at_most_40_lines():
    for path in (ROOT / "examples/loops").glob("*.c*"):
        if path.stem != "job":
            text = path.read_text()
            adapter = text[text.index("/* ---- the adapter"):text.index("/* ---- the program")]
            assert adapter.count("\n") <= 40, path.name


def test_quorum(start):
    assert start("quorum", "redis://one", "redis://two").wait(20) == 2
    process = start("quorum", "unix:///no/1", "unix:///no/2", "unix:///no/3")
    assert "0 of 3 nodes grant it" in process.communicate(timeout=40)[1]
    assert process.returncode == 1


def test_permits(start, server):
    process = start("permits")
    assert process.communicate(timeout=20) == ("one of three\n", "")
    assert process.returncode == 0
    assert server.ask("GET", "downloads") == "3"
    assert 0 < int(server.ask("PTTL", "downloads")) <= 24 * 3600 * 1000


def test_once(start, server):
    """However quick it is; the second one begins when the first has ended."""
    for said in ("the report is made", "somebody else does it, or has just done it"):
        process = start("once")
        assert process.communicate(timeout=20) == (f"{said}\n", "")
        assert process.returncode == 0
    assert 0 < int(server.ask("PTTL", "report")) <= 60000


def test_semaphore(start, server):
    process = start("semaphore")
    assert process.communicate(timeout=20) == ("four are ours, 6 are left\n", "")
    assert server.ask("GET", "connections") == "10"


def test_barrier(start):
    process = start("barrier")
    out, error = process.communicate(timeout=20)
    lines = out.splitlines()
    assert (error, process.returncode, len(lines)) == ("", 0, 9)
    for step in range(3):
        of_step = [line for line in lines if line.startswith(f"all have ended step {step}:")]
        assert len(of_step) == 3 and len(set(of_step)) == 1


def test_drain(start):
    process = start("drain")
    out, error = process.communicate(timeout=20)
    held, refused = out.splitlines()
    assert (error, process.returncode) == ("", 0)
    assert held.startswith('still held: lock "job", since ') and refused == "nothing new is taken"


def test_latch(start):
    process = start("latch")
    assert process.communicate(timeout=20) == ("all parts are done\n", "")
    assert process.returncode == 0


def test_latch_that_is_set_already(start, server):
    server.ask("SET", "parts", "1")
    process = start("latch")
    assert process.stdout.readline() == "begun by somebody else\n"
    server.ask("DEL", "parts")
    assert process.communicate(timeout=20) == ("all parts are done\n", "")
    assert process.returncode == 0


def test_read_write(start, server):
    process = start("read_write")
    assert process.communicate(timeout=20) == ("changed, alone\nlooking, beside others\n", "")
    assert process.returncode == 0
    hold(server, "prices")
    process = start("read_write")
    assert "is a lock, not a read/write lock" in process.communicate(timeout=20)[1]
    assert process.returncode == 1


def test_plain(start, server):
    server.ask("SET", "newsletter", "a Python program's", "NX", "PX", "300")
    process = start("plain")
    assert process.communicate(timeout=20) == ("alone, in C and in Python\n", "")
    assert process.returncode == 0


def test_spin(start):
    process = start("spin")
    assert process.communicate(timeout=20) == ("alone for a moment\n", "")
    assert process.returncode == 0


def test_fair(start, server):
    hold(server, "counter")
    customers = []
    for number in range(3):
        customers.append(start("fair", f"customer {number}"))
        until("it waits", lambda: int(server.ask("LLEN", "redisson_lock_queue:{counter}")) ==
              len(server.ask("PUBSUB", "CHANNELS", "redisson*").split()) == number + 1)
    server.ask("DEL", "counter")
    first = server.ask("LINDEX", "redisson_lock_queue:{counter}", "0")
    server.ask("PUBLISH", f"redisson_lock__channel:{{counter}}:{first}", "0")
    for number, customer in enumerate(customers):
        assert customer.communicate(timeout=20) == (f"customer {number} is served\n", "")


def test_patience_granted(start):
    assert start("patience", "door", "5000").communicate(timeout=20) == ("granted\n", "")


@pytest.mark.parametrize("wait_ms", ["0", "300"])
def test_patience_ends(start, server, wait_ms):
    hold(server, "door")
    process = start("patience", "door", wait_ms)
    assert process.communicate(timeout=20)[0] == "somebody else has it\n"
    assert process.returncode == 1


def test_patience_is_cancelled(start, server):
    hold(server, "door")
    process = start("patience", "door", "60000")
    until("it waits", lambda: "door" in server.ask("PUBSUB", "CHANNELS"))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "cancelled\n"


def test_notice_done(start):
    assert start("notice", "bench", "saw", "5").communicate(timeout=20)[0] == "working\ndone\n"


def break_lock(server, name):
    """As another program would: the holder hears of it, or learns it by its next renewal."""
    server.ask("DEL", name)
    server.ask("PUBLISH", f"redisson_lock__channel:{{{name}}}", "0")


def test_notice_between_two_steps(start, server):
    process = start("notice", "bench", "saw", "100000", LOCKKEEPER_WATCHDOG_MS="3000")
    assert process.stdout.readline() == "working\n"
    break_lock(server, "bench")
    out, error = process.communicate(timeout=20)
    # The worker may see it first, and its release deletes a notice that nobody has read.
    assert out in ("lost: bench\n", "") and "stopped: " in error
    assert process.returncode == 1


def test_notice_ends_a_wait(start, server):
    """The worker waits for the saw while its bench is lost: nothing but the cancel ends that."""
    hold(server, "saw")
    process = start("notice", "bench", "saw", "1", LOCKKEEPER_WATCHDOG_MS="3000")
    assert process.stdout.readline() == "working\n"
    until("it waits", lambda: "saw" in server.ask("PUBSUB", "CHANNELS"))
    break_lock(server, "bench")
    out, error = process.communicate(timeout=20)
    assert out == "lost: bench\n" and "stopped: " in error and "lost" in error
    assert process.returncode == 1
    assert server.ask("EXISTS", "saw") == "1"


def test_notice_of_a_lock_deleted_without_a_message(start, server):
    process = start("notice", "bench", "saw", "30")
    assert process.stdout.readline() == "working\n"
    server.ask("DEL", "bench")
    out, error = process.communicate(timeout=30)
    # A young hold is not watched yet: then its release says so.
    assert out in ("lost: bench\n", "") and "stopped: " in error
    assert process.returncode == 1


def test_relay(start, server):
    assert start("relay", "baton").communicate(timeout=20)[0] == "handed over and released\n"
    assert server.ask("EXISTS", "baton") == "0"


@pytest.mark.parametrize("words", [
    ["fair"], ["relay"], ["watch"], ["notice"], ["notice", "bench", "saw", "few"], ["patience"],
    ["patience", "door", "abc"], ["patience", "door", ""]])
def test_usage(start, words):
    process = start(*words)
    out, error = process.communicate(timeout=20)
    assert (out, error[:7 + len(words[0])]) == ("", f"usage: {words[0]}")
    assert process.returncode == 2


def test_watch(start, server):
    process = start("watch", "job")
    assert process.stdout.readline() == "job: free\n"
    server.ask("HSET", "job", "other:1", "1")
    assert process.stdout.readline() == "job: held\n"
    server.ask("FLUSHALL")
    assert process.stdout.readline() == "job: lost with the server's data\n"


def test_each_kind_has_names_of_its_own(start, server):
    """One server for all: one name is one kind."""
    for name in ("fence", "plain", "fair", "spin", "lock", "many", "once", "permits", "semaphore",
                 "latch", "read_write"):
        process = start(name, *(["customer"] if name == "fair" else []))
        assert process.communicate(timeout=20)[1] == ""
        assert process.returncode == 0


def test_run_needs_no_more_than_the_url(server):
    assert run(BUILD / "examples/example-lock", env={"LOCKKEEPER_URL": server.url})


def scraped(port, accept):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def reader(port):
    """Each format by its own parser: the samples of a family by their names and labels."""
    from prometheus_client import openmetrics, parser
    import prometheus_client.openmetrics.parser
    kinds = {"text/plain": parser.text_string_to_metric_families,
             "application/openmetrics-text": openmetrics.parser.text_string_to_metric_families}
    for accept, parse in kinds.items():
        told, text = scraped(port, accept)
        assert told.startswith(accept)
        yield {sample.name + str(sorted(sample.labels.items())): sample.value
               for family in parse(text) for sample in family.samples}


@pytest.mark.skipif(not (BUILD / "examples/example-metrics").exists(),
                    reason="it needs libmicrohttpd")
def test_metrics(start):
    pytest.importorskip("prometheus_client")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start("metrics", str(port), LC_ALL="de_DE.UTF-8")

    def served():
        assert process.poll() is None, process.stderr.read()
        try:
            return "lockkeeper_hold_seconds_count 1\n" in scraped(port, "text/plain")[1]
        except OSError:
            return False

    until("the page tells of a hold", served)
    for found in reader(port):
        assert found["lockkeeper_acquires_total[('result', 'granted')]"] >= 1
        assert found["lockkeeper_acquires_total[('result', 'error')]"] == 0
        assert found["lockkeeper_wait_seconds_bucket[('le', '+Inf')]"] == \
            found["lockkeeper_wait_seconds_count[]"]
        assert found["lockkeeper_build_info[('version', '0.2.0')]"] == 1
        assert any(name.startswith("lockkeeper_node_round_trip_seconds[('node'") for name in found)
    process.terminate()
    assert process.wait(timeout=20) == 0
