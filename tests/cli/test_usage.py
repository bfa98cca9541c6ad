"""Bad input, help, and the pages that must say the same as the program."""
from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import subprocess

import pytest

from command import BINARY, ROOT, SANITIZED, Command, guard_of
from servers import Server

COMMANDS = ["run", "lock", "unlock", "extend", "ls", "show", "top", "metrics", "ask", "break",
            "wait", "watch", "fence", "latch", "barrier", "sem", "elect", "leader", "doctor",
            "server", "completion", "help"]
MANUAL = ROOT / "docs" / "man" / "lockkeeper.1"


@pytest.fixture
def offline(folder):
    """The command with a server that is not there: bad input is refused before it is asked."""
    return Command({"LOCKKEEPER_URL": f"unix://{folder}/none.sock",
                    "LOCKKEEPER_STATE_DIR": str(folder / "never")})


def assert_refused(result, *words: str):
    assert result.returncode == 125, result
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("lockkeeper: "), result.stderr
    assert "connect" not in lines[0], "refused before the server was asked"
    for word in words:
        assert word in lines[0]


BAD_DURATIONS = ["", " ", "-1", "+1", "1e3", "0x10", "12abc", "1 s", "1m30s", "inf", "nan", "1,5",
                 "9999999999999999999", "1.2.3", "s"]


@pytest.mark.parametrize("value", BAD_DURATIONS)
@pytest.mark.parametrize("option", ["-w", "-l", "-k"])
def test_bad_durations(offline, option, value):
    assert_refused(offline("run", option, value, "job", "true"), f"option {option}", f"'{value}'")


@pytest.mark.parametrize("value", ["0", "99ms", "0.099", "366d", "31536001"])
def test_leases_out_of_range(offline, value):
    assert_refused(offline("run", "-l", value, "job", "true"), "option -l")
    assert_refused(offline("lock", "-l", value, "job"), "option -l")
    assert_refused(offline("extend", "-l", value, "job", "a:1"), "option -l")


@pytest.mark.parametrize("value", ["", "-1", "256", "1.5", "0x1", "999999999999", "a", "1 "])
def test_bad_exit_codes(offline, value):
    assert_refused(offline("run", "-E", value, "job", "true"), "option -E")


@pytest.mark.parametrize("value", ["", "NONE", "0", "65", "-9", "9x"])
def test_bad_signals(offline, value):
    assert_refused(offline("run", "-s", value, "job", "true"), "option -s")


def test_a_grace_over_half_of_the_lease_is_refused(offline, cli):
    assert_refused(offline("run", "-l", "10", "-k", "5.001", "job", "true"), "half", "5001",
                   "10000")
    assert_refused(offline("run", "-k", "15.1", "job", "true"), "half")
    assert_refused(offline("run", "-k", "3", "-o", "watchdog_ms=5000", "job", "true"), "half")
    assert cli("run", "-l", "10", "-k", "5", "job", "true").returncode == 0


@pytest.mark.parametrize("args", [
    [], ["nonsense"], ["-x"], ["--nonsense"], ["RUN"],
    ["run"], ["run", "job"], ["run", "job", "--"], ["run", "", "true"],
    ["run", "-x", "job", "true"],
    ["run", "--nope", "job", "true"], ["run", "-w"], ["run", "-n", "-w", "1", "job", "true"],
    ["run", "-c", "true", "job", "true"], ["run", "-c", "true"], ["run", "job", "-c"],
    ["run", "job", "-c", "true", "more"], ["run", "--nonblock=1", "job", "true"],
    ["lock"], ["lock", "job"], ["lock", "-l", "5"], ["lock", "-l", "5", ""],
    ["lock", "-l", "5", "job", "more"], ["lock", "-n", "-w", "1", "-l", "5", "job"],
    ["unlock"], ["unlock", "job"], ["unlock", "job", "a:1", "more"], ["unlock", "", "a:1"],
    ["extend", "job", "a:1"], ["extend", "-l", "5", "job"], ["ls", "a", "b"], ["ls", "--jsn"],
    ["show"], ["show", ""], ["show", "a", "b"], ["break"], ["break", "--yes", ""],
    ["server"], ["server", "restart"], ["server", "start", "stop"], ["completion"],
    ["completion", "ksh"], ["ls", "-o", "nonsense"], ["ls", "-o", "=x"], ["ls", "-o", "no_such=1"],
    ["ls", "-o", "command_timeout_ms=soon"], ["ls", "-o", "command_timeout_ms=-1"],
    ["ls", "-o", "x" * 100 + "=1"], ["ls", "--url", "http://host"], ["ls", "--url", ""],
    ["ls", "--url", "redis://"], ["ls", "-o"],
])
def test_wrong_use(offline, args):
    result = offline(*args)
    assert result.returncode == 125, result
    assert result.stdout == ""
    assert result.stderr != ""
    if args:
        assert_refused(result)


def test_bad_environment_is_named_and_help_still_works(offline):
    bad = {"LOCKKEEPER_COMMAND_TIMEOUT_MS": "soon"}
    assert_refused(offline("ls", **bad), "command_timeout_ms")
    assert offline("ls", "--help", **bad).returncode == 0


def test_names_that_are_too_long(offline):
    assert_refused(offline("run", b"x" * 65537, "true"))


@pytest.mark.parametrize("args", [
    ["-o", "password=S3cr3t"], ["--url", "redis://user:S3cr3t@host"],
    ["--url", "redis://:S3cr3t@host"],
    ["-o", "url=redis://u:S3cr3t@host/0"], ["--url", "unix://u:S3cr3t@/path"],
    ["--url", "redis://host?password=S3cr3t"], ["--url", "redis://host?spin_us=0&password=S3cr3t"],
])
def test_passwords_in_arguments_are_refused_and_not_repeated(offline, args):
    for command in (["ls"], ["run"]):
        rest = ["job", "true"] if command == ["run"] else []
        result = offline(*command, *args, *rest)
        assert_refused(result, "LOCKKEEPER_PASSWORD", "password_file")
        assert "S3cr3t" not in result.stderr


@pytest.fixture
def guarded(folder):
    """A server that wants a password, and the command without one."""
    (folder / "guarded").mkdir()
    server = Server(folder / "guarded", {"requirepass": "S3cr3t"}).start_anywhere()
    command = Command({"LOCKKEEPER_URL": server.unix_url})
    yield server, command
    command.stop()
    server.stop()


def test_secrets_do_not_reach_the_command(guarded, folder):
    server, cli = guarded
    secret = folder / "secret"
    secret.write_text("S3cr3t\n")
    secret.chmod(0o600)
    for environment in ({"LOCKKEEPER_PASSWORD": "S3cr3t"},
                        {"LOCKKEEPER_URL": f"unix://default:S3cr3t@{server.path}"},
                        {"LOCKKEEPER_PASSWORD_FILE": str(secret)}):
        result = cli("run", "job", "env", **environment)
        assert result.returncode == 0, result.stderr
        assert "S3cr3t" not in result.stdout
        url = environment.get("LOCKKEEPER_URL", server.unix_url).replace(":S3cr3t", "")
        assert f"LOCKKEEPER_URL={url}\n" in result.stdout


def memory_has(pid: int, secret: bytes) -> bool:
    """Whether the bytes are anywhere in what the process may write to."""
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            if " rw" not in line:
                continue
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            memory.seek(start)
            with contextlib.suppress(OSError):
                if secret in memory.read(end - start):
                    return True
    return False


@pytest.mark.skipif(SANITIZED, reason="measures the memory of a process")
@pytest.mark.parametrize("by", ["password", "url", "file"])
def test_the_guard_does_not_keep_the_password(guarded, folder, by):
    server, cli = guarded
    secret = folder / "secret"
    secret.write_text("S3cr3t\n")
    environment = {"password": {"LOCKKEEPER_PASSWORD": "S3cr3t"},
                   "url": {"LOCKKEEPER_URL": f"unix://default:S3cr3t@{server.path}"},
                   "file": {"LOCKKEEPER_PASSWORD_FILE": str(secret)}}[by]
    process = cli.start("run", "job", "sh", "-c", "echo in; exec sleep 60", **environment)
    assert process.stdout.readline() == "in\n"
    for pid in (process.pid, guard_of(process)):
        assert b"S3cr3t" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert memory_has(guard_of(process), b"job"), "the search finds what is there"
    assert not memory_has(guard_of(process), b"S3cr3t")
    process.terminate()
    assert process.wait(30) == 143


def test_a_missing_or_wrong_password_gives_125_and_is_not_shown(guarded):
    _, cli = guarded
    assert cli("run", "job", "true").returncode == 125
    result = cli("run", "job", "true", LOCKKEEPER_PASSWORD="wr0ng")
    assert result.returncode == 125 and "wr0ng" not in result.stderr


def test_a_command_inside_learns_where_the_password_went(guarded):
    _, cli = guarded
    result = cli("run", "job", "lockkeeper", "ls", LOCKKEEPER_PASSWORD="S3cr3t")
    assert result.returncode == 125 and "LOCKKEEPER_PASSWORD_FILE" in result.stderr
    assert "outer lockkeeper run" not in cli("ls").stderr


def test_version_and_help(offline):
    header = (ROOT / "include" / "lockkeeper" / "version.h").read_text()
    version = re.search(r'#define LK_VERSION "(.*)"', header).group(1)
    for option in ("--version", "-V"):
        assert offline(option).stdout == f"lockkeeper {version}\n"
    for option in ("--help", "-h"):
        text = offline(option).stdout
        assert all(f"\n  {command} " in text for command in COMMANDS)


def test_help_is_a_command_too(offline):
    assert offline("help").stdout == offline("--help").stdout
    for command in COMMANDS:
        assert offline("help", command).stdout == offline(command, "--help").stdout
    assert_refused(offline("help", "nonsense"), "nonsense")
    assert_refused(offline("help", "run", "lock"))


def options_of(offline, command: str) -> dict[str, bool]:
    """{--long or -x: whether it takes a value}, as --help has it."""
    text = offline(command, "--help").stdout
    assert text.startswith(f"usage: lockkeeper {command} ")
    found = {}
    for line in text.splitlines():
        if match := re.match(r"  (?:(-\w), |    )(--[\w-]+)( [A-Z=]+)?( |$)", line):
            for name in filter(None, match.group(1, 2)):
                found[name] = bool(match.group(3))
    assert {"-o", "--option", "-h", "--help"} <= set(found)
    assert ("--url" in found) == (command != "server")
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_has_every_command_and_option(offline, command):
    page = MANUAL.read_text()
    assert re.search(rf"^\.Cm {command}\b", page, re.M)
    for name in options_of(offline, command):
        # ".It Fl w , -wait Ar wait", ".It Fl -url Ar url", ".Op Fl -json"
        wanted = rf"^\.(It|Op|Fl)\b.*(Fl|,) {re.escape(name[1:])}\b"
        assert re.search(wanted, page, re.M), name


def test_the_synopsis_shows_options_as_they_are_typed():
    for line in MANUAL.read_text().splitlines():
        if line.startswith(".Op Fl"):
            assert not re.search(r"\| (?!Fl|Cm|Ar)", line), line


@pytest.mark.parametrize("args", [
    ["unlock", "text", "a:1"], ["extend", "-l", "5", "text", "a:1"], ["unlock", "free", "a:1"],
    ["fence", "check", "text", "4"], ["latch", "down", "text"], ["latch", "set", "text", "2"],
    ["sem", "show", "text"], ["sem", "set", "text", "4"], ["run", "-n", "text", "true"],
    ["run", "-n", "--permits", "3", "text", "true"], ["lock", "-n", "-l", "5", "text"],
    ["lock", "-n", "-l", "5", "full"], ["run", "-n", "full", "true"], ["break", "--yes", "list"],
    ["ls", "--url", "redis://127.0.0.1:1"], ["unlock", "", "a:1"], ["unlock", "job", ""],
])
def test_errors_name_no_functions_hashes_or_a_url_twice(cli, server, folder, args):
    server.call("SET", "text", "text")
    server.call("RPUSH", "list", "text")
    if "full" in args:
        server.call("CONFIG", "SET", "maxmemory", "1")
    result = cli(*args)
    assert result.returncode in (123, 125)
    text = result.stderr.replace(folder.name, "folder")  # a random name: it may end in "lk_"
    assert "lk_" not in text and "_field" not in text
    assert not re.search(r"[0-9a-f]{12}", text), text
    for url in re.findall(r"\w+://\S*[^:\s]", text):
        assert text.count(url) == 1


def test_a_windows_password_file_is_named(offline, folder):
    (folder / "secret").write_bytes(b"S3cr3t\r\n")
    result = offline("ls", "-o", f"password_file={folder}/secret")
    assert_refused(result, "password_file", "CR LF")
    assert "S3cr3t" not in result.stderr


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_the_manual_passes_mandoc():
    result = subprocess.run(["mandoc", "-T", "lint", MANUAL], capture_output=True, text=True)
    # Which other pages are installed is this machine's affair.
    machine = "outdated mandoc.db", "referenced manual not found"
    problems = [line for line in result.stdout.splitlines()
                if not any(words in line for words in machine)]
    assert problems == []


COMPLETE = """
source /usr/share/bash-completion/bash_completion 2>/dev/null
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
compopt() { :; }
_lockkeeper lockkeeper "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(offline, folder):
    script = folder / "completion"
    script.write_text(offline("completion", "bash").stdout)
    assert subprocess.run(["bash", "-n", script]).returncode == 0

    def words(*typed: str) -> list[str]:
        result = subprocess.run(["bash", "-c", COMPLETE, "-", script, "lockkeeper", *typed],
                                capture_output=True, text=True, timeout=30, cwd=folder)
        assert result.stderr == ""
        return result.stdout.split()
    return words


def test_the_completion_offers_commands(complete):
    assert complete("") == [*COMMANDS, "--help", "--version"]
    assert complete("ser") == ["server"]
    assert complete("server", "st") == ["start", "stop", "status"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_completion_offers_the_options_of_each_command(complete, offline, command):
    options = options_of(offline, command)
    assert sorted(complete(command, "-")) == sorted(options)
    for name, valued in options.items():
        # Behind an option with a value no option is offered; behind others they are.
        if name not in ("-o", "--option", "-s", "--signal", "-h", "--help"):
            assert bool(complete(command, name, "--o")) is not valued, name


def test_the_completion_knows_the_options_of_the_client(complete):
    assert complete("ls", "-o", "command_t") == ["command_timeout_ms="]
    assert "password=" not in complete("ls", "-o", "")
    assert "password_file=" in complete("ls", "-o", "pass")


def test_the_completion_offers_the_events_of_hooks(complete):
    assert complete("run", "--on", "s") == ["start=", "skip="]


def test_the_completion_offers_signals(complete):
    assert "SIGTERM" in complete("run", "-s", "T")


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_the_completion_continues_with_the_command_of_run(complete, folder):
    (folder / "some-file").touch()
    assert complete("run", "-w", "5", "job", "cat", "some-f") == ["some-file"]
    assert complete("run", "-n", "job", "--", "cat", "some-f") == ["some-file"]


def test_stdout_that_cannot_be_written_is_an_error(offline):
    for args in (["--help"], ["--version"], ["run", "--help"], ["completion", "bash"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, *args], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 125 and "stdout" in done.stderr, args
