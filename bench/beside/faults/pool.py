#!/usr/bin/env python3
"""A pool in transaction mode (PgBouncer) gives the holder's connection to somebody else: does the
lock keep that one out?"""
import stage
import servers


def ask(case: stage.Case) -> dict:
    folder = case.folder / "pool"
    folder.mkdir(mode=0o755)
    with servers.pgbouncer(folder, case.server) as pool:
        first = case.holder(5, pool.url)
        second = case.worker(3, pool.url)
        second.granted(10)
        for worker in (first, second):
            worker.released(10)
        granted = next(iter(second.holds()), None)
        outcomes = [hold.outcome for worker in (first, second) for hold in worker.holds()]
        begun_ns = first.holds()[0].granted
        return {**stage.verdict(granted, begun_ns, stage.learnt_ns(first)),
                "releases_say": outcomes}


def unfit(system: stage.System) -> str | None:
    return None if system.server == "postgres" else "PgBouncer is in front of PostgreSQL alone"


QUESTION = stage.question(__file__, __doc__, ask, unfit)

if __name__ == "__main__":
    stage.main(QUESTION)
