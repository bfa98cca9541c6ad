"""A server that refuses writes for a while, by the first word of its refusal."""
from __future__ import annotations

import contextlib

from waiting import until


@contextlib.contextmanager
def setting(server, name, value, back):
    server.set(name, value)
    yield
    server.set(name, back)


@contextlib.contextmanager
def failed_save(server):
    """There is a folder in the place of its file."""
    place = server.folder / "dump.rdb"
    place.mkdir()
    server.set("save", "900 1")
    server.call("BGSAVE")
    until(lambda: server.info("rdb_last_bgsave_status") == "err", 30, "the save has failed")
    yield
    place.rmdir()
    server.call("BGSAVE")
    until(lambda: server.info("rdb_last_bgsave_status") == "ok", 30, "a save")
    server.set("save", "")


WRITES_REFUSED = {"NOREPLICAS": lambda server: setting(server, "min-replicas-to-write", 1, 0),
                  "MISCONF": failed_save}
