"""lockkeeper run: what the command sees, and what it exits with."""
from __future__ import annotations

import os
import resource
import socket
import subprocess
import time

import pytest

from command import BINARY
from terminal import Terminal
from waiting import boottime_ns, until


def hold(server, name, owner="stranger:1", ms=60000):
    """Another owner's lock, as any peer would write it."""
    server.call("HSET", name, owner, "1")
    server.call("PEXPIRE", name, str(ms))


@pytest.mark.parametrize("options", [[], ["--fair"], ["--fence"], ["--exclusive"], ["--plain"]])
def test_a_hash_that_is_not_a_lock_is_not_waited_for(cli, server, options):
    server.call("HSET", "user", "name", "ann")
    result = cli("run", *options, "user", "true")
    assert result.returncode == 125
    assert "hash" in result.stderr or "not a read/write lock" in result.stderr
    assert server.call("HGETALL", "user") == [b"name", b"ann"]


@pytest.mark.parametrize("code", [0, 1, 2, 42, 123, 124, 255])
def test_the_commands_status_is_passed_through(cli, code):
    assert cli("run", "job", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [1, 2, 6, 9, 15])
def test_a_command_that_died_of_a_signal_gives_128_and_its_number(cli, number):
    assert cli("run", "job", "sh", "-c", f"kill -{number} $$; sleep 9").returncode == 128 + number


def test_a_command_that_is_not_there_gives_127(cli, server):
    result = cli("run", "job", "no-such-command-here")
    assert result.returncode == 127
    assert result.stderr == "lockkeeper: cannot execute no-such-command-here: " \
                            "No such file or directory\n"
    assert server.call("EXISTS", "job") == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "/"])
def test_a_command_that_cannot_be_executed_gives_126(cli, server, path):
    result = cli("run", "job", path)
    assert result.returncode == 126
    assert "Permission denied" in result.stderr
    assert server.call("EXISTS", "job") == 0


def test_libraries_are_loaded_where_they_are_needed(cli, folder):
    """OpenSSL for TLS, ncurses for `top`: they would take a third of the time of a short run."""
    maps = folder / "maps"
    assert cli("run", "job", "sh", "-c", f"cat /proc/$PPID/maps > {maps}").returncode == 0
    assert "libhiredis" in maps.read_text()
    for library in ("libssl", "libcrypto", "libncurses", "libtinfo"):
        assert library not in maps.read_text()


def test_a_missing_openssl_is_named(folder, cli):
    (folder / "libssl.so.3").touch()  # found first, and no library
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"rediss://127.0.0.1:{listener.getsockname()[1]}"
        result = cli("run", "--url", url, "job", "true", LD_LIBRARY_PATH=str(folder))
    assert result.returncode == 125
    assert "OpenSSL" in result.stderr and "libssl.so.3" in result.stderr


def test_the_lock_is_held_while_it_runs_and_free_afterwards(cli, server, folder):
    done = folder / "done"
    process = cli.start("run", "job", "sh", "-c",
                        f"while [ ! -e {done} ]; do sleep 0.02; done")
    until(lambda: server.call("EXISTS", "job"), 10, "the lock is held")
    holders = server.holders("job")
    assert list(holders.values()) == [b"1"]
    assert 0 < server.call("PTTL", "job") <= 30000
    done.touch()
    assert process.wait(20) == 0
    assert server.call("KEYS", "*") == []
    assert process.stderr.read() == ""


def test_the_command_sees_name_owner_and_deadline(cli, server):
    before_ms = boottime_ns() // 1000000
    result = cli("run", "-l", "20", "a name", "sh", "-c",
                 'printf "%s|%s|%s|" "$LOCKKEEPER_NAME" "$LOCKKEEPER_OWNER" '
                 '"$LOCKKEEPER_DEADLINE_MS"; echo "$PPID"')
    name, owner, deadline, _ = result.stdout.split("|")
    assert name == "a name"
    assert len(owner.split(":")) == 2 and len(owner) >= 38
    after_ms = boottime_ns() // 1000000
    # A lower bound: the lease counts from before the request, less the drift.
    assert before_ms + 19000 <= int(deadline) <= after_ms + 20000


def test_the_owner_in_the_environment_is_the_one_in_redis(cli, server):
    result = cli("run", "job", "sh", "-c", "echo $LOCKKEEPER_OWNER; "
                 f"redis-cli -s {server.path} HKEYS job")
    told, stored = result.stdout.split()
    assert told == stored


def test_stdin_stdout_stderr_and_other_descriptors_are_inherited(cli):
    result = cli("run", "job", "sh", "-c", "cat; echo err >&2", input="hello\n")
    assert (result.stdout, result.stderr) == ("hello\n", "err\n")
    result = subprocess.run(
        ["bash", "-c", "lockkeeper run job cat <(echo one) /dev/fd/8 8< <(echo two)"],
        capture_output=True, text=True, env=cli.environment, timeout=60)
    assert result.stdout == "one\ntwo\n"


def test_no_descriptor_of_ours_reaches_the_command(cli):
    result = cli("run", "job", "sh", "-c", "ls -l /proc/self/fd | grep -c -e socket -e anon_inode")
    assert result.stdout == "0\n"


def test_the_command_starts_with_the_signals_lockkeeper_was_started_with(cli):
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    plain = subprocess.run(show, capture_output=True, text=True)
    assert cli("run", "job", *show).stdout == plain.stdout
    ignoring = ["sh", "-c", 'trap "" HUP USR1; exec "$@"', "-"]
    direct = subprocess.run([*ignoring, *show], capture_output=True, text=True)
    through = subprocess.run([*ignoring, BINARY, "run", "job", *show], capture_output=True,
                             text=True, env=cli.environment, start_new_session=True)
    assert through.stdout == direct.stdout != plain.stdout


def test_the_command_has_a_process_group_of_its_own(cli):
    result = cli("run", "job", "sh", "-c", "echo $$; ps -o pgid= -p $$")
    pid, group = result.stdout.split()
    assert pid == group


def test_flags_of_the_command_are_its_own(cli):
    assert cli("run", "job", "echo", "-n", "-w", "--", "-E").stdout == "-w -- -E"
    assert cli("run", "job", "--", "echo", "-v").stdout == "-v\n"
    assert cli("run", "--", "-job", "echo", "x").stdout == "x\n"
    assert cli("run", "job", "--", "--").returncode == 127


def limit_descriptors(soft: int, hard: int):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", range(6, 32))
def test_with_few_descriptors_it_works_or_says_so(cli, server, count):
    """A waiter that runs out of them must not take a free lock for one that is held."""
    hold(server, "job")
    process = subprocess.Popen([BINARY, "run", "-w", "20", "job", "true"], env=cli.environment,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=limit_descriptors(count, count))
    until(lambda: server.channels() or process.poll() is not None, 20, "it waits or has ended")
    server.call("DEL", "job")
    server.call("PUBLISH", "redisson_lock__channel:{job}", "0")
    code, text = process.wait(60), process.stderr.read()
    process.stderr.close()
    assert code == 0 or (code == 125 and ("descriptors" in text or "open files" in text)), text
    assert code == 0 or count < 28, text


def test_a_soft_limit_of_descriptors_is_the_commands_alone(cli):
    done = subprocess.run([BINARY, "run", "job", "sh", "-c", "ulimit -Sn; ulimit -Hn"],
                          env=cli.environment, capture_output=True, text=True, timeout=60,
                          preexec_fn=limit_descriptors(12, 500))
    assert (done.returncode, done.stdout) == (0, "12\n500\n"), done.stderr


def test_no_shell_unless_asked_for(cli):
    assert cli("run", "job", "echo", "$HOME;", "`x`", "*").stdout == "$HOME; `x` *\n"
    assert cli("run", "-c", "echo $((1 + 2)); exit 5", "job").stdout == "3\n"
    assert cli("run", "-c", "exit 5", "job").returncode == 5
    assert cli("run", "job", "-c", "exit 6").returncode == 6  # as flock(1) has it
    assert cli("run", "job", "--", "-c", "exit 6").returncode == 127


def test_a_lock_of_another_owner_gives_124_at_once_with_n(cli, server):
    hold(server, "job")
    begun = time.monotonic()
    result = cli("run", "-n", "job", "echo", "ran")
    assert result.returncode == 124
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("lockkeeper: job: held by another client")
    assert (cli("run", "-n", "-q", "job", "true").stderr) == ""  # as quiet as flock(1)
    assert time.monotonic() - begun < 5
    assert server.holders("job") == {b"stranger:1": b"1"}
    assert "held by" in cli("run", "-v", "-n", "job", "true").stderr


def test_w_limits_the_wait_and_gives_124(cli, server):
    hold(server, "job")
    begun = time.monotonic()
    assert cli("run", "-w", "0.7", "job", "echo", "ran").returncode == 124
    assert 0.69 <= time.monotonic() - begun < 10
    assert cli("run", "-w", "0", "job", "true").returncode == 124
    assert server.channels() == []


@pytest.mark.parametrize("code", [0, 1, 75, 255])
def test_E_overrides_124_and_nothing_else(cli, server, code):
    hold(server, "job")
    assert cli("run", "-n", "-E", str(code), "job", "true").returncode == code
    assert cli("run", "-w", "50ms", "-E", str(code), "job", "true").returncode == code
    assert cli("run", "-E", str(code), "other", "sh", "-c", "exit 124").returncode == 124
    assert cli("run", "-n", "-E", str(code), "--url", "redis://127.0.0.1:1", "job",
               "true").returncode == 125


def test_it_gets_the_lock_when_the_other_lets_go(cli, server):
    first = cli.start("run", "job", "sh", "-c", "sleep 0.5; date +%s.%N")
    until(lambda: server.call("EXISTS", "job"), 10, "the first has it")
    second = cli("run", "job", "date", "+%s.%N")
    assert first.wait(20) == 0
    assert float(first.stdout.read()) < float(second.stdout)


def test_no_answer_from_the_server_is_125_not_124(cli, server):
    result = cli("run", "-w", "1", "--url", "redis://127.0.0.1:1", "job", "true")
    assert result.returncode == 125
    assert "127.0.0.1:1" in result.stderr
    server.pause()
    begun = time.monotonic()
    result = cli("run", "-w", "1", "job", "true")
    assert result.returncode == 125, result.stderr
    assert 0.9 <= time.monotonic() - begun < 20
    server.resume()
    until(lambda: not server.call("EXISTS", "job"), 10, "what it asked for has been released")


def test_a_key_that_is_not_a_lock_gives_125(cli, server):
    server.call("SET", "job", "text")
    result = cli("run", "-n", "job", "true")
    assert result.returncode == 125
    assert "job" in result.stderr


def test_the_lease_is_renewed_as_long_as_it_runs(cli, server):
    process = cli.start("run", "-l", "2s", "job", "sleep", "3")
    until(lambda: server.call("EXISTS", "job"), 10, "the lock is held")
    owner = server.holders("job")
    while process.poll() is None:
        held, ttl = server.holders("job"), server.call("PTTL", "job")
        assert process.poll() is not None or not held or (held == owner and ttl <= 2000)
        time.sleep(0.02)
    assert process.returncode == 0, process.stderr.read()


def test_lease_from_the_configuration(cli, server):
    ttl = ["redis-cli", "-s", server.path, "PTTL", "job"]
    assert 4000 < int(cli("run", "-o", "watchdog_ms=5000", "job", *ttl).stdout) <= 5000
    assert 6000 < int(cli("run", "job", *ttl, LOCKKEEPER_WATCHDOG_MS="7000").stdout) <= 7000
    assert 8000 < int(cli("run", "-l", "9", "job", *ttl,
                          LOCKKEEPER_WATCHDOG_MS="7000").stdout) <= 9000


def test_v_reports_what_happens(cli):
    assert "lockkeeper: acquired job after " in cli("run", "-v", "job", "true").stderr


def test_run_does_not_wait_for_background_processes(cli, server, folder):
    mark = folder / "left"
    begun = time.monotonic()
    result = cli("run", "job", "sh", "-c",
                 f"(sleep 1; touch {mark}) >/dev/null 2>&1 </dev/null & exit 3")
    assert result.returncode == 3
    assert time.monotonic() - begun < 10
    assert server.call("EXISTS", "job") == 0
    until(mark.exists, 20, "the process left behind goes on")


@pytest.mark.parametrize("name", [b"a b", b"*?[x]", b"\xff\xfe", b"\n", "schlüssel".encode(),
                                  b"{tag}x", b"x" * 5000, b"%s%n", b"\x1b[2J"])
def test_names_are_any_bytes(cli, server, name):
    result = cli("run", name, "sh", "-c",
                 'printf %s "$LOCKKEEPER_NAME" | od -An -v -tx1 | tr -d " \\n"; '
                 f"redis-cli -s {server.path} --no-raw KEYS '*' >&2")
    assert result.stdout == name.hex()
    assert result.stderr.startswith("1) ")
    server.call("SET", name, "text")
    failed = cli("run", "-n", name, "true")
    assert failed.returncode == 125
    lines = failed.stderr.removesuffix("\n").split("\n")
    assert [line.split(":")[0] for line in lines] == ["lockkeeper"] * 2, "what, and what to do"
    assert all(byte >= " " for line in lines for byte in line)


def test_locks_within_locks(cli):
    inner = "lockkeeper run inner sh -c 'echo $LOCKKEEPER_NAME; exit 9'"
    result = cli("run", "outer", "sh", "-c", inner)
    assert (result.returncode, result.stdout) == (9, "inner\n")


def test_a_lock_within_the_same_lock_warns(cli):
    def nested(*options: str, name: str = "job"):
        return cli("run", *options, "job", BINARY, "run", *options, "-w", "0.1", name, "true")
    assert "an outer lockkeeper run holds job" in nested().stderr
    assert nested().returncode == 124
    for quiet in (nested(name="other"), nested("--shared"), nested("--permits", "2")):
        assert (quiet.returncode, quiet.stderr) == (0, "")


WITHIN = {
    "A in B in A": ["run A -- lockkeeper run B --", "run -w 0.4 A true"],
    "lock": ["run A --", "lock -n -l 5 A"], "lock that waits": ["run A --", "lock -w 0.4 -l 5 A"],
    "wait": ["run A --", "wait -w 0.4 A"], "--also": ["run A --", "run -w 0.4 --also A B true"],
    "a part": ["run --also A B --", "run -n A true"],
    "--shared in --exclusive": ["run --exclusive A --", "run -w 0.4 --shared A true"],
    "--exclusive in --shared": ["run --shared A --", "run -n --exclusive A true"],
    "plain": ["run --plain A --", "run -n --plain A true"],
    "the last permit": ["run --permits 1 A --", "run -w 0.4 --permits 1 A true"],
}
WARNING = "an outer lockkeeper run holds A (LOCKKEEPER_OUTER)"


@pytest.mark.parametrize("name", WITHIN)
def test_a_wait_for_oneself_is_told(cli, name):
    outer, inner = WITHIN[name]
    result = cli(*outer.split(), "lockkeeper", *inner.split())
    assert result.returncode == 124 and result.stderr.count(WARNING) == 1, result.stderr


@pytest.mark.parametrize("inner", ["-o key_prefix=other: A", "-o database=2 A", "B",
                                   "--permits 2 S", "--shared R"])
def test_what_no_outer_run_holds_is_not_said_to_be_held(cli, server, inner):
    outer = ["run", "A", "--", "lockkeeper", "run", "--permits", "2", "S", "--", "lockkeeper",
             "run", "--shared", "R", "--"]
    result = cli(*outer, "lockkeeper", "run", "-n", *inner.split(), "true")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_stranger_or_a_run_that_has_ended_is_no_outer_run(cli, server):
    """As seen by a service that a job has started."""
    outer = cli("run", "A", "sh", "-c", "echo $LOCKKEEPER_OUTER").stdout.strip()
    assert len(outer) == 36
    hold(server, "A")
    result = cli("run", "-w", "0.4", "A", "true", LOCKKEEPER_NAME="A", LOCKKEEPER_OUTER=outer)
    assert result.returncode == 124 and "outer" not in result.stderr
    hold(server, "B", f"{outer}:7")
    for text in (outer, f"x,,{outer[1:]},{outer}", ",".join([outer] * 100)):
        assert "holds B" in cli("run", "-n", "B", "true", LOCKKEEPER_OUTER=text).stderr
    deep = cli("run", "A2", "sh", "-c", "echo $LOCKKEEPER_OUTER",
               LOCKKEEPER_OUTER=",".join([outer] * 100))
    assert len(deep.stdout.strip().split(",")) == 64


def test_many_at_once_take_turns(cli, folder):
    shared = folder / "count"
    shared.write_text("0")
    script = f"n=$(cat {shared}); sleep 0.01; echo $((n + 1)) > {shared}"
    started = [cli.start("run", "job", "sh", "-c", script) for _ in range(20)]
    assert [process.wait(60) for process in started] == [0] * 20
    assert shared.read_text() == "20\n"


def test_it_needs_no_standard_streams(cli, folder):
    mark = folder / "ran"
    script = f'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, "-", BINARY, "run", "job", "touch", mark],
                          env=cli.environment, timeout=60)
    assert done.returncode == 0 and mark.exists()


NUMBERS = """import os, sys
mine = str(os.getpid())
names = "LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"
told = ["own" if os.environ.get(name) == mine else os.environ.get(name) for name in names]
print(*told, os.environ.get("LISTEN_PIDFDID"), os.fstat(3).st_ino)
"""


def service_told(number: str, *words: str) -> str:
    """A shell line that starts the command as systemd would; with another process's number."""
    names = "LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"
    told = " ".join(f"{name}={number}" for name in names)
    return f"{told} LISTEN_FDS=1 LISTEN_PIDFDID=7 exec lockkeeper run {' '.join(words)}"


@pytest.mark.parametrize("words", [["job", "python3", "numbers.py"],
                                   ["-c", "'exec python3 numbers.py'", "job"]], ids=str)
def test_what_is_told_to_a_service_is_told_to_its_command(cli, folder, words):
    script = folder / "numbers.py"
    script.write_text(NUMBERS)
    for number, told in (("$$", "own own own None"), ("1", "1 1 1 7")):
        line = f"exec 3<numbers.py; {service_told(number, *words)}"
        done = subprocess.run(["sh", "-c", line], cwd=folder, env=cli.environment, text=True,
                              capture_output=True, timeout=60, start_new_session=True)
        assert done.stdout == f"{told} {script.stat().st_ino}\n", done.stderr


def test_a_socket_reaches_a_command_on_a_terminal_too(cli, folder):
    (folder / "numbers.py").write_text(NUMBERS)
    terminal = Terminal(cli.environment)
    line = service_told("\\$\\$", "job", "python3", f"{folder}/numbers.py")
    terminal.line(f'sh -c "exec 3</dev/null; {line}"')
    terminal.expect("own own own None")
    terminal.close()
