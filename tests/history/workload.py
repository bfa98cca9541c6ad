"""One workload for every lock, ours and others': what may go wrong, in turn, at every message.

A victim takes a lock and gives it back, and on its way one thing goes wrong. Two rivals then use
the lock, the second while the first has it. Each such scene has a lock, a proxy for the victim's
messages, and three processes of its own; nothing in it is left to chance: the scene waits for
what has to have happened before it goes on.

    held back N     message N of the victim (requests and replies, from 0) arrives when a rival has
                    the lock: a slow network, a process that is stopped between two commands
    killed N        the victim dies, and message N with it
    stopped         the victim is stopped in its hold until a rival has the lock
    victim's clock, rival's clock
                    one wall clock is wrong while the victim has the lock
"""
from __future__ import annotations

import concurrent.futures
import pathlib
import threading
from dataclasses import dataclass, field

import checker
from keeper import BUILD, DRIVER, Keeper
from proxy import SWALLOW, Message, Park, Proxy
from recorder import Recorder
from servers import Server
from waiting import until

LEASE_MS = 800           # the victim's
LONG_LEASE_MS = 60_000   # the rivals': it never ends here
PATIENCE_MS = 6_000      # far longer than the victim's lease
NO_PATIENCE_MS = 300
IDLE_LIMIT_NS = 3_000_000_000
HOUR_MS = 3_600_000
MESSAGES_MAX = 12
SIDE_BY_SIDE = 8
SKEW = BUILD / "tests" / "history" / "skew.so"


@dataclass(frozen=True)
class Target:
    """What is under test: a program, and what it is told with each command."""
    name: str
    program: pathlib.Path = DRIVER
    victim: dict = field(default_factory=dict)
    rival: dict = field(default_factory=dict)
    other: dict = field(default_factory=dict)
    lasts: bool = False  # what a dead process has is never given back

    def __str__(self) -> str:
        return self.name


class Fault:
    """A rule for the proxy: message `number` of those since it was armed is treated badly."""

    def __init__(self, number: int, deaf: bool):
        self.number, self.deaf = number, deaf
        self.seen = 0
        self.hit, self.gate = threading.Event(), threading.Event()

    def __call__(self, _: Message):
        index, self.seen = self.seen, self.seen + 1
        if index < self.number:
            return None
        self.hit.set()
        if self.deaf:
            return SWALLOW
        return Park(event=self.gate) if index == self.number else None


class Scene:
    """The processes around one lock."""

    def __init__(self, target: Target, server: Server, name: str, clocks=(0, 0)):
        self.target, self.name = target, name
        self.recorder = Recorder()
        self.proxy = Proxy(server.path, f"{server.folder}/{name}.sock")
        self.victim = self.program(self.proxy.unix_url, clocks[0])
        self.rival = self.program(server.unix_url, clocks[1])
        self.other = self.program(server.unix_url, 0)
        self.words = {self.victim: target.victim, self.rival: target.rival,
                      self.other: target.other}
        for program in self.words:  # connections are made, scripts are loaded
            self.within(program, LONG_LEASE_MS, name + "-before").result().ok()
            self.release(program, name + "-before").result()

    def program(self, url: str, clock_ms: int) -> Keeper:
        # By a bare name: LD_PRELOAD would end at a space of the path.
        skewed = ("env", f"LD_LIBRARY_PATH={SKEW.parent}", f"LD_PRELOAD={SKEW.name}",
                  f"LOCKKEEPER_TEST_CLOCK_MS={clock_ms}")
        return Keeper(url, program=(*(skewed if clock_ms else ()), self.target.program))

    def names(self, program, name: str) -> str:
        """What the program calls the lock; of a multi lock it is one part among others."""
        name = name or self.name
        multi = self.words[program].get("kind") == "multi"
        return f"{name}-a,{name},{name}-z" if multi else name

    def within(self, program, lease_ms: int, name: str = "", wait_ms: int = PATIENCE_MS):
        return self.recorder.say(program, "within", self.names(program, name), lease=lease_ms,
                                 wait=wait_ms, **self.words[program])

    def release(self, program, name: str = ""):
        return self.recorder.say(program, "release", self.names(program, name),
                                 **self.words[program])

    def end(self) -> None:
        for program in self.words:
            program.stop()
        self.proxy.stop()

    def victim_runs_into(self, fault: Fault):
        """The victim's pair up to the fault: its acquire, and its release or None."""
        self.proxy.rule = fault
        acquire, release = self.within(self.victim, LEASE_MS, wait_ms=2000), None
        until(lambda: fault.hit.is_set() or acquire.done, 20, "the acquire or its fault")
        if not fault.hit.is_set():
            acquire.result().ok()
            release = self.release(self.victim)
            until(fault.hit.is_set, 20, "the fault of the release")
        return acquire, release

    def rivals_meet(self, between=lambda: None) -> None:
        """The first gets the lock, the second asks while the first has it; then once more."""
        first = self.within(self.rival, LONG_LEASE_MS).result()
        between()
        if first.code != "OK":
            return
        second = self.within(self.other, LONG_LEASE_MS, wait_ms=NO_PATIENCE_MS).result()
        self.release(self.rival).result()
        if second.code == "OK":
            self.release(self.other).result()
        if self.within(self.other, LONG_LEASE_MS).result().code == "OK":
            self.release(self.other).result()

    def violations(self) -> list[str]:
        records = self.recorder.records()
        found = checker.violations(records, idle_limit_ns=IDLE_LIMIT_NS)
        found += checker.malformed(records)
        over = checker.returned_over(records)
        return found + [f"over when returned: {record}" for record in over]


def undisturbed(scene: Scene) -> None:
    scene.proxy.rule = scene.counter = Fault(1 << 30, deaf=False)
    scene.within(scene.victim, LEASE_MS).result().ok()
    scene.release(scene.victim).result()
    scene.proxy.rule = None
    scene.rivals_meet()


def held_back(scene: Scene, number: int) -> None:
    fault = Fault(number, deaf=False)
    acquire, release = scene.victim_runs_into(fault)

    def arrives() -> None:
        fault.gate.set()
        if acquire.result().code == "OK":
            (release or scene.release(scene.victim)).result()
    scene.rivals_meet(arrives)


def killed(scene: Scene, number: int) -> None:
    scene.victim_runs_into(Fault(number, deaf=True))
    scene.victim.kill()
    scene.rivals_meet()


def stopped(scene: Scene) -> None:
    scene.within(scene.victim, LEASE_MS).result().ok()
    scene.victim.pause()

    def goes_on() -> None:
        scene.victim.resume()
        scene.release(scene.victim).result()
    scene.rivals_meet(goes_on)


def wrong_clock(scene: Scene) -> None:
    scene.within(scene.victim, LONG_LEASE_MS).result().ok()
    if scene.within(scene.rival, LONG_LEASE_MS, wait_ms=NO_PATIENCE_MS).result().code == "OK":
        scene.release(scene.rival).result()
    scene.release(scene.victim).result()
    scene.rivals_meet()


def scenes(target: Target, messages: int) -> dict:
    """By name: what happens, and the two clocks. A pair of the target takes so many messages."""
    made = {f"held back {number}": (held_back, (0, 0), number) for number in range(messages)}
    if not target.lasts:
        made |= {f"killed {number}": (killed, (0, 0), number) for number in range(messages)}
        made["stopped"] = (stopped, (0, 0))
    for clock_ms, word in ((HOUR_MS, "ahead"), (-HOUR_MS, "behind")):
        made[f"victim's clock {word}"] = (wrong_clock, (clock_ms, 0))
        made[f"rival's clock {word}"] = (wrong_clock, (0, clock_ms))
    return made


def play(target: Target, server: Server, name: str, happens, clocks, *arguments) -> Scene:
    scene = Scene(target, server, name, clocks)
    try:
        happens(scene, *arguments)
    finally:
        scene.end()
    return scene


def run(target: Target, server: Server) -> dict[str, list[str]]:
    """Plays every scene; the violations by its name, without those that had none."""
    calm = play(target, server, "undisturbed", undisturbed, (0, 0))
    messages = calm.counter.seen
    assert 0 < messages <= MESSAGES_MAX, f"a pair takes {messages} messages"
    found = {"undisturbed": calm.violations()}
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        names = {name: f"scene{number}" for number, name in enumerate(scenes(target, messages))}
        played = {name: pool.submit(play, target, server, names[name], *scene)
                  for name, scene in scenes(target, messages).items()}
        found |= {name: scene.result().violations() for name, scene in played.items()}
    return {name: texts for name, texts in found.items() if texts}
