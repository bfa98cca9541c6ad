"""The completions of zsh and fish, and the names of locks in those of all three shells."""
from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess

import pytest

from command import BINARY, Command
from private import servers_in
from test_usage import COMMANDS, offline, options_of  # noqa: F401  (a fixture)
from waiting import until

BASH = """
source "$1"; shift
compopt() { :; }
COMP_LINE=$1; COMP_POINT=${#1}; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_lockkeeper
printf '%s\\n' "${COMPREPLY[@]}"
"""

# Completes one line in a real line editor, and writes what is offered to a file.
ZSH = """
autoload -Uz compinit; compinit -D -u
source %(script)s
compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]] && { builtin compadd "$@"; return }
    local -a offered
    builtin compadd -O offered "$@"
    (($#offered)) && print -rl -- $offered >>%(out)s
    builtin compadd "$@"
}
zle -C capture complete-word capture
capture() { _main_complete }
zle-line-init() { LBUFFER=%(line)s; zle capture; print -r -- "$LBUFFER" >%(out)s.line; exit }
zle -N zle-line-init
"""


class Shell:
    """Completes lines in one shell, with a server of `environment`."""

    def __init__(self, name, folder, environment):
        self.name, self.folder = name, folder
        self.environment = {**os.environ, **environment, "TERM": "dumb", "HOME": str(folder),
                            "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder),
                            "PATH": f"{BINARY.parent}:{os.environ['PATH']}"}
        if "LOCKKEEPER_URL" not in environment:
            self.environment.pop("LOCKKEEPER_URL", None)
        self.script = folder / f"completion.{name}"
        self.script.write_text(Command(environment)("completion", name).stdout)
        assert subprocess.run([name, "-n", self.script]).returncode == 0

    def run(self, *args):
        done = subprocess.run(args, env=self.environment, cwd=self.folder, text=True, timeout=30,
                              capture_output=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    def bash(self, line):
        words = line.replace(":", " : ").split() + ([""] if line.endswith(" ") else [])
        return self.run("bash", "-c", BASH, "-", self.script, line, *words)

    def fish(self, line):
        asked = f"source {self.script}; complete -C {shlex.quote(line)}"
        return [text.split("\t")[0] for text in self.run("fish", "--no-config", "-c", asked)]

    def zsh(self, line):
        out = self.folder / "offered"
        out.unlink(missing_ok=True)
        (self.folder / ".zshrc").write_text(ZSH % {
            "script": self.script, "out": out, "line": shlex.quote(line)})
        leader, follower = pty.openpty()
        shell = subprocess.Popen(["timeout", "--foreground", "30", "zsh", "-d", "-i"],
                                 stdin=follower, stdout=follower, stderr=follower,
                                 env=self.environment, cwd=self.folder, start_new_session=True)
        os.close(follower)
        try:
            while os.read(leader, 4096):
                pass
        except OSError:
            pass  # the shell is gone
        os.close(leader)
        shell.wait()
        assert out.with_suffix(".line").exists()
        return out.read_text().splitlines() if out.exists() else []

    def __call__(self, line):
        return [word for word in getattr(self, self.name)(line) if word]


def shells(*names):
    return pytest.mark.parametrize("shell", [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name),
                                                    reason=f"{name} is not installed"))
        for name in names])


@pytest.fixture
def none(folder):
    return {"LOCKKEEPER_URL": f"unix://{folder}/none.sock"}


@shells("zsh", "fish")
def test_commands_and_operands(shell, folder, none):
    complete = Shell(shell, folder, none)
    assert set(COMMANDS) <= set(complete("lockkeeper "))
    assert complete("lockkeeper ser") == ["server"]
    assert sorted(complete("lockkeeper server st")) == ["start", "status", "stop"]
    assert sorted(complete("lockkeeper completion ")) == ["bash", "fish", "zsh"]


@shells("zsh", "fish")
def test_options(shell, folder, none, offline):  # noqa: F811
    complete = Shell(shell, folder, none)
    for command in ("run", "ls", "server"):
        options = [name for name in options_of(offline, command) if name.startswith("--")]
        assert sorted(complete(f"lockkeeper {command} --")) == sorted(options)
    assert complete("lockkeeper completion --url ba") == []
    assert [name.rstrip("=") for name in complete("lockkeeper ls -o command_t")] \
        == ["command_timeout_ms"]
    assert not [name for name in complete("lockkeeper ls -o pass") if name.rstrip("=")
                == "password"]
    assert "SIGTERM" in complete("lockkeeper run -s SIGT")
    assert sorted(name.rstrip("=") for name in complete("lockkeeper run --on s")) \
        == ["skip", "start"]


@shells("zsh", "fish")
def test_run_continues_with_its_command(shell, folder, none):
    (folder / "some-file").touch()
    complete = Shell(shell, folder, none)
    assert complete("lockkeeper run -w 5 job cat some-f") == ["some-file"]
    assert complete("lockkeeper run -n job -- cat some-f") == ["some-file"]
    assert "sleep" in complete("lockkeeper run job slee")


@shells("bash", "zsh", "fish")
def test_names_of_locks(shell, folder, server, cli):
    evil = f"evil$(touch {folder}/ran)`touch {folder}/ran`"
    for name in ("job-1", "job-2", "a b", "job:7:x", "-dash", "new\nline", evil):
        assert cli("lock", "-l", "1m", "--", name).returncode == 0
    complete = Shell(shell, folder, {"LOCKKEEPER_URL": server.unix_url})
    assert complete("lockkeeper show job-") == ["job-1", "job-2"]
    assert complete("lockkeeper run -w 5 job-") == ["job-1", "job-2"]
    assert complete("lockkeeper unlock job:7:")[0].endswith("x")
    offered = complete("lockkeeper break ")
    assert len(offered) == 5 and "-dash" not in offered
    assert len(complete("lockkeeper show evil")) == 1
    assert not (folder / "ran").exists()
    assert "job-1" not in complete("lockkeeper unlock job-1 ")


@shells("bash", "zsh", "fish")
def test_names_of_locks_never_start_a_server(shell, folder, bare, no_server_is_left):
    complete = Shell(shell, folder, {"LOCKKEEPER_STATE_DIR": str(folder / "state")})
    assert complete("lockkeeper show ") == []
    # A child of the shell may end a moment after it; a server would stay.
    until(lambda: not servers_in(folder), 5, "no process is left in the folder")
    assert not (folder / "state").exists()
    assert bare("lock", "-l", "1m", "mine").returncode == 0
    assert complete("lockkeeper show m") == ["mine"]


@shells("bash", "zsh", "fish")
def test_names_of_the_server_that_the_file_of_options_names(shell, folder, server, cli):
    assert cli("lock", "-l", "1m", "ours").returncode == 0
    conf = folder / "lockkeeper.conf"
    conf.write_text(f"url={server.unix_url}\n")
    complete = Shell(shell, folder, {"LOCKKEEPER_STATE_DIR": str(folder / "state"),
                                     "LOCKKEEPER_CONFIG": str(conf)})
    assert complete("lockkeeper show o") == ["ours"]
    assert not (folder / "state").exists()


@shells("bash", "zsh", "fish")
def test_a_server_that_does_not_answer_is_silent(shell, folder, server):
    server.pause()
    assert Shell(shell, folder, {"LOCKKEEPER_URL": server.unix_url})("lockkeeper show ") == []


@shells("bash", "zsh", "fish")
def test_names_of_counters(shell, folder, server, cli):
    assert cli("sem", "set", "job-sem", "2").returncode == 0
    assert cli("latch", "set", "job-latch", "2").returncode == 0
    assert cli("lock", "-l", "1m", "job-lock").returncode == 0
    complete = Shell(shell, folder, {"LOCKKEEPER_URL": server.unix_url})
    for begun in ("sem show", "sem delete --force", "latch wait -w 5", "latch -n wait"):
        assert sorted(complete(f"lockkeeper {begun} job-")) == ["job-latch", "job-sem"]
    assert sorted(complete("lockkeeper latch -n ")) == ["delete", "down", "set", "wait"]
    assert "--wait" in complete("lockkeeper latch wait --")
    for begun in ("latch set job-latch", "fence check", "server start", "completion bash"):
        assert complete(f"lockkeeper {begun} ") == []
