#!/usr/bin/env python3
"""Sweeps seeds of the simulated worlds (tests/sim/) on all cores.

usage: sweep_seeds.py [--build DIR] [--from SEED] [--jobs N] SEEDS [WORLD…]

SEEDS of each world, from a random seed on, or that of --from. Goes on behind a failure, prints each
with its world and seed, and ends with a sum. Status 1: a seed has failed.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys

CHUNK = 100  # seeds of one process
SEED_LIMIT_S = 60  # for one that takes 20 ms
REPORTED = re.compile(r"seed (\d+), at .*")


def budgets(program):
    """Each world, and how many of its seeds `make check` runs."""
    said = subprocess.run([program, "--worlds"], stdout=subprocess.PIPE, text=True, check=True)
    return {name: int(seeds) for name, seeds in map(str.split, said.stdout.splitlines())}


def run(program, world, seed, count):
    """The status of a process, and the line of its failure."""
    words = [program, world, str(seed), str(count)]
    limit_s = SEED_LIMIT_S + count
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace",
                              timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"not done after {limit_s} s"
    said = REPORTED.search(done.stderr) or REPORTED.search(done.stdout)
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return done.returncode, said.group(0) if said else f"status {done.returncode}: {last}"


def sweep(program, world, seed, count):
    """Failures, as (world, seed, words). One that names no seed is looked for, one by one."""
    failures = []
    end = seed + count
    while seed < end:
        status, words = run(program, world, seed, end - seed)
        if status == 0:
            break
        named = REPORTED.match(words)
        if named:
            failures.append((world, int(named.group(1)), words))
            seed = int(named.group(1)) + 1
        elif end - seed == 1:
            failures.append((world, seed, words))
            break
        else:
            for one in range(seed, end):
                failures += sweep(program, world, one, 1)
            break
    return failures


def parse():
    """The command line, and the program that it names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--from", dest="first", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("seeds", type=int)
    parser.add_argument("worlds", nargs="*")
    options = parser.parse_args()
    program = os.path.join(options.build, "tests", "sim", "test_sim")
    worlds = list(budgets(program))
    unknown = [world for world in options.worlds if world not in worlds]
    if unknown:
        parser.error(f"no world {unknown[0]}: " + ", ".join(worlds))
    options.worlds = options.worlds or worlds
    return options, program


def main():
    """The whole sweep."""
    options, program = parse()
    first = options.first if options.first is not None else random.randrange(10**6, 10**9)
    chunks = [(world, first + at, min(CHUNK, options.seeds - at))
              for at in range(0, options.seeds, CHUNK) for world in options.worlds]
    print(f"{options.seeds} seeds from {first} on, of each of:", *options.worlds, flush=True)
    total = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waits = [pool.submit(sweep, program, *chunk) for chunk in chunks]
        for wait in concurrent.futures.as_completed(waits):
            for world, seed, words in wait.result():
                total += 1
                print(f"{world} {seed}: {words}", flush=True)
    if total:
        print(f"its history: {program} WORLD SEED; a shorter one: {program} --shrink WORLD SEED")
    print(f"{options.seeds * len(options.worlds)} seeds, {total} failed")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
